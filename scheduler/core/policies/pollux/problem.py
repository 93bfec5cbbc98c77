"""The search space of Pollux, and the value of an allocation (OSDI'21, section 4.2).

A gang of K replicas, on one node or on several, has a speedup over its fair share. If it runs on other nodes
than before, the speedup is multiplied by its restart factor. The fitness of an allocation is the mean of
these speedups by the power p: p = 1 is throughput, p = -1 the harmonic mean, which punishes starving.
Searches maximise a sum with which that mean grows. The sum is over each gang's value, which is its weight
times

    (speedup + ε)^p, with the sign of p, or for p = 0 its logarithm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduler.core.building_blocks.elastic.arrangement import Gang, Row
from scheduler.core.goodput.throughput import Floats

#: The utility of a gang without GPUs, so that a negative power of it is finite.
EPSILON = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Gangs, the most important first, and their values by placement. Arrays are by gang."""

    #: GPUs that may be handed out, of each node and of all together.
    room: tuple[int, ...]
    limit: int
    gangs: tuple[Gang, ...]
    #: By (0 on one node or 1 on several, gang, replicas): the speedup; 0 where a gang cannot have this many.
    speedups: Floats
    #: What a restart leaves of a gang's speedup.
    restart_factors: Floats
    weights: Floats
    power: float = -1.0
    epsilon: float = EPSILON
    #: Whether gangs over several nodes keep off each other's nodes.
    apart: bool = True
    #: Most nodes of a gang.
    most_nodes: int = 16

    def values(self, *, restarted: bool) -> Floats:
        """Return a gang's value by (one node or several, gang, replicas)."""
        factors = self.restart_factors[None, :, None] if restarted else 1.0
        return self.weights[None, :, None] * _worth(self.speedups * factors + self.epsilon, self.power)

    def value_of(self, rows: Sequence[Row]) -> float:
        """Return the sum of values of an allocation."""
        total = 0.0
        for number, row in enumerate(rows):
            speedup = float(self.speedups[int(len(row) > 1), number, sum(row.values())])
            if row != self.gangs[number].base:
                speedup *= float(self.restart_factors[number])
            total += float(self.weights[number]) * float(_worth(np.array(speedup + self.epsilon), self.power))
        return total

    def fitness(self, value: float) -> float:
        """Return the mean of speedups by the power p, given the sum of values."""
        mean = value / float(self.weights.sum())
        if self.power == 0:
            return float(np.exp(mean))
        return float(abs(mean) ** (1.0 / self.power))

    @property
    def base(self) -> list[Row]:
        """The nodes of each gang now."""
        return [gang.base for gang in self.gangs]


def _worth(speedup: Floats, power: float) -> Floats:
    if power == 0:
        logarithm: Floats = np.log(speedup)
        return logarithm
    raised: Floats = np.sign(power) * speedup**power
    return raised


def restart_factors(ages: Floats, restarts: Floats, delay_seconds: float) -> Floats:
    """Return the part of its speedup that another restart leaves a gang of that age and number of restarts:
    max(age - restarts·delay, 0) / (age + delay). A young one that was moved often stays where it is.
    """
    ages = np.maximum(ages, 0.0)
    found: Floats = np.maximum(ages - restarts * delay_seconds, 0.0) / (ages + delay_seconds)
    return found


Counts = NDArray[np.int16]
