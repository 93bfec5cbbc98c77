"""Read a job's epochs from its progress lines: how many with each batch size, and how long they took.

A line may have `epoch` (done so far, with fractions), `epochs` (in all) and `batch_size`. The epochs since
the line before count for the batch size of that line, and their time for the GPU model that ran them. An
epoch lower than before (the job went on from a checkpoint) takes back the latest epochs. Values that make no
sense are ignored, and what was known stays. Time beside other jobs on the same GPUs counts like any other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from scheduler.core.model.training import Regime, Training

#: The most batch sizes of a job; reports of further ones count for the batch size before.
MOST_BATCH_SIZES = 32
#: Larger values make no sense.
MOST_EPOCHS, LARGEST_BATCH_SIZE = 1e9, 2**31
#: Fewer epochs are too few to tell how long one takes, which is at most this long.
LEAST_EPOCHS, LONGEST_EPOCH_SECONDS = 1e-9, 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A progress line: its attempt, its time by the node's clock, its GPU model, and its values."""

    attempt: int
    sequence: int
    at: float
    gpu_model: str
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSizeEpochs:
    """The epochs done with one batch size, and those that were timed, as (epochs, seconds) by GPU model."""

    epochs: float = 0.0
    timed: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingReport:
    """What is known after a line. `epochs` and `batch_size` are 0 until reported."""

    attempt: int = 0
    sequence: int = 0
    at: float = 0.0
    epoch: float = 0.0
    epochs: float = 0.0
    batch_size: int = 0
    seen: Mapping[int, BatchSizeEpochs] = field(default_factory=dict)

    def after(self, line: Line) -> TrainingReport:
        """Return the report after one more line; unchanged if the line was counted or has no epochs."""
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
        """Return the job's training facts; None until it has reported its epochs and one of them was timed.

        `speeds` are those of the models, relative to the model for which the facts should hold; one that is
        missing, or 0, counts as 1. A batch size without a timed epoch counts as being as fast as the nearest
        batch size with one.
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
    """Return how long an epoch takes on the model for which the facts hold; 0 if too little was timed."""
    epochs = sum([count for count, _ in seen.timed.values()])
    work = sum([seconds * (speeds.get(model) or 1.0) for model, (_, seconds) in seen.timed.items()])
    return min(work / epochs, LONGEST_EPOCH_SECONDS) if epochs >= LEAST_EPOCHS else 0.0


def _distance(size: int, other: int) -> float:
    return abs(math.log(max(size, 1) / max(other, 1)))
