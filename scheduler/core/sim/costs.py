"""What starting, stopping and moving a job costs in a simulation, in seconds without progress."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Seconds by step of an attempt. All zero by default: preemption is then free, as in many papers."""

    #: From having its GPUs to the first step, whenever an attempt starts.
    start_seconds: float = 0.0
    #: Besides, when it resumes from a checkpoint.
    restore_seconds: float = 0.0
    #: Besides, when it resumes on other GPUs than it had.
    migration_seconds: float = 0.0
    #: Writing a checkpoint when it is told to stop; its GPUs are held so much longer.
    checkpoint_seconds: float = 0.0
    #: Between the checkpoints that a job writes by itself: what a failure throws it back by, at most.
    #: None: it writes none, and a failed attempt has to be done again from its beginning.
    interval_seconds: float | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None and not 0 <= value < float("inf"):
                raise ValueError(f"{each.name} is {value}; it must be a number of seconds of at least 0")
        if self.interval_seconds == 0:
            raise ValueError("interval_seconds is 0; it must be above 0, or none")

    @property
    def preemption_seconds(self) -> float:
        """What a preemption costs the job, as its scheduler is told."""
        return self.checkpoint_seconds + self.start_seconds + self.restore_seconds

    def kept_of(self, worked_seconds: float) -> float:
        """Return how much of an attempt's work a failure leaves: what its last checkpoint holds."""
        if self.interval_seconds is None:
            return 0.0
        return worked_seconds - worked_seconds % self.interval_seconds
