"""The simulator: the same rounds as the live loop, in virtual time.

What differs from the live loop is where facts come from and who carries out the plan. Here events happen at
their instants (arrivals, ends, failures, released GPUs, scripted changes); a round follows at the next
tick of the clock after something happened, or when a policy said it would decide otherwise by itself.
No policy, placer or step of a round knows that it is simulated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import Protocol

from scheduler.core.lifecycle import AttemptState, JobEvent
from scheduler.core.plan import Action, ActionKind, Plan, Tier
from scheduler.core.serve import Served
from scheduler.core.session import Session
from scheduler.core.sim.costs import Costs
from scheduler.core.sim.failures import Failure, Failures
from scheduler.core.sim.occupancy import Occupancy
from scheduler.core.sim.progress import Attempt, Progress
from scheduler.core.sim.result import Sample, Stay, StayEnd
from scheduler.core.sim.speeds import Speeds
from scheduler.core.sim.watch import Watch
from scheduler.core.sim.workload import Arrival, Truth
from scheduler.core.snapshot import AllocationId, GpuId, Job, JobId, Memory, NodeId, Running, Snapshot


class Scripted(Protocol):
    """Something that happens at an instant, whatever the jobs do: a cancellation, a node that fails."""

    @property
    def at(self) -> float: ...

    def happen(self, engine: Engine) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How the simulated world behaves."""

    speeds: Speeds = field(default_factory=Speeds)
    costs: Costs = field(default_factory=Costs)
    failures: Failures = field(default_factory=Failures)
    seed: int = 0


#: What the cause of a STOP is called in the record of a stay.
_STAY_ENDS: Mapping[str, StayEnd] = {
    "preempted": "preempted",
    "cancelled": "cancelled",
    "time_limit": "time_limit",
}
#: Ends after which a job waits for another attempt.
_GOES_ON: frozenset[StayEnd] = frozenset({"preempted", "moved", "resized", "lost"})


