"""The simulator's state of one job: the work left, and the account of its stays."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.core.fitting.demand import amount_of
from scheduler.core.model.attempts import (
    LOST,
    EndJob,
    Event,
    Part,
    PartExited,
    PartRunning,
    Promoted,
    State,
    Stopped,
    planned,
    step,
)
from scheduler.core.model.lifecycle import AttemptState, JobEvent, JobState, Outcome, StopCause, job_step
from scheduler.core.model.snapshot import GpuId, Job
from scheduler.core.sim.costs import Costs
from scheduler.core.sim.result import JobRecord
from scheduler.core.sim.workload import Status, Truth

#: Work below this counts as done: after many changes of rate it is rounding.
NOTHING_SECONDS = 1e-6

#: Outcomes after which a job continues in another attempt, from a checkpoint if it could write one.
GOES_ON = frozenset({Outcome.PREEMPTED, Outcome.LOST})

#: The single part of every attempt: its nodes act at the same time.
GANG = 0
DONE = PartExited(node=GANG, exit_code=0)
CRASHED = PartExited(node=GANG, exit_code=1, category="user")
STOPPED = PartExited(node=GANG, exit_code=143, category="stopped")
NODE_LOST = PartExited(node=GANG, exit_code=137, category=LOST)

_ENDS: dict[Status, JobEvent] = {
    "passed": JobEvent.SUCCEEDED,
    "killed": JobEvent.CANCELLED,
    "failed": JobEvent.FAILED,
}


def _begun() -> State:
    """Return the state of a running attempt: here attempts do not wait until nodes are ready."""
    state = planned(0, [GANG])
    for event in (Promoted(), PartRunning(node=GANG)):
        state, _ = step(state, event)
    return state


_BEGUN = _begun()


#: A cache of state transitions, by everything that distinguishes the simulator's states.
_TAKEN: dict[tuple[AttemptState, Part, bool, StopCause, Event], tuple[State, EndJob | None]] = {}


@dataclass(slots=True)
class Attempt:
    """A job on its GPUs."""

    started_at: float
    gpus: tuple[GpuId, ...]
    #: The instant up to which progress is counted; it begins once the job has started or restored its
    #: checkpoint.
    counted_at: float
    #: Seconds of reference work done in a second.
    rate: float
    #: Reference work done, and the seconds it took.
    worked: float = 0.0
    productive_seconds: float = 0.0
    #: Its state in the attempt machine.
    known: State = _BEGUN
    #: Grows whenever its end is rescheduled, which voids events scheduled earlier.
    version: int = 0

    @property
    def state(self) -> AttemptState:
        return self.known.state

    def take(self, event: Event) -> EndJob | None:
        """Process an event; return the effect on its job if the attempt ends."""
        known = self.known
        key = known.state, known.parts[GANG], known.go, known.stop_cause, event
        if key not in _TAKEN:
            after, effects = step(known, event)
            _TAKEN[key] = after, next((effect for effect in effects if isinstance(effect, EndJob)), None)
        self.known, end = _TAKEN[key]
        return end

    def count(self, now: float) -> None:
        """Count the progress made up to now."""
        if now > self.counted_at and self.state is AttemptState.RUNNING:
            self.productive_seconds += now - self.counted_at
            self.worked += (now - self.counted_at) * self.rate
            self.counted_at = now

    def pause(self, now: float, seconds: float) -> None:
        """Make no progress for `seconds` from now on."""
        self.count(now)
        self.counted_at = max(self.counted_at, now) + seconds
        self.version += 1


class Progress:
    """A job from its arrival to its end."""

    __slots__ = (
        "_gpu_seconds",
        "_held_seconds",
        "_last_gpus",
        "_lost_gpu_seconds",
        "_overhead_gpu_seconds",
        "attempt",
        "attempts",
        "best_rate",
        "ended_at",
        "failures",
        "first_started_at",
        "job",
        "migrations",
        "outcome",
        "preemptions",
        "remaining",
        "state",
        "truth",
    )

    def __init__(self, job: Job, truth: Truth, best_rate: float) -> None:
        self.job, self.truth, self.best_rate = job, truth, best_rate
        self.state = JobState.QUEUED
        #: Reference work to do, as of the last checkpoint.
        self.remaining = truth.work_seconds
        self.attempt: Attempt | None = None
        self.outcome = ""
        self.first_started_at: float | None = None
        self.ended_at: float | None = None
        self.attempts = self.preemptions = self.migrations = self.failures = 0
        self._last_gpus: tuple[GpuId, ...] = ()
        self._held_seconds = self._gpu_seconds = self._overhead_gpu_seconds = self._lost_gpu_seconds = 0.0

    def begin(self, now: float, gpus: tuple[GpuId, ...], rate: float, costs: Costs) -> Attempt:
        """Start an attempt on GPUs that the job holds from now on."""
        self.state = job_step(self.job.id, self.state, JobEvent.STARTED)
        overhead = costs.start_seconds
        if self.remaining < self.truth.work_seconds:
            overhead += costs.restore_seconds
        if self.first_started_at is None:
            self.first_started_at = now
        elif self._last_gpus and gpus != self._last_gpus:
            overhead += costs.migration_seconds
            self.migrations += 1
        self.attempts += 1
        self.attempt = Attempt(now, gpus, now + overhead, rate)
        return self.attempt

    @property
    def present(self) -> Attempt:
        """The running attempt; reading it when there is none is a bug in the simulator."""
        assert self.attempt is not None
        return self.attempt

    def done_seconds(self, now: float) -> float:
        """Return the reference work done and not lost so far."""
        done = self.truth.work_seconds - self.remaining
        attempt = self.attempt
        if attempt is None:
            return done
        uncounted = now - attempt.counted_at if attempt.state is AttemptState.RUNNING else 0.0
        return done + attempt.worked + max(0.0, uncounted) * attempt.rate

    def foresee_end(self) -> float:
        """Return when the work will be done if nothing changes."""
        attempt = self.present
        return attempt.counted_at + max(0.0, self.remaining - attempt.worked) / attempt.rate

    def change_rate(self, now: float, rate: float) -> None:
        """Change the rate from now on, since a job that shares the GPUs came or left."""
        self.present.count(now)
        self.present.rate = rate
        self.present.version += 1

    def stop(self, now: float, cause: StopCause) -> None:
        """Stop progress: the attempt has to stop and writes its checkpoint."""
        attempt = self.present
        attempt.count(now)
        attempt.version += 1
        attempt.take(Stopped(cause=cause))

    def exit(self, now: float, how: PartExited) -> EndJob:
        """End the attempt; `leave` follows."""
        self.present.count(now)
        end = self.present.take(how)
        assert end is not None
        return end

    def leave(self, now: float, *, kept: float | None = None) -> tuple[float, float]:
        """Leave the GPUs of an attempt that has ended. `kept` seconds of its work remain done (None: all).

        Returns (seconds without progress, seconds of reference work lost).
        """
        attempt = self.present
        kept = attempt.worked if kept is None else min(kept, attempt.worked)
        lost, held = attempt.worked - kept, now - attempt.started_at
        gpus = amount_of(self.job, len(attempt.gpus))
        self.remaining = max(0.0, self.remaining - kept)
        overhead = held - attempt.productive_seconds
        self._held_seconds += held
        self._gpu_seconds += held * gpus
        self._overhead_gpu_seconds += overhead * gpus
        if lost > 0:
            self._lost_gpu_seconds += lost / attempt.worked * attempt.productive_seconds * gpus
        self._last_gpus, self.attempt = attempt.gpus, None
        return overhead, lost

    def become(self, job: Job, best_rate: float) -> None:
        """Become the job itself, after its trial run."""
        assert self.truth.after_trial is not None
        self.job, self.truth, self.best_rate = job, self.truth.after_trial, best_rate
        self.remaining, self._last_gpus = self.truth.work_seconds, ()

    def requeue(self) -> None:
        """Wait for another attempt."""
        self.state = job_step(self.job.id, self.state, JobEvent.REQUEUED)

    def finish(self, now: float, event: JobEvent | None = None) -> None:
        """End permanently: as in the trace, unless `event` states another end."""
        self.state = job_step(self.job.id, self.state, event or _ENDS[self.truth.status])
        self.outcome, self.ended_at = self.state.value, now

    def record(self, now: float = 0.0) -> JobRecord:
        """Return the account of the job; an attempt that still runs is counted up to now."""
        job, held, gpu_seconds, overhead = (
            self.job,
            self._held_seconds,
            self._gpu_seconds,
            self._overhead_gpu_seconds,
        )
        if self.attempt is not None:
            attempt = self.attempt
            attempt.count(now)
            here, gpus = now - attempt.started_at, amount_of(job, len(attempt.gpus))
            held, gpu_seconds = held + here, gpu_seconds + here * gpus
            overhead += (here - attempt.productive_seconds) * gpus
        return JobRecord(
            id=job.id,
            tenant=job.tenant,
            virtual_cluster=job.virtual_cluster,
            application=job.application,
            gpus=amount_of(job, job.gpus),
            guaranteed=job.guaranteed,
            search=job.search,
            submitted_at=job.submitted_at,
            work_seconds=self.truth.work_seconds,
            status=self.truth.status,
            best_rate=self.best_rate,
            first_started_at=self.first_started_at,
            ended_at=self.ended_at,
            outcome=self.outcome or ("running" if self.attempt else "waiting"),
            attempts=self.attempts,
            preemptions=self.preemptions,
            migrations=self.migrations,
            held_seconds=held,
            gpu_seconds=gpu_seconds,
            overhead_gpu_seconds=overhead,
            lost_gpu_seconds=self._lost_gpu_seconds,
        )
