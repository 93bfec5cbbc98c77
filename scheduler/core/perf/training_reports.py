"""What the progress lines of a job say of its epochs: how many with which batch size, and how long they took.

A line may say `epoch` (done so far, with parts), `epochs` (in all) and `batch_size`. What was done since the
line before counts for the batch size of that line, and the time it took for the GPU model it ran on. An epoch
that is lower than before (the job went on from a checkpoint) takes back what was done last. Values that make
no sense are passed over: what was known stays. Time beside other jobs on the same GPUs counts like any other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from scheduler.core.model.training import Regime, Training

#: A job uses no more of them: reports of further batch sizes count for the one before.
MOST_BATCH_SIZES = 32
#: Values above make no sense.
MOST_EPOCHS, LARGEST_BATCH_SIZE = 1e9, 2**31


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A progress line: of which attempt, when by its node's clock, on which GPU model, and what it says."""

    attempt: int
    sequence: int
    at: float
    gpu_model: str
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSizeEpochs:
    """The epochs done with one batch size, and by GPU model (epochs, seconds) that were timed."""

    epochs: float = 0.0
    timed: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingReport:
    """What is known after a line. `epochs` is 0 and `batch_size` is 0 until reported."""

    attempt: int = 0
    sequence: int = 0
    at: float = 0.0
    epoch: float = 0.0
    epochs: float = 0.0
    batch_size: int = 0
    seen: Mapping[int, BatchSizeEpochs] = field(default_factory=dict)

    def after(self, line: Line) -> TrainingReport:
        """Return what is known after one more line; the same if it was counted or says nothing of epochs."""
        epoch = line.values.get("epoch", math.nan)
        counted = (line.attempt, line.sequence) <= (self.attempt, self.sequence)
        if counted or not 0 <= epoch <= MOST_EPOCHS:
            return self
        seen = dict(self.seen)
        more = epoch - self.epoch
        if more >= 0:
            before = seen.get(self.batch_size, BatchSizeEpochs())
            seen[self.batch_size] = self._with(before, more, line)
        else:
            _take_back(seen, -more, self.batch_size)
        epochs = line.values.get("epochs", math.nan)
        size = line.values.get("batch_size", math.nan)
        is_size = 1 <= size <= LARGEST_BATCH_SIZE and (len(seen) < MOST_BATCH_SIZES or round(size) in seen)
        batch_size = round(size) if is_size else self.batch_size
        if not seen.get(0, BatchSizeEpochs()).epochs and batch_size:
            seen.pop(0, None)
        seen.setdefault(batch_size, BatchSizeEpochs())
        return TrainingReport(
            attempt=line.attempt,
            sequence=line.sequence,
            at=line.at,
            epoch=epoch,
            epochs=epochs if 0 < epochs <= MOST_EPOCHS else self.epochs,
            batch_size=batch_size,
            seen=seen,
        )

    def _with(self, seen: BatchSizeEpochs, epochs: float, line: Line) -> BatchSizeEpochs:
        """Return the batch size with more epochs, timed if all of them ran in one attempt."""
        seconds = line.at - self.at
        if not epochs or line.attempt != self.attempt or not 0 < seconds < math.inf:
            return replace(seen, epochs=seen.epochs + epochs)
        before = seen.timed.get(line.gpu_model, (0.0, 0.0))
        timed = {**seen.timed, line.gpu_model: (before[0] + epochs, before[1] + seconds)}
        return BatchSizeEpochs(epochs=seen.epochs + epochs, timed=timed)

    def training(self, speeds: Mapping[str, float]) -> Training | None:
        """Return the job's facts; None while it has not said how many epochs there are, or none was timed.

        `speeds` are those of the models, relative to the one on which the facts are to hold; one that is not
        there, or 0, counts as 1. A batch size of which no epoch was timed is as fast as the nearest of which
        one was.
        """
        seconds = {size: _epoch_seconds(seen, speeds) for size, seen in self.seen.items()}
        known = {size: each for size, each in seconds.items() if each}
        if not self.epochs or not known:
            return None
        regimes = [
            Regime(
                batch_size=size,
                epochs=self.seen[size].epochs,
                epoch_seconds=known[min(known, key=lambda other: (_distance(size, other), other))],
            )
            for size in sorted(self.seen)
        ]
        return Training(epochs=self.epochs, batch_size=self.batch_size, regimes=tuple(regimes))


def _take_back(seen: dict[int, BatchSizeEpochs], epochs: float, present: int) -> None:
    """Take back epochs: those of the present batch size first, then of the largest."""
    for size in sorted(seen, key=lambda size: (size != present, -size)):
        taken = min(epochs, seen[size].epochs)
        seen[size] = replace(seen[size], epochs=seen[size].epochs - taken)
        epochs -= taken


def _epoch_seconds(seen: BatchSizeEpochs, speeds: Mapping[str, float]) -> float:
    """Return how long an epoch takes on the model on which the facts are to hold; 0: none was timed."""
    epochs = sum([count for count, _ in seen.timed.values()])
    work = sum([seconds * (speeds.get(model) or 1.0) for model, (_, seconds) in seen.timed.items()])
    return work / epochs if epochs else 0.0


def _distance(size: int, other: int) -> float:
    return abs(math.log(max(size, 1) / max(other, 1)))
