"""What a simulation is given: jobs as the scheduler sees them, and the truth only the simulator knows."""

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
    """Epochs that a job trains one after the other with one batch size."""

    batch_size: int
    epochs: float
    #: How long each takes the job's own gang alone on GPUs of the reference model.
    epoch_seconds: float

    @property
    def seconds(self) -> float:
        return self.epochs * self.epoch_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What a job will turn out to be. A scheduler never sees it."""

    #: Seconds it runs with its own gang alone on GPUs of the reference model, as near as it can be.
    work_seconds: float
    status: Status = "passed"
    #: Its batch sizes in their order, which together take `work_seconds`; none: as its facts say, throughout.
    phases: tuple[Phase, ...] = ()
    #: How fast it is on whatever GPUs it has; None: by the tables, or in proportion to them.
    scaling: Scaling | None = None
    #: How its loss falls with the seconds of work done; None: it reports none.
    loss: LossCurve | None = None
    #: How it uses GPUs that it has alone, reported as live, after a while; None: as its facts state.
    profile: Profile | None = None
    #: The parts of the CPUs and of the memory it asked for that it uses, by minute since it started, and
    #: again from the first after the last; none: all of both.
    use: tuple[tuple[float, float], ...] = ()
    #: For a trial run: what the job itself will turn out to be.
    after_trial: Truth | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A job of a workload. `job.submitted_at` says when; seconds from the workload's beginning."""

    job: Job
    truth: Truth


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Jobs in the order of their arrival, with ids 1, 2, ... in that order."""

    name: str
    arrivals: tuple[Arrival, ...]
    #: Where it came from and what was assumed to read it so, in sentences for the report.
    notes: tuple[str, ...] = ()
    #: What is missing of its source, or in another order: sentences with the number and the first.
    left_out: tuple[str, ...] = ()
