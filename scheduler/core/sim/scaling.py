"""The true scaling of a job that progresses like a measured application: iterations, epochs, noise.

This follows the published simulator of Pollux (OSDI'21; petuum/adaptdl, branch osdi21-artifact). Progress is
counted in iterations at the initial batch: an iteration with a larger batch counts by its gain, and takes the
time measured for the placement of its replicas. So the work of a job is the same on any number of GPUs with
any batch.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from scheduler.core.goodput.batch import Limits
from scheduler.core.goodput.fit import Measurement

#: The number of replicas on each node that has any.
Placement = tuple[int, ...]
#: A value above a whole number by less than this counts as that number.
_ROUNDING = 1e-8


class Application(Protocol):
    """The measurements of an application."""

    @property
    def epochs_to_train(self) -> int: ...
    @property
    def initial_batch(self) -> int: ...
    @property
    def max_batch(self) -> int: ...
    @property
    def min_local_batch(self) -> int: ...
    @property
    def max_local_batch(self) -> int: ...

    def progress_at(self, epoch: int) -> float:
        """Return the progress at the end of this many epochs."""
        ...

    def noise(self, batch: int, epoch: int) -> tuple[float, float]:
        """Return squared norm and variance of the gradient in an epoch."""
        ...

    def step_seconds(self, placement: Placement, local_batch: int) -> tuple[float, float]:
        """Return the seconds of an iteration without accumulation, and the seconds of it in synchronising."""
        ...

    def measurements(self) -> Sequence[Measurement]:
        """Return the measurements of all ways of running that were timed."""
        ...


def divided(application: Application, batch: int, replicas: int, least_passes: int = 1) -> tuple[int, int]:
    """Return per-GPU batch and accumulation of a total batch.

    One GPU with more than the initial batch takes at least two passes.
    """
    local = math.ceil(batch / replicas - _ROUNDING)
    passes = max(math.ceil(local / application.max_local_batch - _ROUNDING), least_passes)
    if replicas == 1 and batch > application.initial_batch:
        passes = max(passes, 2)
    local = math.ceil(local / passes - _ROUNDING)
    return min(local, application.max_batch // (replicas * passes)), passes - 1


def progress_per_second(
    application: Application, placement: Placement, local_batch: int, accumulation: int, epoch: int
) -> float:
    """Return the progress per second in an epoch, in iterations at the initial batch."""
    step, sync = application.step_seconds(placement, local_batch)
    batch = sum(placement) * local_batch * (accumulation + 1)
    sqr, var = application.noise(batch, epoch)
    least = var * application.initial_batch / batch + sqr
    # If gradients are too small to be measured, an iteration counts as one.
    gain = (var + sqr) / least if least > 0 else 1.0
    return gain / (step + (step - sync) * accumulation)


@dataclass(frozen=True, slots=True)
class Scaling:
    """A job of a measured application, on GPUs of any model."""

    application: Application
    #: The fixed total batch; None if the job chooses it by its own measurements.
    batch: int | None
    #: Progress at the end of each epoch.
    ends: tuple[float, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        application = self.application
        ends = [application.progress_at(epoch + 1) for epoch in range(application.epochs_to_train)]
        object.__setattr__(self, "ends", tuple(ends))

    def epoch_at(self, part: float) -> int:
        """Return the epoch of a job that has done this part of its work; at the end, the last one."""
        done = part * self.ends[-1] * (1 + 1e-12)
        return min(bisect_right(self.ends, done), len(self.ends) - 1)

    def end_of(self, epoch: int) -> float:
        """Return the part of the work done at the end of an epoch."""
        return self.ends[epoch] / self.ends[-1]

    def run_seconds(self, placement: Placement, batch: int) -> float:
        """Return how long the whole job takes with this placement and total batch, without interruption."""
        local, accumulation = divided(self.application, batch, sum(placement))
        total, done = 0.0, 0.0
        for epoch, end in enumerate(self.ends):
            speed = progress_per_second(self.application, placement, local, accumulation, epoch)
            total += (end - done) / speed
            done = end
        return total

    def limits(self, most_replicas: int) -> Limits:
        """Return the limits of its batch; a fixed batch is rounded up to equal parts."""
        application, kept = self.application, self.batch
        return Limits(
            initial_batch=kept or application.initial_batch,
            max_batch=kept + most_replicas - 1 if kept else application.max_batch,
            min_local_batch=1 if kept else application.min_local_batch,
            max_local_batch=application.max_local_batch,
        )
