"""Which batch to learn from on the replicas at hand: how many samples a gradient, how many gradients.

The batch of greatest goodput, as the platform's model of goodput chooses it (docs/goodput.md): throughput
times what a sample is worth in such a batch. The number of replicas does not change while a process runs, so
that far less of throughput has to be known than there:

    iteration = gradients · (a + b·samples) + rest

`a` and `b` are a line through the times of gradients that were measured, `rest` is what an iteration takes
beyond them: synchronising that computing does not hide, and the update of the weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from allot.training.errors import TrainingError
from allot.training.noise import GradientNoise

#: Batches that are tried, and ways to divide one that hardly may change: as the platform's model does.
BATCHES, DIVISIONS = 50, 64
#: What is less than this beyond a whole number is that number.
ROUNDING = 1e-8
#: Iterations after which a mean forgets: machines get slower and faster.
REMEMBERED_ITERATIONS = 500


class Way(NamedTuple):
    """How each replica computes its part of a batch: `accumulation` gradients, and one more."""

    local_batch: int
    accumulation: int

    def batch(self, replicas: int) -> int:
        return replicas * self.local_batch * (self.accumulation + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Batches that a run may have: whole ones, from the initial one on; those of one gradient."""

    initial_batch: int
    max_batch: int
    min_local_batch: int = 1
    max_local_batch: int

    def __post_init__(self) -> None:
        if not 1 <= self.initial_batch <= self.max_batch:
            raise TrainingError(
                f"most: {self.max_batch} with an initial batch of {self.initial_batch}; "
                "it must be at least that, and that at least 1"
            )
        if not 1 <= self.min_local_batch <= self.max_local_batch:
            raise TrainingError(
                f"local: from {self.min_local_batch} to {self.max_local_batch} samples; "
                "it must be at least 1, and the most no less than the least"
            )

    def ways(self, replicas: int) -> list[Way]:
        """Return the ways to compute a batch that these limits allow, smaller batches first.

        Raises TrainingError when there is none.
        """
        found = self._allowed(replicas, self._growing(replicas))
        found = found or self._allowed(replicas, self._dividing(replicas))
        if not found:
            raise TrainingError(
                f"{replicas} replicas cannot compute a batch from {self.initial_batch} to {self.max_batch} "
                f"in equal gradients of {self.min_local_batch} to {self.max_local_batch} samples: "
                "give a larger `most`, or a smaller least of `local`"
            )
        return found

    def _allowed(self, replicas: int, ways: Iterator[Way]) -> list[Way]:
        return [
            way
            for way in dict.fromkeys(ways)
            if self.initial_batch <= way.batch(replicas) <= self.max_batch
            and self.min_local_batch <= way.local_batch <= self.max_local_batch
            # One gradient alone does not show the noise.
            and not (replicas == 1 and way.accumulation == 0 and way.local_batch > self.initial_batch)
        ]

    def _growing(self, replicas: int) -> Iterator[Way]:
        """Yield batches in equal steps of the logarithm, each in as few gradients as fit."""
        smallest = max(self.initial_batch, self.min_local_batch * replicas)
        factor = max(self.max_batch / smallest, 1.0)
        for number in range(BATCHES):
            local = smallest * factor ** (number / (BATCHES - 1)) / replicas
            gradients = max(math.ceil(local / self.max_local_batch - ROUNDING), 1)
            if replicas == 1 and local > self.initial_batch + ROUNDING:
                gradients = max(gradients, 2)
            most = self.max_batch // (replicas * gradients)
            yield Way(min(math.ceil(local / gradients - ROUNDING), most), gradients - 1)

    def _dividing(self, replicas: int) -> Iterator[Way]:
        """Yield the smallest batch in more and more gradients, for limits so narrow that little fits."""
        local = max(self.initial_batch / replicas, self.min_local_batch)
        fewest = math.ceil(local / self.max_local_batch - ROUNDING)
        for gradients in range(fewest, fewest + DIVISIONS):
            smallest = math.ceil(self.initial_batch / (replicas * gradients))
            yield Way(max(smallest, self.min_local_batch), gradients - 1)


