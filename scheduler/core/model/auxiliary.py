"""CPUs and memory that a job leaves to the platform, and its speed by them.

J. Mohan et al., "Looking Beyond GPUs for DNN Scheduling on Multi-Tenant Clusters" (Synergy), OSDI 2022: a
job's sensitivity is W(CPUs, memory); each axis is known separately, and the slower one decides.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

#: How a node's CPUs and memory are divided among jobs that leave them to the platform.
PROPORTIONAL = "proportional"
GREEDY = "greedy"
TUNE = "tune"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """Speed of a replica by its CPUs, and by its bytes of memory, in pairs (amount, speed), ascending.

    Speeds are relative to each other. They are interpolated linearly between amounts, and down to 0 below the
    first; above the last they stay the same. Empty: the speed does not depend on the amount.
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
        """Return the fewest CPUs, and bytes of memory, at which it is fastest; None for what it does not
        depend on.
        """
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
    #: The amounts in proportion to its GPUs.
    proportional: tuple[tuple[float, int], ...]
    #: For people: why some replica has less than that, although it could use it; empty: none has.
    message: str = ""


def _speed_at(curve: Sequence[tuple[float, float]], amount: float) -> float:
    place = bisect_left(curve, amount, key=lambda point: point[0])
    if place == len(curve):
        return curve[-1][1]
    low = curve[place - 1] if place else (0.0, 0.0)
    high = curve[place]
    return low[1] + (high[1] - low[1]) * (amount - low[0]) / (high[0] - low[0])


def _least_with(curve: Sequence[tuple[float, float]], speed: float) -> float:
    """Return the least amount at which the curve reaches that speed."""
    low = (0.0, 0.0)
    for point in curve:
        if point[1] >= speed:
            return low[0] + (point[0] - low[0]) * (speed - low[1]) / (point[1] - low[1])
        low = point
    return curve[-1][0]
