"""Jobs on GPUs: what node agents do in the live loop, and the services that take their reports.

It carries out plans and lets attempts end. What it learns it puts into the facts of the next round.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from itertools import count

from scheduler.core.fitting.capacity import Capacity
from scheduler.core.model.lifecycle import AttemptState, JobEvent
from scheduler.core.model.plan import Action, ActionKind
from scheduler.core.model.snapshot import AllocationId, GpuId, Job, JobId, Running, Snapshot, Trial
from scheduler.core.round.facts import Facts
from scheduler.core.round.preemption_limits.backoff import after_preemption
from scheduler.core.sim.agenda import Agenda, nothing
from scheduler.core.sim.closing import Closing
from scheduler.core.sim.costs import Costs
from scheduler.core.sim.failures import Failure
from scheduler.core.sim.occupancy import Occupancy
from scheduler.core.sim.pacing import Pacing
from scheduler.core.sim.progress import Attempt, Progress
from scheduler.core.sim.result import StayEnd
from scheduler.core.sim.rules import Rules
from scheduler.core.sim.spending import Spending
from scheduler.core.sim.stays import Stays
from scheduler.core.sim.telling import Telling
from scheduler.core.sim.watch import Watch
from scheduler.core.sim.workload import Truth

#: What the cause of a STOP is called in the record of a stay.
_STAY_ENDS: Mapping[str, StayEnd] = {
    "preempted": "preempted",
    "cancelled": "cancelled",
    "time_limit": "time_limit",
}
#: Ends after which a job waits for another attempt.
_GOES_ON: frozenset[StayEnd] = frozenset({"preempted", "drained", "moved", "resized", "lost"})


class SimulatedCluster:
    """Who is where, how far each job has come, and the account of every stay on GPUs."""

    def __init__(self, facts: Facts, rules: Rules, agenda: Agenda) -> None:
        #: What the next round will be decided on.
        self.facts = facts
        self.rules = rules
        self.progress: dict[JobId, Progress] = {}
        self.stays = Stays(lambda: self.facts, self.progress, agenda)
        self.watch = Watch()
        self.occupancy = Occupancy()
        self.spending = Spending(
            facts.tenants.values(), facts.frame.prices, agenda, tell=self._tell_of_budget
        )
        self._closing = Closing(agenda)
        self._agenda = agenda
        for tenant in facts.tenants.values():
            if (renewed_at := tenant.budget_renewed_at) is not None and renewed_at > agenda.now:
                agenda.note(renewed_at, nothing)
        self._telling = Telling(lambda: self.facts, self.progress, agenda)
        self._pacing = Pacing(lambda: self.facts, self.progress, agenda, is_on=rules.tells_steps)
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
                    attempt.pause(self._agenda.now, self.rules.costs.event_seconds)
                    self._foresee(job)

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
        if running.phase == "planned":
            self._take_back(running)
            if end == "cancelled":
                for job in running.jobs:
                    self._close(job, JobEvent.CANCELLED)
            return
        self._send_away(running, end, action.preempted_by)

    def _send_away(self, running: Running, end: StayEnd, preempted_by: tuple[JobId, ...] = ()) -> None:
        """Let the jobs leave their GPUs, those that go on elsewhere when they have written a checkpoint."""
        self._tell_to_stop(running, end, preempted_by)
        if end in _GOES_ON and self._checkpoint_seconds(running):
            self.facts.put_running(replace(running, stopping=True))
            self._release_after_checkpoint(running)
        else:
            self._release(running.allocation)

    def _checkpoint_seconds(self, running: Running) -> float:
        return max([self.rules.costs.of(self.progress[job].job).checkpoint_seconds for job in running.jobs])

    def _tell_to_stop(self, running: Running, end: StayEnd, preempted_by: tuple[JobId, ...] = ()) -> None:
        """Note how the stay will have ended, and let its jobs make no more progress."""
        self._ends[running.allocation] = end, preempted_by
        for job in running.jobs:
            self.progress[job].stop(self._agenda.now)

    def _release_after_checkpoint(self, running: Running) -> None:
        pause = self._checkpoint_seconds(running)
        self._agenda.note(self._agenda.now + pause, partial(self._release, running.allocation))

    def _start(self, action: Action) -> None:
        assert action.placement is not None
        running = Running(
            allocation=AllocationId(next(self._allocations)),
            jobs=action.jobs,
            gpu_model=action.placement.gpu_model,
            replicas=action.placement.replicas,
            phase="planned",
            since=self._agenda.now,
            guaranteed=action.guaranteed,
            slice_seconds=action.slice_seconds,
        )
        if not self._may_begin(running):
            self.occupancy.promise(running.allocation, running.gpus)
            self.facts.put_running(running)
        else:
            self._begin(running)

    # What happens

    def know(self, job: Job, truth: Truth) -> None:
        facts = self.facts
        told = replace(
            job,
            preemption_cost_seconds=job.preemption_cost_seconds
            or self.rules.costs.of(job).preemption_seconds,
        )
        best = self.rules.speeds.best(job, facts.cluster.models)
        self.progress[job.id] = Progress(told, truth, best)
        self._telling.know(job, truth)
        facts.put_job(told)

    def take_over(self, facts: Snapshot, truths: Mapping[JobId, Truth]) -> None:
        """Go on from where the given facts are."""
        for waiting in facts.jobs:
            self.submit(waiting, truths[waiting.id])
        for running in facts.running:
            if running.phase == "planned":
                self.occupancy.promise(running.allocation, running.gpus)
                continue
            self.occupancy.hold(running.allocation, running.gpus)
            self._use(running)
            for job in running.jobs:
                self._put_to_work(job, running, is_resumed=True)
            if running.stopping:
                self._tell_to_stop(running, "preempted")
                self._release_after_checkpoint(running)

    def submit(self, job: Job, truth: Truth) -> None:
        """A job comes and waits."""
        self.know(job, truth)
        self.watch.comes(job)
        for instant in (job.eligible_at, job.may_borrow_at):
            if instant > self._agenda.now:
                self._agenda.note(instant, nothing)

    def dismiss(self, job: JobId, outcome: str) -> None:
        """Send a job home that has waited in vain."""
        self.progress[job].outcome = outcome
        self.watch.goes(self.progress[job].job)
        self.facts.drop_job(job)

    def tell(self) -> None:
        """Let the scheduler know how far the jobs that run have come, and which nodes close too soon."""
        self._closing.tell(self.facts)
        self._pacing.tell()
        self._telling.tell()

    def look(self, capacity: Capacity) -> None:
        """Take a look at the cluster after a round, which left this capacity."""
        self.watch.look(self._agenda.now, self.facts.cluster, capacity, self.occupancy.held)

    def cancel(self, job: JobId) -> None:
        """Its user wants a job no more: it leaves at once, without a checkpoint, as in the live loop.

        One that is writing its checkpoint is not queued again when it has; nothing happens to one that ended.
        """
        facts = self.facts
        if job not in facts.jobs:
            return
        running = facts.current.get(job)
        if running is not None and running.phase == "held":
            self._vacate(job, "cancelled")
            self._conclude(job, JobEvent.CANCELLED)
            return
        if running is not None:
            self._take_back(running)
        if job in facts.stopping:
            facts.put_job(replace(facts.jobs[job], cancelling=True))
        else:
            self._close(job, JobEvent.CANCELLED)

    def finish(self, job: JobId) -> None:
        """A job that runs ends now, whatever work it had left; one that waits or is stopping goes on."""
        attempt = self.progress[job].attempt if job in self.progress else None
        if attempt is not None and attempt.state is AttemptState.RUNNING:
            self._finish(job)

    def lose(self, present: Collection[GpuId]) -> None:
        """Attempts on GPUs other than these are lost, and promises on them broken."""
        for running in list(self.facts.running.values()):
            if all(gpu in present for gpu in running.gpus):
                continue
            if running.phase == "planned":
                self._take_back(running)
            else:
                self._ends.setdefault(running.allocation, ("lost", ()))
                self._release(running.allocation)

    def empty(self, gpus: Set[GpuId]) -> None:
        """Who is on these GPUs writes a checkpoint and goes on elsewhere; promises on them are broken."""
        there = [running for running in self.facts.running.values() if not gpus.isdisjoint(running.gpus)]
        for running in there:
            if running.phase == "planned":
                self._take_back(running)
        for running in there:
            if running.phase == "held" and not running.stopping:
                self._send_away(running, "drained")

    # On and off the GPUs

    def _use(self, running: Running, sign: int = 1) -> None:
        """Count the GPUs as used by the tenants of its jobs from now on, half each where two share them."""
        for job in running.jobs:
            part = sign * len(running.gpus) / len(running.jobs)
            self.spending.change(self.progress[job].job.tenant, running.gpu_model, part)

    def _tell_of_budget(self, name: str, is_spent: bool, renewed_at: float | None) -> None:
        tenant = self.facts.tenants[name]
        self.facts.put_tenant(replace(tenant, budget_spent=is_spent, budget_renewed_at=renewed_at))

    def _take_back(self, running: Running) -> None:
        """Take the GPUs, or the promise of them, from an allocation: it is over."""
        if running.phase == "held":
            self._use(running, -1)
        self.occupancy.release(running.allocation, running.gpus)
        self.facts.drop_running(running.allocation)

    def _may_begin(self, running: Running) -> bool:
        """Whether the GPUs are free, and the jobs have left where they were before."""
        free = self.occupancy.is_free(running.gpus)
        return free and all(self.progress[job].attempt is None for job in running.jobs)

    def _begin(self, running: Running) -> None:
        self.occupancy.hold(running.allocation, running.gpus)
        self._use(running)
        self.facts.put_running(replace(running, phase="held", since=self._agenda.now))
        for job in running.jobs:
            self._put_to_work(job, running)
        self._measure(running.allocation)

    def _put_to_work(self, job: JobId, running: Running, *, is_resumed: bool = False) -> None:
        progress = self.progress[job]
        self.watch.starts(progress.job)
        costs = Costs() if is_resumed else self.rules.costs.of(progress.job)
        progress.begin(self._agenda.now, running.gpus, self._rate(job, running), costs)
        self._telling.begin(job)
        self._pacing.begin(job, running)
        self._foresee(job)
        limit = progress.job.time_limit_seconds
        since = running.since if is_resumed else self._agenda.now
        if limit is not None and since + limit < progress.foresee_end():
            self._agenda.note(max(self._agenda.now, since + limit), nothing)

    def _rate(self, job: JobId, running: Running) -> float:
        nodes = len({self.facts.cluster.where[gpu][1] for gpu in running.gpus})
        alone = self.rules.speeds.alone(self.progress[job].job, running.gpu_model, len(running.gpus), nodes)
        return alone * self._speed_beside_others(job, running) if len(running.jobs) > 1 else alone

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

    def _foresee(self, job: JobId) -> None:
        """Plan the end of the attempt, or the failure that comes before."""
        self._telling.foresee(job)
        progress = self.progress[job]
        attempt, rules = progress.present, self.rules
        version, ends_at = attempt.version, progress.foresee_end()
        failure = None
        if rules.failures.probability:
            failure = rules.failures.strike(rules.seed, job, progress.attempts)
        if failure is not None:
            strikes_at = attempt.counted_at + max(0.0, failure.after_seconds - attempt.worked) / attempt.rate
            if strikes_at < ends_at:
                self._agenda.note(strikes_at, partial(self._fail, job, attempt, version, failure))
                return
        self._agenda.note(ends_at, partial(self._end, job, attempt, version))

    def _end(self, job: JobId, attempt: Attempt, version: int) -> bool:
        if attempt.version != version or attempt.state is not AttemptState.RUNNING:
            return False
        self._finish(job)
        return True

    def _finish(self, job: JobId) -> None:
        trial = self.facts.jobs[job].trial
        self._vacate(job, "finished")
        if trial is None:
            self._conclude(job)
        else:
            self._pass(job, trial)

    def _pass(self, job: JobId, trial: Trial) -> None:
        """Queue a job as what it is, its trial being over."""
        progress, known = self.progress[job], self.facts.jobs[job]
        progress.become(trial.gang, self.rules.speeds.best(trial.gang, self.facts.cluster.models))
        self._wait_again(job)
        service, attempts = known.attained_service, known.attempts
        self.facts.put_job(replace(trial.gang, attained_service=service, attempts=attempts))

    def _fail(self, job: JobId, attempt: Attempt, version: int, failure: Failure) -> bool:
        if attempt.version != version or attempt.state is not AttemptState.RUNNING:
            return False
        progress, failures = self.progress[job], self.rules.failures
        attempt.count(self._agenda.now)
        self._vacate(job, "failed", kept=self.rules.costs.kept_of(attempt.worked))
        progress.failures += 1
        if not failures.is_worth_retrying(failure, progress.failures):
            self._conclude(job, JobEvent.FAILED)
            return True
        self._wait_again(job)
        eligible_at = self._agenda.now + progress.failures * failures.backoff_seconds
        self.facts.put_job(replace(self.facts.jobs[job], eligible_at=eligible_at))
        self._agenda.note(eligible_at, nothing)
        return True

    def _vacate(self, job: JobId, end: StayEnd, kept: float | None = None) -> None:
        """A job leaves its GPUs by itself; those it shared them with go on alone."""
        facts = self.facts
        running = facts.current[job]
        self._record_stay(job, running, end, (), kept)
        others = tuple([other for other in running.jobs if other != job])
        if not others:
            self._take_back(running)
            self._promote(running.gpus, (job,))
            return
        fewer = replace(running, jobs=others, speeds={})
        self._use(running, -1)
        self._use(fewer)
        facts.put_running(fewer)
        for other in others:
            self._pacing.note(other, running)
            self.progress[other].change_rate(self._agenda.now, self._rate(other, fewer))
            self._foresee(other)
        self._measure(running.allocation)

    def _release(self, allocation: AllocationId) -> bool:
        """The GPUs of a stopped allocation come free; its jobs wait again or have ended."""
        facts = self.facts
        if allocation not in facts.running:
            return False  # Its node was lost while it wrote its checkpoint.
        running = facts.running[allocation]
        told, preempted_by = self._ends.pop(allocation)
        self._take_back(running)
        for job in running.jobs:
            end = self._end_of(job, running, told)
            kept = self.rules.costs.kept_of(self._worked(job)) if end == "lost" else None
            self._record_stay(job, running, end, preempted_by, kept)
            if end in _GOES_ON:
                if end in ("preempted", "drained"):
                    self.progress[job].preemptions += 1
                if end == "preempted":
                    self._hold_off(job, running)
                self._wait_again(job)
                if facts.jobs[job].cancelling:
                    self._close(job, JobEvent.CANCELLED)
            else:
                self._conclude(job, JobEvent.CANCELLED if end == "cancelled" else JobEvent.FAILED)
        self._promote(running.gpus, running.jobs)
        return True

    def _hold_off(self, job: JobId, running: Running) -> None:
        """Let a job wait that was preempted before it had run for long enough."""
        facts, known, now = self.facts, self.facts.jobs[job], self._agenda.now
        vc = facts.virtual_clusters.get(known.virtual_cluster)
        short_runs, waits = after_preemption(
            known.short_runs,
            ran_seconds=now - running.since,
            least_seconds=0.0 if vc is None else vc.min_run_seconds,
            first_wait=facts.frame.backoff_seconds,
            longest_wait=facts.frame.most_backoff_seconds,
        )
        if short_runs != known.short_runs:
            facts.put_job(replace(known, short_runs=short_runs, may_borrow_at=now + waits))
            self._agenda.note(now + waits, nothing)

    def _end_of(self, job: JobId, running: Running, told: StayEnd) -> StayEnd:
        """A time limit or a cancellation is one job's: those it shares GPUs with go on later."""
        known = self.facts.jobs[job]
        limit = known.time_limit_seconds
        if told == "time_limit":
            return told if limit is not None and self._agenda.now >= running.since + limit else "preempted"
        return "preempted" if told == "cancelled" and not known.cancelling else told

    def _worked(self, job: JobId) -> float:
        attempt = self.progress[job].present
        attempt.count(self._agenda.now)
        return attempt.worked

    def _record_stay(
        self, job: JobId, running: Running, end: StayEnd, preempted_by: tuple[JobId, ...], kept: float | None
    ) -> None:
        """End the job's attempt and write it down, there and in what the scheduler knows of the job."""
        facts, progress = self.facts, self.progress[job]
        if facts.jobs[job].trial is not None and end in _GOES_ON:
            kept = 0.0  # A trial begins anew.
        started_at = progress.present.started_at
        self._pacing.note(job, running)
        overhead, lost = progress.leave(self._agenda.now, kept=kept)
        self.watch.leaves()
        self.stays.end(job, running, started_at, end, preempted_by, overhead, lost)
        told = facts.jobs[job]
        service = dict(told.attained_service)
        received = (self._agenda.now - running.since) * len(running.gpus)
        service[running.gpu_model] = service.get(running.gpu_model, 0.0) + received
        facts.put_job(
            replace(
                told,
                attained_service=service,
                attempts=progress.attempts,
                training=self._telling.end(job),
            )
        )

    def _wait_again(self, job: JobId) -> None:
        self.progress[job].requeue()
        self.watch.comes(self.progress[job].job)

    def _close(self, job: JobId, event: JobEvent) -> None:
        """End a job that waits."""
        self.watch.goes(self.progress[job].job)
        self._conclude(job, event)

    def _conclude(self, job: JobId, event: JobEvent | None = None) -> None:
        """End a job for good: as in the trace, unless something else became of it."""
        self.progress[job].finish(self._agenda.now, event)
        self.facts.drop_job(job)

    def _promote(self, gpus: Sequence[GpuId], jobs: Sequence[JobId]) -> None:
        """Begin what was planned on these GPUs, or for these jobs, and now waits for nothing else."""
        facts = self.facts
        planned = set(self.occupancy.successors(gpus))
        planned.update(facts.current[job].allocation for job in jobs if job in facts.current)
        for allocation in sorted(planned):
            running = facts.running[allocation]
            if running.phase == "planned" and self._may_begin(running):
                self._begin(running)
