"""Jobs on GPUs: what node agents do in the live loop, and the services that take their reports.

It carries out plans and lets attempts end. What it learns it puts into the facts of the next round.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from itertools import count

from scheduler.core.fitting.capacity import Capacity
from scheduler.core.model.attempts import (
    OUTCOME_BY_CAUSE,
    EndJob,
    JobAfter,
    PartExited,
    Stopped,
    planned,
    step,
    stop_cause,
)
from scheduler.core.model.lifecycle import AttemptState, JobEvent, Outcome, StopCause
from scheduler.core.model.plan import Action, ActionKind
from scheduler.core.model.snapshot import AllocationId, GpuId, Job, JobId, Running, Snapshot
from scheduler.core.round.facts import Facts
from scheduler.core.sim.budget_meter import BudgetMeter
from scheduler.core.sim.costs import Costs
from scheduler.core.sim.crowding import Crowding
from scheduler.core.sim.drain_deadlines import DrainDeadlines
from scheduler.core.sim.event_queue import EventQueue, nothing
from scheduler.core.sim.failures import Failure
from scheduler.core.sim.job_steps import JobSteps
from scheduler.core.sim.loss_reporter import LossReporter
from scheduler.core.sim.occupancy import Occupancy
from scheduler.core.sim.progress import CRASHED, DONE, GANG, NODE_LOST, STOPPED, Attempt, Progress
from scheduler.core.sim.result import StayEnd
from scheduler.core.sim.rules import Rules
from scheduler.core.sim.sampler import ClusterSampler
from scheduler.core.sim.scaling_jobs import ScalingJobs
from scheduler.core.sim.stays import Stays
from scheduler.core.sim.step_reporter import StepReporter
from scheduler.core.sim.training_reporter import TrainingReporter
from scheduler.core.sim.workload import Truth

#: Why a stay ends that is ended by others, and what that is called in its record.
_CAUSES: Mapping[StayEnd, StopCause] = {
    "preempted": StopCause.PREEMPTED,
    "cancelled": StopCause.CANCELLED,
    "time_limit": StopCause.TIME_LIMIT,
    "drained": StopCause.DRAINED,
    "moved": StopCause.MIGRATED,
    "resized": StopCause.MIGRATED,
}
_STAY_ENDS: Mapping[str, StayEnd] = {
    "preempted": "preempted",
    "cancelled": "cancelled",
    "time_limit": "time_limit",
    "drained": "drained",
}
#: Outcomes after which a job goes on in another attempt, from a checkpoint if it could write one.
_GOES_ON = frozenset({Outcome.PREEMPTED, Outcome.LOST})


class SimulatedCluster:
    """Who is where, how far each job has come, and the account of every stay on GPUs."""

    def __init__(self, facts: Facts, rules: Rules, events: EventQueue) -> None:
        #: What the next round will be decided on.
        self.facts = facts
        self.rules = rules
        self.progress: dict[JobId, Progress] = {}
        self.stays = Stays(lambda: self.facts, self.progress, events)
        self.sampler = ClusterSampler()
        self.occupancy = Occupancy(self.facts.device_bytes)
        self.budgets = BudgetMeter(
            facts.tenants.values(), facts.frame.prices, events, notify=self._note_budget
        )
        self._jobs = JobSteps(lambda: self.facts, self.progress, self.sampler, events, rules)
        self._drain_deadlines = DrainDeadlines(events)
        self._events = events
        self._training = TrainingReporter(lambda: self.facts, self.progress, events)
        self._losses = LossReporter(lambda: self.facts, self.progress, events)
        self._steps = StepReporter(lambda: self.facts, self.progress, events, is_on=rules.tells_steps)
        self._scaling = ScalingJobs(
            lambda: self.facts, self.progress, events, known=rules.goodput, change_speed=self._change_speed
        )
        self._crowding = Crowding(rules.interference)
        self._allocations = count(1 + max(facts.running, default=0))
        #: How the stay on an allocation that is stopping will have ended, and for whom it gave way.
        self._ends: dict[AllocationId, tuple[StayEnd, tuple[JobId, ...]]] = {}

    # What the plan says

    def carry_out(self, actions: Sequence[Action]) -> None:
        """Do what a plan says: first who stops, then who starts in their places."""
        for action in actions:
            if action.kind is ActionKind.REGRADE:
                self._regrade(action)
            elif action.allocation is not None:
                self._stop(action)
        for action in actions:
            if action.placement is not None:
                self._start(action)
        if actions and self.rules.costs.event_seconds:
            self._pause_others({job for action in actions for job in action.jobs})

    def _pause_others(self, named: Set[JobId]) -> None:
        """Let everyone who runs on pay for a round that changed something."""
        for running in self.facts.running.values():
            for job in running.jobs:
                attempt = self.progress[job].attempt
                if job not in named and attempt is not None and attempt.state is AttemptState.RUNNING:
                    attempt.pause(self._events.now, self.rules.costs.event_seconds)
                    self._reschedule(job)

    def _regrade(self, action: Action) -> None:
        assert action.allocation is not None
        running = self.facts.running[action.allocation]
        if running.guaranteed != action.guaranteed:
            self.facts.put_running(replace(running, guaranteed=action.guaranteed))

    def _stop(self, action: Action) -> None:
        assert action.allocation is not None
        running = self.facts.running[action.allocation]
        if action.kind is ActionKind.STOP:
            end = _STAY_ENDS[action.cause]
        else:
            end = "moved" if action.kind is ActionKind.MOVE else "resized"
        if running.is_nominated:
            self._take_back(running)
            for job in running.jobs:
                cause = self._cause_for(job, running, end)
                _, effects = step(planned(0, [GANG]), Stopped(cause=cause))
                if (
                    isinstance(effects[-1], EndJob)
                    and self._jobs.after(job, effects[-1]) is JobAfter.CANCELLED
                ):
                    self._jobs.close(job, JobEvent.CANCELLED)
            return
        self._send_away(running, end, action.preempted_by)

    def _send_away(self, running: Running, end: StayEnd, preempted_by: tuple[JobId, ...] = ()) -> None:
        """Let the jobs leave their GPUs, those that go on elsewhere when they have written a checkpoint."""
        self._tell_to_stop(running, end, preempted_by)
        if OUTCOME_BY_CAUSE[_CAUSES[end]] in _GOES_ON and self._checkpoint_seconds(running):
            self.facts.put_running(replace(running, stopping=True))
            self._release_after_checkpoint(running)
        else:
            self._release(running.allocation)

    def _tell_to_stop(self, running: Running, end: StayEnd, preempted_by: tuple[JobId, ...] = ()) -> None:
        """Note how the stay will have ended, and let its jobs make no more progress."""
        self._ends[running.allocation] = end, preempted_by
        for job in running.jobs:
            self.progress[job].stop(self._events.now, self._cause_for(job, running, end))

    def _cause_for(self, job: JobId, running: Running, end: StayEnd) -> StopCause:
        known = self.facts.jobs[job]
        limit = known.time_limit_seconds
        is_over = limit is not None and self._events.now >= running.since + limit
        return stop_cause(_CAUSES[end], is_over=is_over, cancelling=known.cancelling)

    def _checkpoint_seconds(self, running: Running) -> float:
        return max([self.rules.costs.of(self.progress[job].job).checkpoint_seconds for job in running.jobs])

    def _release_after_checkpoint(self, running: Running) -> None:
        pause = self._checkpoint_seconds(running)
        self._events.schedule(self._events.now + pause, partial(self._release, running.allocation))

    def _start(self, action: Action) -> None:
        assert action.placement is not None
        running = Running(
            allocation=AllocationId(next(self._allocations)),
            jobs=action.jobs,
            gpu_model=action.placement.gpu_model,
            replicas=action.placement.replicas,
            phase="planned",
            since=self._events.now,
            guaranteed=action.guaranteed,
            slice_seconds=action.slice_seconds,
            opportunistic_gpus=action.opportunistic_gpus,
        )
        if self._may_begin(running):
            self._begin(running)
            return
        self.occupancy.nominate(running.allocation, running.gpus, self.facts.shares(running))
        self.facts.put_running(running)

    # What happens

    def know(self, job: Job, truth: Truth) -> None:
        facts = self.facts
        cost_seconds = job.preemption_cost_seconds or self.rules.costs.of(job).preemption_seconds
        known = replace(job, preemption_cost_seconds=cost_seconds)
        best = self.rules.speeds.best(job, facts.cluster.models)
        self.progress[job.id] = Progress(known, truth, best)
        self._training.add(job, truth)
        self._losses.add(job, truth)
        facts.put_job(self._scaling.add(known, truth))

    def take_over(self, facts: Snapshot, truths: Mapping[JobId, Truth]) -> None:
        """Go on from where the given facts are."""
        for waiting in facts.jobs:
            self.submit(waiting, truths[waiting.id])
        for running in facts.running:
            if running.is_nominated:
                self.occupancy.nominate(running.allocation, running.gpus, self.facts.shares(running))
                continue
            self.occupancy.hold(running.allocation, running.gpus, self.facts.shares(running))
            self._use(running)
            self._change_speeds(self._crowding.come(running.allocation, self._nodes_of(running)))
            for job in running.jobs:
                self._put_to_work(job, running, is_resumed=True)
            if running.stopping:
                self._tell_to_stop(running, "preempted")
                self._release_after_checkpoint(running)

    def submit(self, job: Job, truth: Truth) -> None:
        """A job comes and waits."""
        self.know(job, truth)
        self.sampler.add_waiting(job)
        for instant in (job.eligible_at, job.may_borrow_at):
            if instant > self._events.now:
                self._events.schedule(instant, nothing)

    def dismiss(self, job: JobId, outcome: str) -> None:
        """Send a job home that has waited in vain."""
        self.progress[job].outcome = outcome
        self.sampler.drop_waiting(self.progress[job].job)
        self.facts.drop_job(job)

    def tell(self) -> None:
        """Let the scheduler know how far the jobs that run have come, and which nodes close too soon."""
        self._drain_deadlines.update(self.facts)
        self._steps.report()
        self._training.report()
        self._losses.report()
        self._scaling.report()

    def look(self, capacity: Capacity) -> None:
        """Take a look at the cluster after a round, which left this capacity."""
        self.sampler.sample(self._events.now, self.facts.cluster, capacity, self.occupancy.held)

    def cancel(self, job: JobId) -> None:
        """Its user wants a job no more: it leaves at once, without a checkpoint, as in the live loop.

        One that is writing its checkpoint is not queued again when it has; nothing happens to one that ended.
        """
        facts = self.facts
        if job not in facts.jobs:
            return
        running = facts.current.get(job)
        facts.put_job(replace(facts.jobs[job], cancelling=True))
        if running is not None and running.phase == "held":
            self.progress[job].stop(self._events.now, StopCause.CANCELLED)
            self._jobs.take_after(job, self._vacate(job, "cancelled", STOPPED))
            return
        if running is not None:
            self._take_back(running)
        if job in facts.stopping:
            self.progress[job].stop(self._events.now, StopCause.CANCELLED)
        else:
            self._jobs.close(job, JobEvent.CANCELLED)

    def finish(self, job: JobId) -> None:
        """A job that runs ends now, whatever work it had left; one that waits or is stopping goes on."""
        attempt = self.progress[job].attempt if job in self.progress else None
        if attempt is not None and attempt.state is AttemptState.RUNNING:
            self._finish(job)

    def lose(self, present: Collection[GpuId]) -> None:
        """Attempts on GPUs other than these are lost, and nominations for them dropped."""
        for running in list(self.facts.running.values()):
            if all(gpu in present for gpu in running.gpus):
                continue
            if running.is_nominated:
                self._take_back(running)
            else:
                self._ends.setdefault(running.allocation, ("lost", ()))
                self._release(running.allocation)

    def empty(self, gpus: Set[GpuId]) -> None:
        """Who is on these GPUs writes a checkpoint and goes on elsewhere; nominations for them end."""
        there = [running for running in self.facts.running.values() if not gpus.isdisjoint(running.gpus)]
        for running in there:
            if running.is_nominated:
                self._take_back(running)
        for running in there:
            if running.phase == "held" and not running.stopping:
                self._send_away(running, "drained")

    # On and off the GPUs

    def _use(self, running: Running, sign: int = 1) -> None:
        """Count the GPUs as used by the tenants of its jobs from now on, half each where two share them."""
        part = sign * self.facts.amount(running) / len(running.jobs)
        for job in running.jobs:
            self.budgets.change(self.progress[job].job.tenant, running.gpu_model, part)

    def _note_budget(self, name: str, is_spent: bool, renewed_at: float | None) -> None:
        tenant = self.facts.tenants[name]
        self.facts.put_tenant(replace(tenant, budget_spent=is_spent, budget_renewed_at=renewed_at))

    def _take_back(self, running: Running) -> None:
        """Take the GPUs, or its nomination for them, from an allocation: it is over."""
        if running.phase == "held":
            self._use(running, -1)
        self.occupancy.release(running.allocation, running.gpus)
        self.facts.drop_running(running.allocation)
        self._change_speeds(self._crowding.go(running.allocation))

    def _may_begin(self, running: Running) -> bool:
        """Whether the GPUs are free, and the jobs have left where they were before."""
        has_left = all(self.progress[job].attempt is None for job in running.jobs)
        return has_left and self.occupancy.is_free(running.gpus, self.facts.shares(running))

    def _begin(self, running: Running) -> None:
        self.occupancy.hold(running.allocation, running.gpus, self.facts.shares(running))
        self._use(running)
        crowded = self._crowding.come(running.allocation, self._nodes_of(running))
        self.facts.put_running(replace(running, phase="held", since=self._events.now))
        for job in running.jobs:
            known = self.facts.jobs[job]
            self.facts.put_job(replace(known, attempts=known.attempts + 1))
            self._put_to_work(job, running)
        self._measure(running.allocation)
        self._change_speeds([each for each in crowded if each != running.allocation])

    def _put_to_work(self, job: JobId, running: Running, *, is_resumed: bool = False) -> None:
        progress = self.progress[job]
        self.sampler.start(progress.job)
        costs = Costs() if is_resumed else self.rules.costs.of(progress.job)
        self._scaling.begin(job, running)
        progress.begin(self._events.now, running.gpus, self._rate(job, running), costs)
        self._training.begin(job)
        self._losses.begin(job)
        self._steps.begin(job, running)
        self._reschedule(job)
        limit = progress.job.time_limit_seconds
        since = running.since if is_resumed else self._events.now
        if limit is not None and since + limit < progress.foresee_end():
            self._events.schedule(max(self._events.now, since + limit), nothing)

    def _rate(self, job: JobId, running: Running) -> float:
        alone = self._scaling.rate(job)
        if alone is None:
            nodes, gpus = len(self._nodes_of(running)), len(running.gpus)
            alone = self.rules.speeds.alone(self.progress[job].job, running.gpu_model, gpus, nodes)
        alone *= self._crowding.factor(running.allocation)
        return alone * self._speed_beside_others(job, running) if len(running.jobs) > 1 else alone

    def _nodes_of(self, running: Running) -> set[object]:
        return {self.facts.cluster.where[gpu][:2] for gpu in running.gpus}

    def _change_speeds(self, allocations: Sequence[AllocationId]) -> None:
        for allocation in allocations:
            for job in self.facts.running[allocation].jobs:
                self._change_speed(job)

    def _change_speed(self, job: JobId) -> None:
        """Go on at what is now the speed of a job, unless it makes no more progress."""
        attempt = self.progress[job].attempt
        if attempt is not None and attempt.state is AttemptState.RUNNING:
            self.progress[job].change_rate(self._events.now, self._rate(job, self.facts.current[job]))
            self._reschedule(job)

    def _speed_beside_others(self, job: JobId, running: Running) -> float:
        """Return how fast a job is among those it shares the GPUs with, relative to having them alone."""
        if running.slice_seconds is not None:
            return 1 / len(running.jobs)
        others = [self.progress[other].job for other in running.jobs if other != job]
        return self.rules.speeds.together(self.progress[job].job, others, running.gpu_model)

    def _measure(self, allocation: AllocationId) -> None:
        """Let the scheduler know how fast jobs that share GPUs are there."""
        running = self.facts.running[allocation]
        if len(running.jobs) > 1 and running.slice_seconds is None:
            speeds = {job: self._speed_beside_others(job, running) for job in running.jobs}
            self.facts.put_running(replace(running, speeds=speeds))

    def _reschedule(self, job: JobId) -> None:
        """Plan the end of the attempt, or the failure that comes before."""
        self._training.schedule_change(job)
        self._scaling.schedule_epoch(job)
        progress = self.progress[job]
        attempt, rules = progress.present, self.rules
        version, ends_at = attempt.version, progress.foresee_end()
        failure = None
        if rules.failures.probability:
            failure = rules.failures.strike(rules.seed, job, progress.attempts)
        if failure is not None:
            strikes_at = attempt.counted_at + max(0.0, failure.after_seconds - attempt.worked) / attempt.rate
            if strikes_at < ends_at:
                self._events.schedule(strikes_at, partial(self._fail, job, attempt, version, failure))
                return
        self._events.schedule(ends_at, partial(self._end, job, attempt, version))

    def _end(self, job: JobId, attempt: Attempt, version: int) -> bool:
        if attempt.version != version or attempt.state is not AttemptState.RUNNING:
            return False
        self._finish(job)
        return True

    def _finish(self, job: JobId) -> None:
        self._jobs.take_after(job, self._vacate(job, "finished", DONE))

    def _fail(self, job: JobId, attempt: Attempt, version: int, failure: Failure) -> bool:
        if attempt.version != version or attempt.state is not AttemptState.RUNNING:
            return False
        attempt.count(self._events.now)
        end = self._vacate(job, "failed", CRASHED, kept=self.rules.costs.kept_of(attempt.worked))
        self._jobs.take_after(job, end, failure)
        return True

    def _vacate(self, job: JobId, end: StayEnd, how: PartExited, kept: float | None = None) -> EndJob:
        """A job leaves its GPUs by itself; those it shared them with go on alone."""
        facts = self.facts
        running = facts.current[job]
        ended = self._record_stay(job, running, end, (), how, kept)
        others = tuple([other for other in running.jobs if other != job])
        if not others:
            self._take_back(running)
            self._promote(running.gpus, (job,))
            return ended
        fewer = replace(running, jobs=others, speeds={})
        self._use(running, -1)
        self._use(fewer)
        facts.put_running(fewer)
        for other in others:
            self._steps.note(other, running)
            self.progress[other].change_rate(self._events.now, self._rate(other, fewer))
            self._reschedule(other)
        self._measure(running.allocation)
        return ended

    def _release(self, allocation: AllocationId) -> bool:
        """The GPUs of a stopped allocation come free; its jobs wait again or have ended."""
        facts = self.facts
        if allocation not in facts.running:
            return False  # Its node was lost while it wrote its checkpoint.
        running = facts.running[allocation]
        recorded, preempted_by = self._ends.pop(allocation)
        self._take_back(running)
        for job in running.jobs:
            cause = self.progress[job].present.known.stop_cause
            end: StayEnd = "preempted" if cause is StopCause.PREEMPTED else recorded
            how, kept = STOPPED, None
            if end == "lost":
                attempt = self.progress[job].present
                attempt.count(self._events.now)
                how, kept = NODE_LOST, self.rules.costs.kept_of(attempt.worked)
            ended = self._record_stay(job, running, end, preempted_by, how, kept)
            if self._jobs.take_after(job, ended) is JobAfter.PREEMPTED and cause is not StopCause.MIGRATED:
                self.progress[job].preemptions += 1
                if cause is StopCause.PREEMPTED:
                    self._jobs.hold_off(job, running)
        self._promote(running.gpus, running.jobs)
        return True

    def _record_stay(
        self,
        job: JobId,
        running: Running,
        end: StayEnd,
        preempted_by: tuple[JobId, ...],
        how: PartExited,
        kept: float | None,
    ) -> EndJob:
        """End the job's attempt and write it down, there and in what the scheduler knows of the job."""
        facts, progress = self.facts, self.progress[job]
        ended = progress.exit(self._events.now, how)
        if facts.jobs[job].trial is not None and ended.outcome in _GOES_ON:
            kept = 0.0  # A trial begins anew.
        started_at = progress.present.started_at
        self._steps.note(job, running)
        self._scaling.end(job)
        self._losses.end(job)
        overhead, lost = progress.leave(self._events.now, kept=kept)
        self.sampler.drop_running()
        self.stays.end(job, running, started_at, end, preempted_by, overhead, lost)
        known = facts.jobs[job]
        service = dict(known.attained_service)
        received = (self._events.now - running.since) * self.facts.amount(running)
        service[running.gpu_model] = service.get(running.gpu_model, 0.0) + received
        facts.put_job(replace(known, attained_service=service, training=self._training.end(job)))
        return ended

    def _promote(self, gpus: Sequence[GpuId], jobs: Sequence[JobId]) -> None:
        """Begin what is nominated for these GPUs, or for these jobs, and now waits for nothing else."""
        facts = self.facts
        nominated = set(self.occupancy.successors(gpus))
        nominated.update(facts.current[job].allocation for job in jobs if job in facts.current)
        for allocation in sorted(nominated):
            running = facts.running[allocation]
            if running.is_nominated and self._may_begin(running):
                self._begin(running)
