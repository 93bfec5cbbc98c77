"""Minimum cost: the most steps for the money, with deadlines kept where that is possible (section 4.2).

The ratio of two linear functions is maximised as one linear program (Charnes and Cooper, 1962). The published
code maximises the sum of throughput ÷ price instead, which never leaves a GPU idle and is not the same; it is
`objectives.ThroughputPerCost`. It also drops all deadlines when one cannot be kept; here those that cannot
be kept come as near as possible and are named.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from scheduler.core.solvers.errors import Problem
from scheduler.core.solvers.frame import More, best_shares, joined, lower_bounds
from scheduler.core.solvers.instance import Floats, Instance
from scheduler.core.solvers.linear import maximise
from scheduler.core.solvers.objective import ColumnShares, Objective, Rates
from scheduler.core.solvers.polytope import Polytope
from scheduler.core.solvers.terms import each, nothing, one, single

#: A job that gets less than its SLO takes by more than this part misses it.
MISSED = 1e-6
#: How much of the best ratio may be given up to get more done at nearly the same price.
NEARLY = 1e-7


class MinCost(Objective):
    """Steps per unit of money; among shares with the best ratio, those with the most steps.

    Without SLOs only the cheapest jobs run, each where it is cheapest: the ratio asks for that.
    """

    agnostic_to_speed: ClassVar[bool] = True
    meaning: ClassVar[str] = "steps per unit of money"
    knows_prices: ClassVar[bool] = True

    def __init__(self, *, slo: bool = False) -> None:
        self.keeps_slos = slo

    def problems(self, instance: Instance) -> Iterable[Problem]:
        if self.keeps_slos:
            for job in np.flatnonzero(np.isfinite(instance.slo_seconds) & np.isnan(instance.steps_left)):
                name = f"job {instance.names[job]}"
                yield Problem(name, "steps_left", "is not given", "a job with an SLO needs its steps left")

    def marks(self, instance: Instance) -> Floats:
        """Return the steps per second that each job's SLO takes; none for an SLO already missed."""
        if not self.keeps_slos:
            return np.zeros((instance.jobs, 1))
        kept = np.isfinite(instance.slo_seconds) & (instance.slo_seconds > 0)
        needed = np.zeros(instance.jobs)
        needed[kept] = instance.steps_left[kept] / instance.slo_seconds[kept]
        return needed[:, None]

    def choose(self, polytope: Polytope) -> ColumnShares:
        needed = polytope.marks[:, 0] / polytope.unit
        lower = _attainable(polytope, needed)
        steps = polytope.progress.together(polytope.size * polytope.unit, polytope.columns)
        money = polytope.price[polytope.model] * polytope.gang[polytope.first]
        ratio = _best_ratio(polytope, steps, money, lower)
        scale = float(steps.max())
        # At least the best ratio: steps >= ratio × money.
        cheap = More(single((ratio * (1 - NEARLY) * money - steps) / scale), nothing(1), np.zeros(1))
        shares = best_shares(polytope, steps, cheap, lower_bounds(polytope, lower)).shares
        return ColumnShares(shares, np.flatnonzero(lower < needed * (1 - MISSED)))

    def value(self, instance: Instance, rates: Rates) -> float:
        return 3600 * float(rates.throughput.sum()) / rates.spending if rates.spending > 0 else 0.0


def _attainable(polytope: Polytope, needed: Floats) -> Floats:
    """Return as much of what is needed as all can have at once: least in sum, relatively, is missing."""
    chosen = np.flatnonzero(needed > 0)
    if not chosen.size:
        return needed
    ones = np.ones(len(chosen))
    rows = More(polytope.progress.only(chosen).times(-1 / needed[chosen]), each(-ones), -ones)
    missing = -polytope.size[chosen]
    found = best_shares(polytope, np.zeros(polytope.columns), rows, expected=needed, further_reward=missing)
    if found.further.max(initial=0.0) <= MISSED / 10:
        return needed
    reached = polytope.progress.of(found.shares)
    # As good as nothing is nothing: as a floor it would ask more of the solver than it can do.
    lower: Floats = np.where(reached > MISSED * needed, np.minimum(needed, reached), 0.0)
    return lower


def _best_ratio(polytope: Polytope, steps: Floats, money: Floats, lower: Floats) -> float:
    """Return the most steps per money: shares y = k·x and k, such that y costs 1 (Charnes and Cooper)."""
    least = lower_bounds(polytope, lower)
    # The variables are measured so that a share of all GPUs is about one.
    whole = float(money.max() * polytope.gpus.sum())
    blocks = [
        More(polytope.use, one(-polytope.gpus), np.zeros(len(polytope.gpus))),
        More(polytope.time, one(-polytope.size), np.zeros(polytope.groups)),
        More(least.shares, one(-least.upper), np.zeros(len(least.upper))),
        More(single(money / whole), nothing(1), np.ones(1)),
        More(single(-money / whole), nothing(1), -np.ones(1)),
    ]
    terms, upper = joined(blocks, np.ones(polytope.columns))
    largest = float(steps.max())
    found = maximise(np.append(steps / largest, 0.0), terms, upper, np.zeros(polytope.columns + 1))
    shares = np.maximum(found.values[:-1], 0.0)
    return float(steps @ shares / (money @ shares))
