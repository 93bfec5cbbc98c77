"""Proportional fairness: the geometric mean of progress is as large as can be (Kelly, 1998).

The sum of weight × log(progress) is maximised by tangents. The logarithm lies below each of them, so a linear
program over tangents gives an upper bound and shares. New tangents at these shares tighten the bound, until
bound and value meet.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from scheduler.core.solvers.errors import SolverError
from scheduler.core.solvers.frame import More, best_shares
from scheduler.core.solvers.instance import Floats, Instance
from scheduler.core.solvers.levels import hand_out
from scheduler.core.solvers.objective import ColumnShares, Objective, Rates, progress_of
from scheduler.core.solvers.polytope import Polytope
from scheduler.core.solvers.terms import Terms, each

#: How near bound and value must come: the geometric mean is off by this part at most.
EXACT = 1e-7
MOST_PROGRAMS = 60
#: The factor between the points of the first tangents.
APART = 2.0


class ProportionalFairness(Objective):
    """The weighted geometric mean of progress. A job with weight zero shares only in what is left over."""

    meaning: ClassVar[str] = "geometric mean of progress by weight, in GPUs of average speed"

    def marks(self, instance: Instance) -> Floats:
        return instance.weight[:, None]

    def choose(self, polytope: Polytope) -> ColumnShares:
        weight = polytope.marks[:, 0] * polytope.size
        if not weight.any():
            return ColumnShares(hand_out(polytope, np.zeros(polytope.groups)))
        weight = weight / weight.sum()
        counted = np.flatnonzero(weight > 0)
        return ColumnShares(hand_out(polytope, _optimum(polytope, weight, counted)))

    def value(self, instance: Instance, rates: Rates) -> float:
        claims = instance.weight > 0
        progress = np.maximum(progress_of(instance, rates.throughput)[claims], 1e-300)
        weight = instance.weight[claims]
        return float(np.exp((weight * np.log(progress)).sum() / weight.sum())) if weight.any() else np.inf


def _optimum(polytope: Polytope, weight: Floats, counted: NDArray[np.intp]) -> Floats:
    """Return the progress of a job of each group at the optimum; zero where the weight is zero."""
    weight = weight[counted]
    # No job gets less at the optimum: otherwise giving it everything would increase the sum (first-order
    # condition: the weighted sum of relative gains is not positive).
    least = polytope.best[counted] * weight / polytope.size[counted] / 2
    rows = polytope.progress.only(counted)
    tangents = []
    level, best = least.copy(), polytope.best[counted]
    while (level < best).any():
        tangents.append(_tangent(rows, np.minimum(level, best)))
        level = level * APART
    for _ in range(MOST_PROGRAMS):
        found = best_shares(
            polytope,
            np.zeros(polytope.columns),
            *tangents,
            further_reward=weight,
            further_lower=-np.inf,
        )
        reached = rows.of(found.shares)
        if (reached > 0).all() and weight @ (found.further - np.log(reached)) <= EXACT:
            progress = np.zeros(polytope.groups)
            progress[counted] = reached
            return progress
        tangents.append(_tangent(rows, np.maximum(reached, least)))
    raise SolverError(f"proportional fairness is not exact after {MOST_PROGRAMS} programs")


def _tangent(rows: Terms, at: Floats) -> More:
    """Return the rows log <= log(at) + (progress - at) / at, one per group."""
    return More(rows.times(-1 / at), each(np.ones(len(at))), np.log(at) - 1)