class Engine:
    """A cluster with its jobs, moved from event to event.

    `facts` says how things stand at the beginning; its jobs need an entry in `truths`. The jobs of
    `arrivals` come later. Ids of jobs must be unique over both.
    """

    def __init__(
        self,
        facts: Snapshot,
        arrivals: Sequence[Arrival] = (),
        rules: Rules | None = None,
        *,
        truths: Mapping[JobId, Truth] | None = None,
        script: Sequence[Scripted] = (),
        on_round: Callable[[Engine, Sequence[Served], Plan], None] | None = None,
    ) -> None:
        self.rules = rules or Rules()
        self.session = Session(facts)
        self.now = self.began_at = facts.now
        self.rounds = 0
        self.progress: dict[JobId, Progress] = {}
        self.stays: list[Stay] = []
        self.degraded: dict[str, str] = {}
        #: Jobs that this cluster can never run, with the reason.
        self.never: dict[JobId, str] = {}
        self._watch = Watch()
        self._memory: dict[str, Memory] = dict(facts.memory)
        self._arrivals, self._next_arrival = sorted(arrivals, key=_submission), 0
        self._script, self._next_scripted = sorted(script, key=lambda event: event.at), 0
        self._on_round = on_round
        self._events: list[tuple[float, int, Callable[[], bool]]] = []
        self._order = count()
        self._allocations = count(1 + max((running.allocation for running in facts.running), default=0))
        self._occupancy = Occupancy()
        self._newcomers: list[JobId] = []
        #: How the stay on an allocation that is stopping will have ended, and for whom it gave way.
        self._ends: dict[AllocationId, tuple[StayEnd, tuple[JobId, ...]]] = {}
        self._take_over(facts, truths or {})

    @property
    def samples(self) -> Sequence[Sample]:
        return self._watch.samples

    # The clock

    def run(self, until: Callable[[Engine], bool] = lambda engine: False) -> str:
        """Go on until all jobs have ended, nothing can happen any more, or `until` says so after a round.

        Returns why jobs are left over; empty when none is.
        """
        self._advance(self.now)
        while True:
            wake = self._run_round()
            if until(self):
                return "it was told to end"
            if wake is None or not self.session.facts.jobs:
                wake = math.inf
            # A policy that wants to be asked again at once is asked at the next tick, not for ever.
            wake = max(wake, self.now + (self._round_seconds or 1.0))
            while (instant := self._next_instant()) < wake and not self._advance(instant):
                pass
            if instant >= wake:
                if wake == math.inf:
                    left = len(self.session.facts.jobs)
                    return f"nothing more can happen, and {left} jobs wait for ever" if left else ""
                self._advance(wake)

    @property
    def _round_seconds(self) -> float:
        return self.session.facts.frame.round_seconds

    def _next_instant(self) -> float:
        instant = self._events[0][0] if self._events else math.inf
        if self._next_arrival < len(self._arrivals):
            instant = min(instant, self._arrivals[self._next_arrival].job.submitted_at)
        if self._next_scripted < len(self._script):
            instant = min(instant, self._script[self._next_scripted].at)
        return instant

    def _advance(self, instant: float) -> bool:
        """Move to the first tick of the clock from that instant on, letting happen what happens by then.

        Returns whether anything did: ends that were foreseen of attempts which ended otherwise do not.
        """
        tick, happened = self._tick_from(instant), False
        while (happens_at := self._next_instant()) <= tick:
            self.now = max(self.now, happens_at)
            if self._events and self._events[0][0] <= happens_at:
                happened = heappop(self._events)[2]() or happened
                continue
            happened = True
            if self._next_scripted < len(self._script) and self._script[self._next_scripted].at <= happens_at:
                self._next_scripted += 1
                self._script[self._next_scripted - 1].happen(self)
            else:
                self._next_arrival += 1
                arrival = self._arrivals[self._next_arrival - 1]
                self.submit(arrival.job, arrival.truth)
        self.now = tick
        return happened

    def _tick_from(self, instant: float) -> float:
        if not self._round_seconds:
            return instant
        ticks = math.ceil((instant - self.began_at) / self._round_seconds - 1e-9)
        return max(self.now, self.began_at + ticks * self._round_seconds)

    def _at(self, instant: float, event: Callable[[], bool]) -> None:
        heappush(self._events, (instant, next(self._order), event))

    # A round

    def _run_round(self) -> float | None:
        """Decide and carry out; return the instant at which a round is worth while though nothing happens."""
        self.rounds += 1
        session = self.session
        session.facts.turn_to(self.rounds, self.now, self._memory)
        outcomes = session.outcomes()
        plan = session.plan(outcomes)
        self._memory.update(plan.memory)
        self.degraded.update(plan.degraded)
        for action in plan.actions:
            if action.allocation is not None:
                self._stop(action)
        for action in plan.actions:
            if action.placement is not None:
                self._start(action)
        self._dismiss_hopeless()
        self._watch.look(self.now, session.facts.cluster, outcomes[-1].capacity, self._occupancy.held)
        if self._on_round is not None:
            self._on_round(self, outcomes, plan)
        return plan.wake_at

    def _stop(self, action: Action) -> None:
        assert action.allocation is not None
        running = self.session.facts.running[action.allocation]
        if action.kind is ActionKind.STOP:
            end = _STAY_ENDS[action.cause]
        else:
            end = "moved" if action.kind is ActionKind.MOVE else "resized"
        if running.phase == "planned":
            self._occupancy.release(running.allocation, running.gpus)
            self.session.facts.drop_running(running.allocation)
            if end == "cancelled":
                for job in running.jobs:
                    self._close(job, JobEvent.CANCELLED)
            return
        self._ends[running.allocation] = end, action.preempted_by
        for job in running.jobs:
            self.progress[job].stop(self.now)
        pause = self.rules.costs.checkpoint_seconds if end in _GOES_ON else 0.0
        if pause:
            self.session.facts.put_running(replace(running, stopping=True))
            self._at(self.now + pause, partial(self._release, running.allocation))
        else:
            self._release(running.allocation)

    def _start(self, action: Action) -> None:
        assert action.placement is not None
        running = Running(
            allocation=AllocationId(next(self._allocations)),
            jobs=action.jobs,
            gpu_model=action.placement.gpu_model,
            replicas=action.placement.replicas,
            phase="planned",
            since=self.now,
            guaranteed=action.guaranteed,
        )
        if not self._may_begin(running):
            self._occupancy.promise(running.allocation, running.gpus)
            self.session.facts.put_running(running)
        else:
            self._begin(running)

    def _dismiss_hopeless(self) -> None:
        """Send home who came since the last round and can never run here."""
        for job in self._newcomers:
            reasons = self.session.admission.held_back.get(job, ())
            hopeless = next((reason for reason in reasons if reason.tier is Tier.NEVER), None)
            if hopeless is not None:
                self.never[job] = hopeless.message
                self.progress[job].outcome = "never"
                self._watch.goes(self.progress[job].job)
                self.session.facts.drop_job(job)
        self._newcomers.clear()

    # What happens

    def submit(self, job: Job, truth: Truth) -> None:
        """A job arrives."""
        self._know(job, truth)
        self._newcomers.append(job.id)
        self._watch.comes(job)
        if job.eligible_at > self.now:
            self._at(job.eligible_at, _nothing)

    def cancel(self, job: JobId) -> None:
        """Its user wants a job no more; nothing happens when it has ended already."""
        facts = self.session.facts
        if job not in facts.jobs:
            return
        if job in facts.current or job in facts.stopping:
            facts.put_job(replace(facts.jobs[job], cancelling=True))
        else:
            self._close(job, JobEvent.CANCELLED)

    def finish(self, job: JobId) -> None:
        """A job that runs ends now, whatever work it had left."""
        if self.progress[job].attempt is not None:
            self._finish(job)

    def reconfigure(self, change: Callable[[Snapshot], Snapshot]) -> None:
        """Change nodes, tenants or virtual clusters; attempts on GPUs that are gone are lost."""
        facts = self.session.facts
        changed = change(self.snapshot())
        present = {gpu.id for node in changed.nodes for gpu in node.gpus}
        for running in list(facts.running.values()):
            if present.issuperset(running.gpus):
                continue
            if running.phase == "planned":
                self._occupancy.release(running.allocation, running.gpus)
                facts.drop_running(running.allocation)
                continue
            self._ends.setdefault(running.allocation, ("lost", ()))
            self._release(running.allocation)
        now_there = self.snapshot()
        self.session = Session(replace(changed, jobs=now_there.jobs, running=now_there.running))

    def snapshot(self) -> Snapshot:
        """Return the facts as the next round would see them."""
        facts = self.session.facts
        frame = replace(facts.frame, now=self.now, memory=dict(self._memory))
        return replace(frame, jobs=tuple(facts.jobs.values()), running=tuple(facts.running.values()))

    def _know(self, job: Job, truth: Truth) -> None:
        facts = self.session.facts
        told = replace(
            job, preemption_cost_seconds=job.preemption_cost_seconds or self.rules.costs.preemption_seconds
        )
        best = self.rules.speeds.best(job, facts.cluster.models)
        self.progress[job.id] = Progress(told, truth, best)
        facts.put_job(told)

    def _take_over(self, facts: Snapshot, truths: Mapping[JobId, Truth]) -> None:
        """Go on from where the given facts are."""
        for waiting in facts.jobs:
            self._know(waiting, truths[waiting.id])
            self._watch.comes(waiting)
        for running in facts.running:
            if running.phase == "planned":
                self._occupancy.promise(running.allocation, running.gpus)
                continue
            self._occupancy.hold(running.allocation, running.gpus)
            for job in running.jobs:
                self._put_to_work(job, running, is_resumed=True)
            if running.stopping:
                self._ends[running.allocation] = "preempted", ()
                for job in running.jobs:
                    self.progress[job].stop(self.now)
                pause = self.rules.costs.checkpoint_seconds
                self._at(self.now + pause, partial(self._release, running.allocation))

    # On and off the GPUs

    def _may_begin(self, running: Running) -> bool:
        """Whether the GPUs are free, and the jobs have left where they were before."""
        free = self._occupancy.is_free(running.gpus)
        return free and all(self.progress[job].attempt is None for job in running.jobs)

    def _begin(self, running: Running) -> None:
        self._occupancy.hold(running.allocation, running.gpus)
        self.session.facts.put_running(replace(running, phase="held", since=self.now))
        for job in running.jobs:
            self._put_to_work(job, running)
        self._measure(running.allocation)

    def _put_to_work(self, job: JobId, running: Running, *, is_resumed: bool = False) -> None:
        progress = self.progress[job]
        self._watch.starts(progress.job)
        costs = Costs() if is_resumed else self.rules.costs
        progress.begin(self.now, running.gpus, self._rate(job, running), costs)
        self._foresee(job)
        limit = progress.job.time_limit_seconds
        since = running.since if is_resumed else self.now
        if limit is not None and since + limit < progress.foresee_end():
            self._at(max(self.now, since + limit), _nothing)

    def _rate(self, job: JobId, running: Running) -> float:
        speeds, here = self.rules.speeds, self.progress[job].job
        others = [self.progress[other].job for other in running.jobs if other != job]
        nodes = len({self.session.facts.cluster.where[gpu][1] for gpu in running.gpus})
        alone = speeds.alone(here, running.gpu_model, len(running.gpus), nodes)
        return alone * speeds.together(here, others, running.gpu_model) if others else alone

    def _measure(self, allocation: AllocationId) -> None:
        """Let the scheduler know how fast jobs that share GPUs are there."""
        running = self.session.facts.running[allocation]
        if len(running.jobs) < 2:
            return
        speeds = {}
        for job in running.jobs:
            here = self.progress[job].job
            others = [self.progress[other].job for other in running.jobs if other != job]
            speeds[job] = self.rules.speeds.together(here, others, running.gpu_model)
        self.session.facts.put_running(replace(running, speeds=speeds))

    def _foresee(self, job: JobId) -> None:
        """Plan the end of the attempt, or the failure that comes before."""
        progress = self.progress[job]
        attempt, rules = progress.present, self.rules
        version, ends_at = attempt.version, progress.foresee_end()
        failure = None
        if rules.failures.probability:
            failure = rules.failures.strike(rules.seed, job, progress.attempts)
        if failure is not None:
            strikes_at = attempt.counted_at + max(0.0, failure.after_seconds - attempt.worked) / attempt.rate
            if strikes_at < ends_at:
                self._at(strikes_at, partial(self._fail, job, attempt, version, failure))
                return
        self._at(ends_at, partial(self._end, job, attempt, version))

    def _end(self, job: JobId, attempt: Attempt, version: int) -> bool:
        if attempt.version != version or attempt.state is not AttemptState.RUNNING:
            return False
        self._finish(job)
        return True

    def _finish(self, job: JobId) -> None:
        self._vacate(job, "finished")
        self.progress[job].finish(self.now)
        self.session.facts.drop_job(job)

    def _fail(self, job: JobId, attempt: Attempt, version: int, failure: Failure) -> bool:
        if attempt.version != version or attempt.state is not AttemptState.RUNNING:
            return False
        progress, failures = self.progress[job], self.rules.failures
        attempt.count(self.now)
        self._vacate(job, "failed", kept=self.rules.costs.kept_of(attempt.worked))
        progress.failures += 1
        if not failures.is_worth_retrying(failure, progress.failures):
            progress.finish(self.now, JobEvent.FAILED)
            self.session.facts.drop_job(job)
            return True
        self._wait_again(job)
        eligible_at = self.now + progress.failures * failures.backoff_seconds
        self.session.facts.put_job(replace(self.session.facts.jobs[job], eligible_at=eligible_at))
        self._at(eligible_at, _nothing)
        return True

    def _vacate(self, job: JobId, end: StayEnd, kept: float | None = None) -> None:
        """A job leaves its GPUs by itself; those it shared them with go on alone."""
        facts = self.session.facts
        running = facts.current[job]
        self._record_stay(job, running, end, (), kept)
        others = tuple([other for other in running.jobs if other != job])
        if not others:
            facts.drop_running(running.allocation)
            self._occupancy.release(running.allocation, running.gpus)
            self._promote(running.gpus, (job,))
            return
        fewer = replace(running, jobs=others, speeds={})
        facts.put_running(fewer)
        for other in others:
            self.progress[other].change_rate(self.now, self._rate(other, fewer))
            self._foresee(other)
        self._measure(running.allocation)

    def _release(self, allocation: AllocationId) -> bool:
        """The GPUs of a stopped allocation come free; its jobs wait again or have ended."""
        facts = self.session.facts
        if allocation not in facts.running:
            return False  # Its node was lost while it wrote its checkpoint.
        running = facts.running[allocation]
        end, preempted_by = self._ends.pop(allocation)
        facts.drop_running(allocation)
        self._occupancy.release(allocation, running.gpus)
        for job in running.jobs:
            kept = self.rules.costs.kept_of(self._worked(job)) if end == "lost" else None
            self._record_stay(job, running, end, preempted_by, kept)
            if end in _GOES_ON:
                self.progress[job].preemptions += end == "preempted"
                self._wait_again(job)
                if facts.jobs[job].cancelling:
                    self._close(job, JobEvent.CANCELLED)
            else:
                event = JobEvent.CANCELLED if end == "cancelled" else JobEvent.FAILED
                self.progress[job].finish(self.now, event)
                facts.drop_job(job)
        self._promote(running.gpus, running.jobs)
        return True

    def _worked(self, job: JobId) -> float:
        attempt = self.progress[job].present
        attempt.count(self.now)
        return attempt.worked

    def _record_stay(
        self, job: JobId, running: Running, end: StayEnd, preempted_by: tuple[JobId, ...], kept: float | None
    ) -> None:
        """End the job's attempt and write it down, there and in what the scheduler knows of the job."""
        facts, progress = self.session.facts, self.progress[job]
        started_at = progress.present.started_at
        overhead, lost = progress.leave(self.now, kept=kept)
        self._watch.leaves()
        self.stays.append(
            Stay(
                job=job,
                gpu_model=running.gpu_model,
                gpus=running.gpus,
                nodes=tuple(dict.fromkeys([self._node_of(gpu) for gpu in running.gpus])),
                started_at=started_at,
                ended_at=self.now,
                end=end,
                guaranteed=running.guaranteed,
                shared_with=tuple([other for other in running.jobs if other != job]),
                preempted_by=preempted_by,
                overhead_seconds=overhead,
                lost_seconds=lost,
            )
        )
        told = facts.jobs[job]
        service = dict(told.attained_service)
        received = (self.now - running.since) * len(running.gpus)
        service[running.gpu_model] = service.get(running.gpu_model, 0.0) + received
        facts.put_job(replace(told, attained_service=service, attempts=progress.attempts))

    def _node_of(self, gpu: GpuId) -> NodeId:
        model, number, _ = self.session.facts.cluster.where[gpu]
        return self.session.facts.cluster.fleets[model].nodes[number].id

    def _wait_again(self, job: JobId) -> None:
        self.progress[job].requeue()
        self._watch.comes(self.progress[job].job)

    def _close(self, job: JobId, event: JobEvent) -> None:
        """End a job that waits."""
        self._watch.goes(self.progress[job].job)
        self.progress[job].finish(self.now, event)
        self.session.facts.drop_job(job)

    def _promote(self, gpus: Sequence[GpuId], jobs: Sequence[JobId]) -> None:
        """Begin what was planned on these GPUs, or for these jobs, and now waits for nothing else."""
        facts = self.session.facts
        planned = set(self._occupancy.successors(gpus))
        planned.update(facts.current[job].allocation for job in jobs if job in facts.current)
        for allocation in sorted(planned):
            running = facts.running[allocation]
            if running.phase == "planned" and self._may_begin(running):
                self._begin(running)


def _submission(arrival: Arrival) -> tuple[float, JobId]:
    return arrival.job.submitted_at, arrival.job.id


def _nothing() -> bool:
    """A round is due; nothing else happens."""
    return True
