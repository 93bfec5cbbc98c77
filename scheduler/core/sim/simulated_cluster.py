"""Jobs on GPUs: the role of node agents in the live loop, and of the services that read their reports.

It carries out plans and ends attempts, and updates the facts of the next round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from functools import partial
from itertools import count

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
from scheduler.core.model.changing import changed
from scheduler.core.model.holds import GpuHolds
from scheduler.core.model.lifecycle import GOES_ON_AT_ONCE, AttemptState, HoldPhase, JobEvent, StopCause
from scheduler.core.model.plan import Action, ActionKind, Plan
from scheduler.core.model.snapshot import AllocationId, GpuId, Job, JobId, NodeId, Running, Snapshot
from scheduler.core.round.facts import Facts
from scheduler.core.round.leaving import in_the_way
from scheduler.core.sim.budget_meter import BudgetMeter
from scheduler.core.sim.company import Company
from scheduler.core.sim.costs import Costs
from scheduler.core.sim.crowding import Crowding
from scheduler.core.sim.drain_deadlines import DrainDeadlines
from scheduler.core.sim.event_queue import EventQueue, nothing
from scheduler.core.sim.failures import Failure
from scheduler.core.sim.job_steps import JobSteps
from scheduler.core.sim.loss_reporter import LossReporter
from scheduler.core.sim.profile_reporter import ProfileReporter
from scheduler.core.sim.progress import CRASHED, DONE, GANG, GOES_ON, NODE_LOST, STOPPED, Attempt, Progress
from scheduler.core.sim.result import StayEnd
from scheduler.core.sim.rules import Rules
from scheduler.core.sim.sampler import ClusterSampler
from scheduler.core.sim.scaling_jobs import ScalingJobs
from scheduler.core.sim.shares import Shares
from scheduler.core.sim.stays import CAUSES, STAY_ENDS, Stays
from scheduler.core.sim.step_reporter import StepReporter
from scheduler.core.sim.training_reporter import TrainingReporter
from scheduler.core.sim.workload import Truth


class SimulatedCluster:
    """The place and progress of each job, and the account of every stay on GPUs."""

    def __init__(self, facts: Facts, rules: Rules, events: EventQueue) -> None:
        #: The facts of the next round.
        self.facts = facts
        self.rules = rules
        self.progress: dict[JobId, Progress] = {}
        self.stays = Stays(lambda: self.facts, self.progress, events)
        self.sampler = ClusterSampler(lambda: (self.facts.cluster, self.holds.in_use))
        self.holds = GpuHolds(self.facts.device_bytes)
        self.budgets = BudgetMeter(
            facts.tenants.values(), facts.frame.prices, events, notify=self._note_budget
        )
        self._jobs = JobSteps(lambda: self.facts, self.progress, self.sampler, events, rules)
        self._drain_deadlines = DrainDeadlines(events)
        self._events = events
        self._training = TrainingReporter(lambda: self.facts, self.progress, events)
        self._losses = LossReporter(lambda: self.facts, self.progress, events)
        self._profiles = ProfileReporter(lambda: self.facts, self.progress, events)
        self.steps = StepReporter(lambda: self.facts, self.progress, events, is_on=rules.tells_steps)
        self._scaling = ScalingJobs(
            lambda: self.facts, self.progress, events, known=rules.goodput, change_speed=self.change_speed
        )
        self._crowding = Crowding(rules.interference)
        self.company = Company(self, events)
        self._allocations = count(1 + max(facts.running, default=0))
        self._shares = Shares()
        #: By stopping allocation: how its stay will end, and the jobs for which it was preempted.
        self._ends: dict[AllocationId, tuple[StayEnd, tuple[JobId, ...]]] = {}

    # The plan

    def carry_out(self, plan: Plan) -> None:
        """Carry out a plan: first stops, then starts in their places; others go on with their new shares."""
        actions, changed = plan.actions, self._shares.turn_to(plan.shares)
        for action in actions:
            if action.kind is ActionKind.REGRADE:
                self._regrade(action)
            elif action.allocation is not None and action.kind is not ActionKind.JOIN:
                self._stop(action)
        for action in actions:
            if action.kind is ActionKind.JOIN:
                self.company.join(action)
            elif action.placement is not None:
                self._start(action)
        for job in changed:
            self.change_speed(job)
        if actions and self.rules.costs.event_seconds:
            self._pause_others({job for action in actions for job in action.jobs})

    def _pause_others(self, named: Set[JobId]) -> None:
        """Charge the other running jobs for a round that changed something."""
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
            self.facts.put_running(changed(running, guaranteed=action.guaranteed))

    def _stop(self, action: Action) -> None:
        assert action.allocation is not None
        running = self.facts.running[action.allocation]
        if action.kind is ActionKind.STOP:
            end = STAY_ENDS[action.cause]
        else:
            end = "moved" if action.kind is ActionKind.MOVE else "resized"
        if set(action.jobs) < set(running.jobs):
            self.company.part(running, action.jobs, end, action.preempted_by)
        elif running.is_nominated:
            self.take_back(running)
            for job in running.jobs:
                cause = self.cause_for(job, running, end)
                _, effects = step(planned(0, [GANG]), Stopped(cause=cause))
                last = effects[-1]
                if isinstance(last, EndJob) and self._jobs.after(job, last) is JobAfter.CANCELLED:
                    self._jobs.close(job, JobEvent.CANCELLED)
        else:
            self._send_away(running, end, action.preempted_by)

    def _send_away(self, running: Running, end: StayEnd, preempted_by: tuple[JobId, ...] = ()) -> None:
        """Let the jobs leave their GPUs; jobs that go on elsewhere first write a checkpoint."""
        self._tell_to_stop(running, end, preempted_by)
        if OUTCOME_BY_CAUSE[CAUSES[end]] in GOES_ON and self._checkpoint_seconds(running):
            self.facts.put_running(changed(running, stopping=True))
            self._release_after_checkpoint(running)
        else:
            self._release(running.allocation)

    def _tell_to_stop(self, running: Running, end: StayEnd, preempted_by: tuple[JobId, ...] = ()) -> None:
        """Record how the stay will end, and stop the progress of its jobs."""
        self._ends[running.allocation] = end, preempted_by
        for job in running.jobs:
            self.progress[job].stop(self._events.now, self.cause_for(job, running, end))

    def cause_for(self, job: JobId, running: Running, end: StayEnd) -> StopCause:
        known = self.facts.jobs[job]
        limit = known.time_limit_seconds
        is_over = limit is not None and self._events.now >= running.since_of(job) + limit
        return stop_cause(CAUSES[end], is_over=is_over, cancelling=known.cancelling)

    def _checkpoint_seconds(self, running: Running) -> float:
        return max([self.rules.costs.of(self.progress[job].job).checkpoint_seconds for job in running.jobs])

    def _release_after_checkpoint(self, running: Running) -> None:
        pause = self._checkpoint_seconds(running)
        self._events.schedule(self._events.now + pause, partial(self._release, running.allocation))

    def _start(self, action: Action) -> None:
        assert action.placement is not None
        running = Running(
            allocation=AllocationId(next(self._allocations)),
            # In the order in which the live loop reads them.
            jobs=tuple(sorted(action.jobs)),
            gpu_model=action.placement.gpu_model,
            replicas=action.placement.replicas,
            nodes=action.placement.nodes,
            phase="planned",
            since=self._events.now,
            guaranteed=action.guaranteed,
            slice_seconds=action.slice_seconds,
            opportunistic_gpus=action.opportunistic_gpus,
        )
        parts, ready = self.facts.parts(running), self._is_ready(running)
        if self.holds.grant(running.allocation, running.gpus, parts, has_left=ready) is HoldPhase.HELD:
            self._begin(running)
        else:
            self.facts.put_running(running)

    # What happens

    def know(self, job: Job, truth: Truth) -> None:
        cost_seconds = job.preemption_cost_seconds or self.rules.costs.of(job).preemption_seconds
        is_known = cost_seconds == job.preemption_cost_seconds
        known = job if is_known else changed(job, preemption_cost_seconds=cost_seconds)
        best = self.rules.speeds.best(job, self.facts.cluster.models)
        true = known if truth.profile is None else changed(known, profile=truth.profile)
        self.progress[job.id] = Progress(true, truth, best)
        self._training.add(job, truth)
        self._losses.add(job, truth)
        self.facts.put_job(self._scaling.add(self._profiles.add(known, truth), truth))

    def take_over(self, facts: Snapshot, truths: Mapping[JobId, Truth]) -> None:
        """Start from the state of the given facts."""
        for waiting in facts.jobs:
            self.submit(waiting, truths[waiting.id])
        for running in facts.running:
            parts = self.facts.parts(running)
            for gpu in running.gpus:
                self.holds.put(HoldPhase(running.phase), running.allocation, gpu, parts.get(gpu))
            if running.is_nominated:
                continue
            self.use(running)
            self._change_speeds(self._crowding.come(running.allocation, self.facts.places_of(running)))
            for job in (*running.jobs, *running.leaving):
                self.put_to_work(job, running, is_resumed=True)
            self.company.resume(running)
            if running.stopping:
                self._tell_to_stop(running, "preempted")
                self._release_after_checkpoint(running)

    def submit(self, job: Job, truth: Truth) -> None:
        """Add a job, which waits."""
        self.know(job, truth)
        self.sampler.add_waiting(job)
        self._jobs.receive(job)

    def dismiss(self, job: JobId, outcome: str) -> None:
        """End a waiting job that can never run."""
        self.progress[job].outcome = outcome
        self.sampler.drop_waiting(self.progress[job].job)
        self.facts.drop_job(job)

    def tell(self) -> None:
        """Pass the progress of running jobs, and the nodes that close too soon, to the scheduler."""
        self._drain_deadlines.update(self.facts)
        self.steps.report()
        self._training.report()
        self._losses.report()
        self._jobs.recurrence.report()
        self._scaling.report()

    def cancel(self, job: JobId) -> None:
        """Cancel a job for its user: it leaves at once, without a checkpoint, as in the live loop.

        A job that is writing its checkpoint is not queued again after that; an ended job stays as it is.
        """
        facts = self.facts
        if job not in facts.jobs:
            return
        running = facts.current.get(job)
        facts.put_job(changed(facts.jobs[job], cancelling=True))
        if running is not None and running.phase == "held":
            self.progress[job].stop(self._events.now, StopCause.CANCELLED)
            self._jobs.take_after(job, self._vacate(job, "cancelled", STOPPED))
            return
        if running is not None:
            self.take_back(running)
        if job in facts.stopping:
            self.progress[job].stop(self._events.now, StopCause.CANCELLED)
        else:
            self._jobs.close(job, JobEvent.CANCELLED)

    def finish(self, job: JobId) -> None:
        """End a running job now, whatever work it has left; a waiting or stopping job goes on."""
        attempt = self.progress[job].attempt if job in self.progress else None
        if attempt is not None and attempt.state is AttemptState.RUNNING:
            self._finish(job)

    def lose(self, present: Set[GpuId], nodes: Set[NodeId]) -> None:
        """Lose attempts on GPUs, or on nodes, other than these, and drop nominations for them."""
        there = self.facts.running.values()
        lost = [each for each in there if not (present >= set(each.gpus) and nodes >= set(each.nodes))]
        # Drop these first; otherwise they would begin on the GPUs of lost attempts.
        self._take_back_nominated(lost)
        for running in lost:
            if not running.is_nominated:
                self._ends.setdefault(running.allocation, ("lost", ()))
                self._release(running.allocation)

    def empty(self, gpus: Set[GpuId], nodes: Set[NodeId]) -> None:
        """Let the jobs on these GPUs or nodes write a checkpoint and go on elsewhere; nominations end."""
        held = self.facts.running.values()
        there = [each for each in held if gpus & set(each.gpus) or nodes & set(each.nodes)]
        self._take_back_nominated(there)
        for running in there:
            if running.phase == "held" and not running.stopping:
                self._send_away(running, "drained")

    def _take_back_nominated(self, some: Sequence[Running]) -> None:
        for running in [each for each in some if each.is_nominated]:
            self.take_back(running)

    # On and off the GPUs

    def use(self, running: Running, sign: int = 1) -> None:
        """Count the GPUs as used by the tenants of its jobs from now on, equally where jobs share them."""
        jobs = running.jobs + running.leaving
        part = sign * self.facts.amount(running) / len(jobs)
        for job in jobs:
            self.budgets.change(self.progress[job].job.tenant, running.gpu_model, part)

    def _note_budget(self, name: str, is_spent: bool, renewed_at: float | None) -> None:
        tenant = self.facts.tenants[name]
        self.facts.put_tenant(changed(tenant, budget_spent=is_spent, budget_renewed_at=renewed_at))

    def take_back(self, running: Running) -> None:
        """End an allocation: release its GPUs or its nomination for them."""
        if running.phase == "held":
            self.use(running, -1)
        self.holds.release(running.allocation, running.gpus)
        self.facts.drop_running(running.allocation)
        self._change_speeds(self._crowding.go(running.allocation))

    def _is_ready(self, running: Running) -> bool:
        """Whether its jobs have left all other GPUs, and its replicas without GPUs have CPUs and memory."""
        has_left = all([self.progress[job].attempt is None for job in running.jobs])
        leaving = self.facts.stopping.values() if running.nodes else ()
        return has_left and not (leaving and in_the_way(self.facts, running, leaving))

    def _begin(self, running: Running) -> None:
        self.use(running)
        crowded = self._crowding.come(running.allocation, self.facts.places_of(running))
        self.facts.put_running(changed(running, phase="held", since=self._events.now))
        for job in running.jobs:
            self.put_to_work(job, running)
        self.company.measure(running.allocation)
        self._change_speeds([each for each in crowded if each != running.allocation])

    def put_to_work(self, job: JobId, running: Running, *, is_resumed: bool = False) -> None:
        if not is_resumed:
            self._jobs.begin(job)
        progress = self.progress[job]
        self.sampler.start(progress.job)
        costs = Costs() if is_resumed else self.rules.costs.of(progress.job)
        self._scaling.begin(job, running)
        progress.begin(self._events.now, running.gpus, self._rate(job, running), costs)
        self._training.begin(job)
        self._losses.begin(job)
        self.steps.begin(job, running)
        self._profiles.begin(job, running)
        self._reschedule(job)

    def _rate(self, job: JobId, running: Running) -> float:
        alone = self._scaling.rate(job)
        if alone is None:
            nodes, gpus = len(self.facts.places_of(running)), len(running.gpus)
            alone = self.rules.speeds.alone(self.progress[job].job, running.gpu_model, gpus, nodes)
        alone *= self._crowding.factor(running.allocation) * self._shares.factor(self.progress[job].job)
        return alone * self.company.speed_beside_others(job, running) if len(running.jobs) > 1 else alone

    def _change_speeds(self, allocations: Sequence[AllocationId]) -> None:
        for allocation in allocations:
            for job in self.facts.running[allocation].jobs:
                self.change_speed(job)

    def change_speed(self, job: JobId) -> None:
        """Apply a job's present speed, unless it makes no more progress."""
        attempt = self.progress[job].attempt
        if attempt is not None and attempt.state is AttemptState.RUNNING:
            self.progress[job].change_rate(self._events.now, self._rate(job, self.facts.current[job]))
            self._reschedule(job)

    def _reschedule(self, job: JobId) -> None:
        """Schedule the end of the attempt, or an earlier time limit or failure."""
        self._training.schedule_change(job)
        self._scaling.schedule_epoch(job)
        progress = self.progress[job]
        attempt, rules = progress.present, self.rules
        version, ends_at = attempt.version, progress.foresee_end()
        end = partial(self._end, job, attempt, version)
        limit = progress.job.time_limit_seconds
        # A job that was stopping when the simulation took over ends by its stop.
        running = self.facts.current.get(job)
        if limit is not None and running and (limit_at := running.since_of(job) + limit) < ends_at:
            limit_at = max(self._events.now, limit_at)
            if rules.limits_by_rounds:
                self._events.schedule(limit_at, nothing)
            else:
                ends_at, end = limit_at, partial(self._reach_limit, job, attempt, version)
        failure = None
        if rules.failures.probability:
            failure = rules.failures.strike(rules.seed, job, progress.attempts)
        if failure is not None:
            strikes_at = attempt.counted_at + max(0.0, failure.after_seconds - attempt.worked) / attempt.rate
            if strikes_at < ends_at:
                self._events.schedule(strikes_at, partial(self._fail, job, attempt, version, failure))
                return
        self._events.schedule(ends_at, end)

    def _end(self, job: JobId, attempt: Attempt, version: int) -> bool:
        if attempt.version != version or attempt.state is not AttemptState.RUNNING:
            return False
        self._finish(job)
        return True

    def _reach_limit(self, job: JobId, attempt: Attempt, version: int) -> bool:
        if attempt.version != version or attempt.state is not AttemptState.RUNNING:
            return False
        running = self.facts.current[job]
        if len(running.jobs) > 1:
            self.company.part(running, (job,), "time_limit")
        else:
            self._send_away(running, "time_limit")
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
        """Let a job that ends leave its GPUs; jobs that shared them go on."""
        running = self.facts.current[job]
        ended = self._record_stay(job, running, end, (), how, kept)
        if not self.company.left_by(running, [job]):
            self.take_back(running)
            self.promote(running.gpus, (job,))
        return ended

    def _release(self, allocation: AllocationId) -> bool:
        """Free the GPUs of a stopped allocation; its jobs wait again or have ended."""
        running = self.facts.running.get(allocation)
        if running is None:
            return False  # Its node was lost while it wrote its checkpoint.
        recorded, preempted_by = self._ends.pop(allocation)
        is_lost = recorded == "lost"
        jobs = running.jobs + running.leaving if is_lost else running.jobs
        if not self.company.left_by(running, jobs):
            self.take_back(running)
        for job in jobs:
            self.end_stopped(job, running, recorded, preempted_by, NODE_LOST if is_lost else STOPPED)
        self.promote(running.gpus, jobs)
        return True

    def end_stopped(
        self, job: JobId, running: Running, end: StayEnd, by: tuple[JobId, ...], how: PartExited
    ) -> None:
        """Record that a job that had to stop, or that was lost, has left its GPUs."""
        attempt = self.progress[job].present
        cause, kept = attempt.known.stop_cause, None
        if cause is StopCause.PREEMPTED:
            end = "preempted"
        elif how is NODE_LOST:
            attempt.count(self._events.now)
            kept = self.rules.costs.kept_of(attempt.worked)
        ended = self._record_stay(job, running, end, by, how, kept)
        if self._jobs.take_after(job, ended) is JobAfter.PREEMPTED and cause not in GOES_ON_AT_ONCE:
            self.progress[job].preemptions += 1
            if cause is StopCause.PREEMPTED:
                self._jobs.hold_off(job, running)

    def _record_stay(
        self,
        job: JobId,
        running: Running,
        end: StayEnd,
        preempted_by: tuple[JobId, ...],
        how: PartExited,
        kept: float | None,
    ) -> EndJob:
        """End the job's attempt and record it, also in the scheduler's facts about the job."""
        facts, progress = self.facts, self.progress[job]
        ended = progress.exit(self._events.now, how)
        if facts.jobs[job].trial is not None and ended.outcome in GOES_ON:
            kept = 0.0  # A trial starts again.
        started_at = progress.present.started_at
        self.steps.note(job, running)
        self._scaling.end(job)
        self._losses.end(job)
        overhead, lost = progress.leave(self._events.now, kept=kept)
        self.sampler.drop_running()
        self.stays.end(job, running, started_at, end, preempted_by, overhead, lost)
        known, now, training = facts.jobs[job], self._events.now, self._training.end(job)
        service = dict(known.attained_service)
        received = (now - running.since_of(job)) * facts.amount(running)
        service[running.gpu_model] = service.get(running.gpu_model, 0.0) + received
        facts.put_job(changed(known, waits_since=now, attained_service=service, training=training))
        return ended

    def promote(self, gpus: Sequence[GpuId], jobs: Sequence[JobId]) -> None:
        """Begin allocations nominated for these GPUs, or for these jobs, that now wait for nothing else."""
        facts = self.facts
        nominated = facts.nominated_on_nodes.union(self.holds.nominees(gpus))
        nominated.update(facts.current[job].allocation for job in jobs if job in facts.current)
        for allocation in sorted(nominated):
            running = facts.running[allocation]
            if not running.is_nominated or not self._is_ready(running):
                continue
            if self.holds.may_promote(allocation, running.gpus):
                self.holds.promote(allocation, running.gpus)
                self._begin(running)
