"""Interference of jobs that share GPUs: measured speeds, and a model fitted on measured pairs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSpeeds:
    """The speeds of two gangs of one size that share all their GPUs, relative to having them alone."""

    #: Applications of the two; the same one twice for two jobs of one application.
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
    """A node of a regression tree: a question or a leaf. A tree is a tuple of nodes, the root first."""

    #: The mean measured speed of the samples here, relative to alone, and their number.
    speed: float
    samples: int
    #: The figure asked about (`perf.interference.FIGURES`); empty: this is a leaf.
    figure: str = ""
    #: Where to go on with less than this, and with as much or more.
    bound: float = 0.0
    below: int = 0
    above: int = 0
    #: Where to go on while the figure is unknown.
    unknown: int = 0
