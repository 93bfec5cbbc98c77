"""How a quantity is spread over jobs: mean, percentiles, and the curve of its cumulative distribution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: The most points of a cumulative distribution; more make no visible difference.
CDF_POINTS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Cdf:
    """`fractions[k]` of the jobs have a value of at most `values[k]`. Both rise; the last fraction is 1."""

    values: tuple[float, ...]
    fractions: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """A quantity over `count` jobs, in its own unit (seconds for times).

    Percentiles interpolate linearly between the two nearest ranks (Hyndman and Fan's type 7, as in NumPy and
    most papers' scripts); the curve consists of values that occurred.
    """

    count: int
    mean: float
    median: float
    p90: float
    p99: float
    max: float
    cdf: Cdf | None = None


def distribution(values: Floats, *, curve: bool = False) -> Distribution | None:
    """Return the distribution of the values, with their curve if requested; None when there are none."""
    if not len(values):
        return None
    ordered = np.sort(values)
    median, p90, p99 = (float(value) for value in np.percentile(ordered, (50, 90, 99)))
    return Distribution(
        count=len(ordered),
        mean=float(ordered.mean()),
        median=median,
        p90=p90,
        p99=p99,
        max=float(ordered[-1]),
        cdf=_curve(ordered) if curve else None,
    )


def _curve(ordered: Floats) -> Cdf:
    """Return the curve of every value when there are few, else of evenly spaced ranks including the last."""
    count = len(ordered)
    points = min(count, CDF_POINTS)
    ranks = np.ceil(np.arange(1, points + 1) * count / points).astype(int)
    return Cdf(values=tuple(ordered[ranks - 1].tolist()), fractions=tuple((ranks / count).round(6).tolist()))
