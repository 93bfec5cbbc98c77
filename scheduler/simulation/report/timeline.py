"""The cluster over time: means weighted by time, and a series short enough to draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.core.sim.result import Sample
from scheduler.simulation.report.distribution import Floats

#: The most points of a series.
SERIES_POINTS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Means over consecutive intervals of `step_seconds`, the first beginning at `began_at`.

    They are weighted by time, so that a burst of samples counts only for the time it took, and rounded to
    four decimals.
    """

    began_at: float
    step_seconds: float
    utilisation: tuple[float, ...]
    fragmentation: tuple[float, ...]
    running_jobs: tuple[float, ...]
    waiting_jobs: tuple[float, ...]
    waiting_gpus: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterUse:
    """How the GPUs were used, from the first sample to the end of the run."""

    #: GPU-time held / GPU-time usable.
    utilisation: float
    #: Mean over time of Sample.fragmentation.
    fragmentation: float
    #: GPU-time that was idle but unusable for the largest waiting replica / GPU-time usable.
    stranded: float
    mean_waiting_jobs: float
    most_waiting_jobs: int
    series: Series


def cluster_use(samples: Sequence[Sample], ended_at: float) -> ClusterUse | None:
    """Return the use from samples in order of time, the last until `ended_at`; None when no time passed."""
    if not samples or ended_at <= samples[0].at:
        return None
    at = np.array([sample.at for sample in samples] + [ended_at], dtype=float)
    seconds = np.diff(at)
    usable = np.array([sample.usable_gpus for sample in samples], dtype=float)
    held = np.array([sample.held_gpus for sample in samples], dtype=float)
    fragmentation = np.array([sample.fragmentation for sample in samples], dtype=float)
    running = np.array([sample.running_jobs for sample in samples], dtype=float)
    waiting = np.array([sample.waiting_jobs for sample in samples], dtype=float)
    waiting_gpus = np.array([sample.waiting_gpus for sample in samples], dtype=float)

    total = float(seconds.sum())
    usable_time = float((usable * seconds).sum())
    stranded = fragmentation * np.maximum(usable - held, 0.0)
    points = min(SERIES_POINTS, len(samples))
    edges = np.linspace(at[0], at[-1], points + 1)

    def resample(values: Floats) -> Floats:
        # The integral of a step function is linear between its steps, so it is exact at any edge.
        integral = np.concatenate(([0.0], np.cumsum(values * seconds)))
        return np.diff(np.interp(edges, at, integral)) / (total / points)

    return ClusterUse(
        utilisation=_ratio(float((held * seconds).sum()), usable_time),
        fragmentation=float((fragmentation * seconds).sum()) / total,
        stranded=_ratio(float((stranded * seconds).sum()), usable_time),
        mean_waiting_jobs=float((waiting * seconds).sum()) / total,
        most_waiting_jobs=max([sample.most_waiting_jobs for sample in samples]),
        series=Series(
            began_at=float(at[0]),
            step_seconds=total / points,
            utilisation=_rounded(_ratios(resample(held), resample(usable))),
            fragmentation=_rounded(resample(fragmentation)),
            running_jobs=_rounded(resample(running)),
            waiting_jobs=_rounded(resample(waiting)),
            waiting_gpus=_rounded(resample(waiting_gpus)),
        ),
    )


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _ratios(part: Floats, whole: Floats) -> Floats:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


def _rounded(values: Floats) -> tuple[float, ...]:
    # Adding zero turns a negative zero, which differences can leave, into a plain one.
    return tuple((values.round(4) + 0.0).tolist())
