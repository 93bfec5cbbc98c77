"""When GPUs come free, by the expected ends of the running jobs, and from when on a gang would fit.

A gang is tried now, and then after the first 1, 2, 4, ... running jobs on a model have ended. So the instant
found is late by less than half of those ends, and a long list of them costs only a few searches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.demand import Demand
from scheduler.core.fitting.holding import Holding
from scheduler.core.policies.allox.matching import Floats

#: Seconds until the job behind a holding ends, and the holding.
End = tuple[float, Holding]


class Releases:
    """The GPUs of one model: idle ones, and those that come free as jobs end."""

    def __init__(self, model: str, capacity: Capacity, ends: Sequence[End]) -> None:
        self._model, self._capacity = model, capacity
        self._ends = sorted(ends, key=lambda end: end[0])
        #: What is available after some of the ends, as far as it was asked for.
        self._steps: list[tuple[float, Capacity]] = [(0.0, capacity)]
        self._ended = 0
        self._known: dict[Demand, float] = {}

    @property
    def free_in_seconds(self) -> Floats:
        """The seconds until each GPU of the model is free, ascending."""
        busy = [seconds for seconds, holding in self._ends for _ in range(holding.gpus - len(holding.shared))]
        # A GPU that several jobs share is free with the last of them.
        shared = {gpu: seconds for seconds, holding in self._ends for gpu in holding.shared}
        if shared:
            busy = sorted([*busy, *shared.values()])
        idle = self._capacity.offered(self._model)
        if not idle and not busy and self._capacity.has_open_gpus:
            # Jobs of other views have parts of all of them: what these leave is one lane.
            idle = 1
        return np.array([0.0] * idle + busy)

    def fits_in_seconds(self, demand: Demand) -> float:
        """Return the seconds until a gang fits on this model; infinite when it does not fit at all."""
        if demand not in self._known:
            self._known[demand] = self._search(demand)
        return self._known[demand]

    def _search(self, demand: Demand) -> float:
        step = 0
        while step < len(self._steps) or self._grow():
            seconds, capacity = self._steps[step]
            if capacity.find(demand) is not None:
                return seconds
            step += 1
        return math.inf

    def _grow(self) -> bool:
        """Let as many more jobs end as have ended so far, at least one; return False when all have."""
        if self._ended == len(self._ends):
            return False
        capacity = self._steps[-1][1].fork()
        enders = self._ends[self._ended : 2 * self._ended or 1]
        for _, holding in enders:
            capacity.drop(holding)
        self._ended += len(enders)
        self._steps.append((enders[-1][0], capacity))
        return True


def lanes_of(free: Floats, gpus: float) -> Floats:
    """Return when lanes of `gpus` GPUs each are free: each one with the last of its GPUs."""
    count = max(1, int(len(free) / gpus + 1e-9)) if len(free) else 0
    last = np.ceil(np.arange(1, count + 1) * gpus - 1e-9).astype(int) - 1
    lanes: Floats = free[np.minimum(last, len(free) - 1)]
    return lanes


def free_after(lanes: Floats, gpus: int) -> Floats:
    """Return when each of `gpus` GPUs is free once their lanes have served what was matched to them."""
    return np.sort(lanes[np.arange(gpus) * len(lanes) // gpus]) if gpus else lanes
