"""Minimum cost: the most steps for the money, with deadlines kept where possible (section 4.2).

The ratio of two linear functions is maximised as one linear program (Charnes and Cooper, 1962). The published
code maximises the sum of throughput ÷ price instead. That is not the same, because it never leaves a GPU
idle; it is `objectives.ThroughputPerCost`. The published code also drops all deadlines when it cannot keep
one. Here a job whose deadline cannot be kept comes as near to it as possible, and the solution names it.
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

#: A job misses its SLO when its throughput falls short of what the SLO needs by more than this part.
MISSED = 1e-6
#: The part of the best ratio that may be given up to get more done at nearly the same price.
NEARLY = 1e-7


class MinCost(Objective):
    """Maximise steps per unit of money; among shares with the best ratio, take those with the most steps.

    Without SLOs only the cheapest jobs run, each where it is cheapest: the ratio demands it.
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
        """Return the steps per second that each job's SLO needs; none for an SLO already missed."""
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
    """Return the progress of what each job needs that all can have at once.

    The sum of what is missing, relative to the need of each job, is least.
    """
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
    # Next to nothing counts as nothing: a floor that low is beyond the precision of the solver.
    lower: Floats = np.where(reached > MISSED * needed, np.minimum(needed, reached), 0.0)
    return lower


def _best_ratio(polytope: Polytope, steps: Floats, money: Floats, lower: Floats) -> float:
    """Return the most steps per money, over shares y = k·x and k with a cost of 1 (Charnes and Cooper)."""
    least = lower_bounds(polytope, lower)
    # The variables are scaled so that a share of all GPUs is about one.
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
