"""The two programs of `levels` for many jobs, by prices (module `prices`)."""

from __future__ import annotations

import numpy as np

from scheduler.core.allocation.instance import Floats
from scheduler.core.allocation.polytope import Polytope
from scheduler.core.allocation.prices import (
    Hull,
    Jobs,
    Proposal,
    agree,
    columns_of,
    hull_of,
    jobs_of,
    shares_at,
)

#: Two heights this near to each other, relatively, are the same corner.
SAME = 1e-9


def raise_by_prices(polytope: Polytope, pace: Floats) -> tuple[Floats, Floats]:
    """Return shares by column that raise all jobs as far as they go, and the blame of each group.

    The same as `levels.raise_levels` from nothing and without floors. Raises SolverError.
    """
    jobs = jobs_of(polytope)
    active = pace > 0
    highest = float((polytope.best[active] / pace[active]).min())

    def propose(hull: Hull) -> Proposal:
        height = _height(jobs, hull, pace, highest)
        return Proposal(shares_at(jobs, hull, pace * height), height)

    agreed = agree(jobs, propose, Proposal(np.zeros(jobs.rates.shape), 0.0))
    height = float(((agreed.shares * jobs.rates).sum(axis=1)[active] / pace[active]).min())
    blame = _blame(jobs, hull_of(jobs, agreed.prices), pace, height)
    return columns_of(polytope, agreed.shares), blame


def hand_out_by_prices(polytope: Polytope, floor: Floats, shares: Floats) -> Floats:
    """Return what `levels.hand_out` does, given shares by column that keep the floors. Raises SolverError."""
    jobs = jobs_of(polytope)
    start = np.zeros(jobs.rates.shape)
    start[polytope.first, polytope.model] = shares / polytope.size[polytope.first]

    def propose(hull: Hull) -> Proposal:
        # On as long as progress costs less than it is worth.
        worthwhile = (hull.slopes < 1).sum(axis=1)
        wanted = np.maximum(hull.progress[np.arange(len(floor)), worthwhile], floor)
        return Proposal(shares_at(jobs, hull, wanted), float(jobs.size @ wanted))

    value = float(jobs.size @ (start * jobs.rates).sum(axis=1))
    return columns_of(polytope, agree(jobs, propose, Proposal(start, value)).shares)


def _height(jobs: Jobs, hull: Hull, pace: Floats, highest: float) -> float:
    """Return the height from which on to raise all costs more than it is worth, which is 1."""
    slopes = hull.slopes
    before = np.concatenate([np.zeros((len(pace), 1)), slopes[:, :-1]], axis=1)
    kinks = np.isfinite(slopes) & (pace > 0)[:, None]
    steeper = np.where(kinks, slopes, 0.0) - np.where(kinks, before, 0.0)
    steeper = (steeper * (jobs.size * pace)[:, None])[kinks]
    heights = (hull.progress[:, :-1] / np.where(pace > 0, pace, 1.0)[:, None])[kinks]
    order = np.argsort(heights, kind="stable")
    first = int(np.searchsorted(np.cumsum(steeper[order]), 1.0))
    return min(float(heights[order[first]]), highest) if first < len(order) else highest


def _blame(jobs: Jobs, hull: Hull, pace: Floats, height: float) -> Floats:
    """Return each group's part of the cost of a little more height; it sums to 1 at the optimum.

    At a corner the cost of a little less counts, and of that of more as much as is missing to 1.
    """
    wanted, weight = pace * height, jobs.size * pace
    less = _slope(hull, wanted * (1 - SAME)) * weight
    more = _slope(hull, wanted * (1 + SAME)) * weight
    missing = max(1 - float(less.sum()), 0.0)
    at_best = ~np.isfinite(more) & (weight > 0)
    if at_best.any():
        return less + np.where(at_best, missing / at_best.sum(), 0.0)
    steeper = np.maximum(np.where(weight > 0, more, 0.0) - less, 0.0)
    total = float(steeper.sum())
    blame: Floats = less + (steeper * min(missing / total, 1.0) if total > 0 else 0.0)
    return blame


def _slope(hull: Hull, wanted: Floats) -> Floats:
    """Return what a little more progress costs where each group is; infinite at its best."""
    slopes = np.concatenate([hull.slopes, np.full((len(wanted), 1), np.inf)], axis=1)
    # The part between two corners in which it lies begins at the last corner not above it.
    part = (hull.progress[:, 1:] < wanted[:, None]).sum(axis=1)
    found: Floats = slopes[np.arange(len(wanted)), part]
    return found
