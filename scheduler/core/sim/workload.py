"""The input of a simulation: jobs as the scheduler sees them, and the truth that only the simulator knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from scheduler.core.model.snapshot import Job
from scheduler.core.model.training import Profile
from scheduler.core.perf.convergence import LossCurve
from scheduler.core.sim.scaling import Scaling

#: How a job of a trace ended there (Philly's words: passed, killed by its user, failed for good).
Status = Literal["passed", "killed", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """Successive epochs that a job trains with one batch size."""

    batch_size: int
    epochs: float
    #: The time of each for the job's own gang, alone on GPUs of the reference model.
    epoch_seconds: float

    @property
    def seconds(self) -> float:
        return self.epochs * self.epoch_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """The true behaviour of a job, which a scheduler never sees."""

    #: The seconds that it runs with its own gang, consolidated and alone on GPUs of the reference model.
    work_seconds: float
    status: Status = "passed"
    #: Its batch sizes in order, which together take `work_seconds`; if empty, that of its facts throughout.
    phases: tuple[Phase, ...] = ()
    #: How fast it is on any GPUs; None if that follows from the tables, or is in proportion to the GPUs.
    scaling: Scaling | None = None
    #: How its loss falls with the seconds of work done; None if it reports no loss.
    loss: LossCurve | None = None
    #: How it uses GPUs that it has alone, reported after a while, as live; None if its facts state it.
    profile: Profile | None = None
    #: The parts of its requested CPUs and memory that it uses, by minute since its start, repeated from the
    #: beginning; if empty, it uses all of both.
    use: tuple[tuple[float, float], ...] = ()
    #: For a trial run: the truth of the job itself.
    after_trial: Truth | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A job of a workload. `job.submitted_at` is in seconds from the beginning of the workload."""

    job: Job
    truth: Truth


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Jobs in the order of their arrival, with ids 1, 2, ... in that order."""

    name: str
    arrivals: tuple[Arrival, ...]
    #: Its source, and the assumptions made in reading it, in sentences for the report.
    notes: tuple[str, ...] = ()
    #: What was left out of its source or reordered, in sentences with the number and the first case.
    left_out: tuple[str, ...] = ()
