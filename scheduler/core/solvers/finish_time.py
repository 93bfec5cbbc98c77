"""Finish-time fairness: no job finishes much later than on its own part of the cluster (section 4.2).

K. Mahajan et al., "Themis", NSDI'20. A job's rho is the time from its submission to its end on the shared
cluster, divided by the same time on an m-th of every model. The worst rho is as small as possible.

The published code solves a convex program with a general solver. Here a linear program finds whether a rho
is possible: whether all jobs can get the throughputs that it needs. Where it is not, the duals of that
program give a bound below which no rho is possible. So a few programs lead to the optimum and prove it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from scheduler.core.solvers.errors import Problem, SolverError
from scheduler.core.solvers.instance import Floats, Instance
from scheduler.core.solvers.levels import hand_out, raise_levels
from scheduler.core.solvers.linear import LARGE_FINISH_TIMES
from scheduler.core.solvers.objective import ColumnShares, Objective, Rates, needs_steps
from scheduler.core.solvers.polytope import Polytope

#: How near the upper and the lower bound of rho must come, relatively.
EXACT = 1e-8
MOST_PROGRAMS = 60


class FinishTimeFairness(Objective):
    """Make the worst finish-time fairness as good as possible; ignore weights, as the published code does."""

    agnostic_to_speed: ClassVar[bool] = True
    meaning: ClassVar[str] = "worst rho: time from submission to end ÷ the same on the job's own part"

    def problems(self, instance: Instance) -> Iterable[Problem]:
        return needs_steps(instance)

    def marks(self, instance: Instance) -> Floats:
        return np.column_stack([instance.steps_left, instance.age_seconds, _alone_seconds(instance)])

    def choose(self, polytope: Polytope) -> ColumnShares:
        steps, age, alone = polytope.marks.T
        steps = steps / polytope.unit
        lower = _best_possible(polytope, steps, age, alone)
        upper, progress = np.inf, np.zeros(polytope.groups)
        # A first guess; any rho above the lower bound will do.
        rho = max(1.0, 2 * lower)
        for _ in range(MOST_PROGRAMS):
            needed = steps / (rho * alone - age)
            raised = raise_levels(polytope, needed, large=LARGE_FINISH_TIMES)
            found = float(((age + steps / np.maximum(raised.progress, 1e-300)) / alone).max())
            if found < upper:
                upper, progress = found, steps / (found * alone - age)
            lower = max(lower, _bound(raised.blame / needed, steps, age, alone, raised.height, lower))
            if upper - lower <= EXACT * upper:
                return ColumnShares(hand_out(polytope, progress))
            rho = lower if lower > rho or rho > upper else (lower + upper) / 2
            rho = max(rho, lower * (1 + EXACT / 10))
        raise SolverError(
            f"finish-time fairness is between {lower:g} and {upper:g} after {MOST_PROGRAMS} programs"
        )

    def value(self, instance: Instance, rates: Rates) -> float:
        finish = instance.age_seconds + instance.steps_left / np.maximum(rates.throughput, 1e-300)
        return float((finish / _alone_seconds(instance)).max(initial=0.0))


def _alone_seconds(instance: Instance) -> Floats:
    """Return the seconds from submission to end of each job on its own part of the cluster."""
    alone: Floats = instance.isolated_seconds + instance.steps_left / instance.isolated_throughput()
    return alone


def _best_possible(polytope: Polytope, steps: Floats, age: Floats, alone: Floats) -> float:
    """Return the rho of the worst-off job when every job runs at its fastest."""
    return float(((age + steps / polytope.best) / alone).max())


def _bound(price: Floats, steps: Floats, age: Floats, alone: Floats, height: float, lower: float) -> float:
    """Return the rho below which the progress needed is worth more than any shares can be.

    By duality no shares are worth more than `height` at these prices. A rho needs the sum of price × progress
    needed, which falls as rho grows.
    """
    counted = np.flatnonzero(price > 0)
    price, steps, age, alone = price[counted], steps[counted], age[counted], alone[counted]

    def excess(rho: float) -> float:
        return float((price * steps / (rho * alone - age)).sum()) - height

    # SciPy takes a third of a second to load, and most processes that know this never compute with it.
    from scipy.optimize import brentq

    low = max(lower, float((age / alone).max())) * (1 + 1e-12)
    if excess(low) <= 0:
        return lower
    high = 2 * low
    while excess(high) > 0:
        high *= 2
    return float(brentq(excess, low, high, xtol=1e-300, rtol=1e-14))
