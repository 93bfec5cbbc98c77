"""CPUs and memory that a job leaves to the platform, and what it makes of them.

J. Mohan et al., "Looking Beyond GPUs for DNN Scheduling on Multi-Tenant Clusters" (Synergy), OSDI 2022: a
job's sensitivity is W(CPUs, memory), of which each axis is known by itself and the slower one decides.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

#: How the CPUs and memory of a node are divided among those who leave it to the platform.
PROPORTIONAL = "proportional"
GREEDY = "greedy"
TUNE = "tune"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """Speed of a replica by its CPUs, and by its bytes of memory, in pairs (amount, speed), ascending.

    Speeds are relative to each other. Between two amounts it is on the line between them, below the first on
    the line to nothing, above the last it gains no more. Empty: it does not depend on it.
    """

    by_cpus: tuple[tuple[float, float], ...] = ()
    by_memory: tuple[tuple[float, float], ...] = ()

    def speed(self, cpus: float, memory_bytes: float) -> float:
        """Return W: input is prepared by the CPUs and comes from memory, and the slower one decides.

        1 where nothing is known.
        """
        speeds = [
            _speed_at(curve, amount)
            for curve, amount in ((self.by_cpus, cpus), (self.by_memory, memory_bytes))
            if curve
        ]
        return min(speeds, default=1.0)

    def best(self) -> tuple[float | None, float | None]:
        """Return the fewest CPUs, and bytes of memory, with which it is as fast as it can be; None of what
        it does not depend on."""
        top = min([curve[-1][1] for curve in (self.by_cpus, self.by_memory) if curve], default=1.0)
        cpus, memory = (
            _least_with(curve, top) if curve else None for curve in (self.by_cpus, self.by_memory)
        )
        return cpus, memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Auto:
    """What each replica of a task leaves to the platform: its CPUs, its memory, or both."""

    cpus: bool = True
    memory: bool = True
    #: The sensitivity of one replica; empty: unknown.
    sensitivity: Sensitivity = Sensitivity()


@dataclass(frozen=True, slots=True, kw_only=True)
class AuxiliaryShare:
    """What each replica has of its node, by task, then replica: (CPUs, bytes of memory). 0: no limit, where
    the node does not say what it has, or what the job itself states."""

    replicas: tuple[tuple[float, int], ...]
    #: The part of its node that its GPUs are: what it has by them alone.
    proportional: tuple[tuple[float, int], ...]
    #: For people: why some replica has less than that, though it would make use of it; empty: none has.
    message: str = ""


def _speed_at(curve: Sequence[tuple[float, float]], amount: float) -> float:
    place = bisect_left(curve, amount, key=lambda point: point[0])
    if place == len(curve):
        return curve[-1][1]
    low = curve[place - 1] if place else (0.0, 0.0)
    high = curve[place]
    return low[1] + (high[1] - low[1]) * (amount - low[0]) / (high[0] - low[0])


def _least_with(curve: Sequence[tuple[float, float]], speed: float) -> float:
    """Return the least amount with that speed, which the curve reaches."""
    low = (0.0, 0.0)
    for point in curve:
        if point[1] >= speed:
            return low[0] + (point[0] - low[0]) * (speed - low[1]) / (point[1] - low[1])
        low = point
    return curve[-1][0]
