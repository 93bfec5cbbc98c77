"""What starting, stopping and moving a job costs in a simulation, in seconds without progress."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

from scheduler.core.model.snapshot import Job

#: The costs that can differ by kind of job or size of gang.
OF_JOBS = ("start_seconds", "restore_seconds", "migration_seconds", "checkpoint_seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class CostFor:
    """A cost of jobs of one kind, or of gangs of a size."""

    #: One of OF_JOBS.
    name: str
    seconds: float
    #: The kind of jobs; empty for any kind.
    application: str = ""
    #: Gangs of this many GPUs or more.
    least_gpus: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Seconds by step of an attempt. All zero by default: preemption is then free, as in many papers."""

    #: From having its GPUs to the first step, whenever an attempt starts.
    start_seconds: float = 0.0
    #: In addition, when it resumes from a checkpoint.
    restore_seconds: float = 0.0
    #: In addition, when it resumes on other GPUs than before.
    migration_seconds: float = 0.0
    #: Writing a checkpoint when it has to stop; it holds its GPUs for this time.
    checkpoint_seconds: float = 0.0
    #: The time between the checkpoints that a job writes unprompted: the most work that a failure loses. If
    #: None, it writes none, and a failed attempt is repeated from its beginning.
    interval_seconds: float | None = None
    #: The cost to every other running job whenever a round starts, stops or moves one.
    event_seconds: float = 0.0
    #: Costs of particular kinds of jobs or sizes of gangs.
    special: tuple[CostFor, ...] = ()

    def __post_init__(self) -> None:
        values = [(each.name, getattr(self, each.name)) for each in fields(self) if each.name != "special"]
        for name, value in [*values, *((each.name, each.seconds) for each in self.special)]:
            if value is not None and not 0 <= value < float("inf"):
                raise ValueError(f"{name} is {value}; it must be a number of seconds of at least 0")
        if self.interval_seconds == 0:
            raise ValueError("interval_seconds is 0; it must be above 0, or none")

    def of(self, job: Job) -> Costs:
        """Return the costs of one job: the most specific ones, a kind before a size."""
        return _of(self, job.application, job.gpus) if self.special else self

    @property
    def preemption_seconds(self) -> float:
        """The cost of a preemption to the job, as its scheduler sees it."""
        return self.checkpoint_seconds + self.start_seconds + self.restore_seconds

    def kept_of(self, worked_seconds: float) -> float:
        """Return how much of an attempt's work survives a failure: the work up to its last checkpoint."""
        if self.interval_seconds is None:
            return 0.0
        return worked_seconds - worked_seconds % self.interval_seconds


@lru_cache(maxsize=4_096)
def _of(costs: Costs, application: str, gpus: int) -> Costs:
    own: dict[str, Any] = {}
    for each in sorted(costs.special, key=lambda each: (bool(each.application), each.least_gpus)):
        if each.application in ("", application) and gpus >= each.least_gpus:
            own[each.name] = each.seconds
    return replace(costs, special=(), **own)
