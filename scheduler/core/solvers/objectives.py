"""The objectives that are one linear program each (paper, section 4).

Departures from the published code (stanford-futuredata/gavel):

- makespan: one program in 1/makespan, which is exact; the code bisects the makespan to 5 %.
- FIFO: the paper's program; the code (and all published FIFO curves) walks the queue greedily.
- Objectives that only consider the worst-off job end with a second stage (`levels.hand_out`); the code leaves
  the division of what is left over to the solver.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from scheduler.core.solvers.errors import Problem
from scheduler.core.solvers.frame import best_shares
from scheduler.core.solvers.instance import Floats, Instance
from scheduler.core.solvers.levels import fair_shares, hand_out
from scheduler.core.solvers.linear import LARGE_SUM
from scheduler.core.solvers.objective import (
    ColumnShares,
    Objective,
    Rates,
    needs_steps,
    order_of_arrival,
    progress_of,
)
from scheduler.core.solvers.polytope import Polytope


class MaxMin(Objective):
    """Weighted least attained service: the least progress ÷ weight is as large as possible (section 4.1).

    A job with weight zero has no claim; it shares only in what is left over.
    """

    meaning: ClassVar[str] = "least progress ÷ weight, in GPUs of average speed"

    def marks(self, instance: Instance) -> Floats:
        return instance.weight[:, None]

    def choose(self, polytope: Polytope) -> ColumnShares:
        weight = polytope.marks[:, 0]
        if not weight.any():
            return ColumnShares(hand_out(polytope, np.zeros(polytope.groups)))
        return ColumnShares(fair_shares(polytope, weight))

    def value(self, instance: Instance, rates: Rates) -> float:
        claims = instance.weight > 0
        levels = progress_of(instance, rates.throughput)[claims] / instance.weight[claims]
        return float(levels.min(initial=np.inf))


class Makespan(Objective):
    """Makespan: the last of the present jobs finishes as early as possible (section 4.2)."""

    agnostic_to_speed: ClassVar[bool] = True
    meaning: ClassVar[str] = "seconds until the last job finishes"

    def problems(self, instance: Instance) -> Iterable[Problem]:
        return needs_steps(instance)

    def marks(self, instance: Instance) -> Floats:
        return instance.steps_left[:, None]

    def choose(self, polytope: Polytope) -> ColumnShares:
        return ColumnShares(fair_shares(polytope, polytope.marks[:, 0] / polytope.unit))

    def value(self, instance: Instance, rates: Rates) -> float:
        return float((instance.steps_left / np.maximum(rates.throughput, 1e-300)).max(initial=0.0))


class MaxSumThroughput(Objective):
    """The largest sum of steps per second, whichever jobs make them (section 4.2; weights do not count)."""

    meaning: ClassVar[str] = "steps per second of all jobs"

    def choose(self, polytope: Polytope) -> ColumnShares:
        reward = polytope.progress.together(polytope.size * polytope.unit, polytope.columns)
        return ColumnShares(best_shares(polytope, reward, large=LARGE_SUM).shares)

    def value(self, instance: Instance, rates: Rates) -> float:
        return float(rates.throughput.sum())


class ThroughputPerCost(Objective):
    """Minimum cost as in the published code: the sum of steps per second on each model ÷ its price.

    It never leaves a GPU idle, so it is not the paper's minimum cost (`cost.MinCost`). It is for comparisons.
    """

    agnostic_to_speed: ClassVar[bool] = True
    meaning: ClassVar[str] = "steps per second ÷ price of the model, in sum"
    knows_prices: ClassVar[bool] = True

    def choose(self, polytope: Polytope) -> ColumnShares:
        steps = polytope.progress.together(polytope.size * polytope.unit, polytope.columns)
        return ColumnShares(
            best_shares(polytope, steps / polytope.price[polytope.model], large=LARGE_SUM).shares
        )

    def value(self, instance: Instance, rates: Rates) -> float:
        return rates.per_price


class Fifo(Objective):
    """First in, first out: the sum of throughput ÷ fastest × number of jobs not before it (section 4.2)."""

    meaning: ClassVar[str] = "sum of throughput ÷ fastest throughput, each times the jobs not before it"

    def marks(self, instance: Instance) -> Floats:
        return (self._importance(instance) / instance.fastest)[:, None]

    def choose(self, polytope: Polytope) -> ColumnShares:
        worth = polytope.marks[:, 0] * polytope.size * polytope.unit
        return ColumnShares(
            best_shares(polytope, polytope.progress.together(worth, polytope.columns), large=LARGE_SUM).shares
        )

    def value(self, instance: Instance, rates: Rates) -> float:
        return float((self._importance(instance) * rates.throughput / instance.fastest).sum())

    def _importance(self, instance: Instance) -> Floats:
        importance = np.empty(instance.jobs)
        importance[order_of_arrival(instance)] = np.arange(instance.jobs, 0, -1)
        return importance
