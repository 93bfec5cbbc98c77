"""What two jobs that share GPUs cost each other: as measured, and by rules fitted on measured pairs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSpeeds:
    """How fast two gangs of one size are that share all their GPUs, relative to having them alone."""

    #: Applications of the two; the same one twice for two jobs of a kind.
    applications: tuple[str, str]
    gpus: int
    gpu_model: str
    #: 0: they do not fit on the GPUs together.
    speeds: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpeeds:
    """The same for three gangs or more."""

    #: In alphabetical order, with the speed of each.
    applications: tuple[str, ...]
    gpus: int
    gpu_model: str
    speeds: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """One question of a regression tree, or one of its ends. A tree is a tuple of them, first its root."""

    #: What was measured of those that come here, on average, relative to alone; how many they are.
    speed: float
    samples: int
    #: What is asked (`perf.interference.FIGURES`); empty: nothing, this is an end.
    figure: str = ""
    #: Where to go on with less than this, and with as much or more.
    bound: float = 0.0
    below: int = 0
    above: int = 0
    #: Where to go on while the figure is unknown.
    unknown: int = 0