@dataclass(slots=True)
class Mean:
    """Of seconds, over iterations of which later ones count more."""

    seconds: float = 0.0
    iterations: int = 0

    def add(self, seconds: float) -> None:
        self.iterations = min(self.iterations + 1, REMEMBERED_ITERATIONS)
        self.seconds += (seconds - self.seconds) / self.iterations


@dataclass(slots=True)
class Times:
    """What was measured of iterations on one GPU model."""

    #: By samples of a gradient.
    gradient: dict[int, Mean] = field(default_factory=dict)
    #: By replicas: the time of an iteration besides computing gradients.
    rest: dict[int, Mean] = field(default_factory=dict)

    def add(self, local_batch: int, replicas: int, *, gradient: float, rest: float) -> None:
        """Add the seconds of an iteration: those of each gradient, and those of all that is beyond them."""
        self.gradient.setdefault(local_batch, Mean()).add(gradient)
        self.rest.setdefault(replicas, Mean()).add(rest)

    def seconds(self, way: Way, replicas: int) -> float:
        """Return how long an iteration takes; there must be a measurement of some gradient."""
        constant, per_sample = self._line()
        gradient = constant + per_sample * way.local_batch
        return (way.accumulation + 1) * gradient + self._rest_of(replicas)

    def _line(self) -> tuple[float, float]:
        """Return constant and slope of a gradient's time: least squares of relative errors, neither below 0.

        With a single local batch half is taken for constant, as the platform does: so larger ones get tried.
        """
        points = [(size, max(mean.seconds, ROUNDING)) for size, mean in self.gradient.items()]
        if len(points) == 1:
            ((size, seconds),) = points
            return seconds / 2, seconds / 2 / size
        # The error relative to t is a·u + b·v - 1, with u = 1/t and v = m/t.
        rows = [(1 / seconds, size / seconds) for size, seconds in points]
        u, v = (math.fsum(column) for column in zip(*rows, strict=True))
        uu, vv, uv = (math.fsum(row[i] * row[j] for row in rows) for i, j in ((0, 0), (1, 1), (0, 1)))
        constant, slope = u * vv - v * uv, v * uu - u * uv
        if constant <= 0:
            return 0.0, v / vv
        if slope <= 0:
            return u / uu, 0.0
        return constant / (uu * vv - uv * uv), slope / (uu * vv - uv * uv)

    def _rest_of(self, replicas: int) -> float:
        """Return what was measured with `replicas` replicas, else with the number nearest to it.

        One replica synchronises with no other, so its times say nothing about several, nor theirs about it.
        """
        alike = [known for known in self.rest if (known == 1) == (replicas == 1)]
        if not alike:
            return 0.0
        return self.rest[min(alike, key=lambda known: (abs(known - replicas), known))].seconds

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps of it."""
        return {
            name: [[key, mean.seconds, mean.iterations] for key, mean in sorted(means.items())]
            for name, means in (("gradient", self.gradient), ("rest", self.rest))
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Sequence[Sequence[Any]]]) -> Times:
        """Raises KeyError, TypeError or ValueError for an invalid state."""
        means = (
            {int(key): Mean(float(seconds), int(iterations)) for key, seconds, iterations in state[name]}
            for name in ("gradient", "rest")
        )
        return cls(*means)


def goodput(way: Way, limits: Limits, replicas: int, times: Times, noise: GradientNoise) -> float:
    """Return steps at the initial batch per second."""
    scale = way.batch(replicas) / limits.initial_batch
    return noise.gain(scale) / max(times.seconds(way, replicas), ROUNDING)


def best_way(limits: Limits, replicas: int, times: Times, noise: GradientNoise) -> Way:
    """Return the way of greatest goodput; that of the smallest batch where nothing was measured."""
    ways = limits.ways(replicas)
    if not times.gradient:
        return ways[0]
    return max(ways, key=lambda way: goodput(way, limits, replicas, times, noise))
