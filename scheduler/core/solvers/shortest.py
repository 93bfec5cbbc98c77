"""Shortest job first: the job that can finish first gets what it needs for that, then the next (section 4.2).

The paper states only the objective, the least of the jobs' remaining times, which says nothing about the
other jobs. Here the same objective is then applied to them with the GPUs that are left, and so on. With one
model it is the classical policy. Jobs do not share GPUs, since the first job is fastest alone.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from scheduler.core.solvers.errors import Problem
from scheduler.core.solvers.instance import Floats, Instance
from scheduler.core.solvers.levels import hand_out
from scheduler.core.solvers.objective import ColumnShares, Objective, Rates, needs_steps, order_of_arrival
from scheduler.core.solvers.polytope import Polytope


class ShortestJobFirst(Objective):
    """The job with the least remaining time first; between two equal ones, the older job."""

    agnostic_to_speed: ClassVar[bool] = True
    shares_gpus: ClassVar[bool] = False
    meaning: ClassVar[str] = "seconds until the first job finishes"

    def problems(self, instance: Instance) -> Iterable[Problem]:
        return needs_steps(instance)

    def marks(self, instance: Instance) -> Floats:
        turn = np.empty(instance.jobs)
        turn[order_of_arrival(instance)] = np.arange(instance.jobs)
        return np.column_stack([instance.steps_left, turn])

    def choose(self, polytope: Polytope) -> ColumnShares:
        rates = np.zeros((polytope.groups, len(polytope.gpus)))
        rates[polytope.first, polytope.model] = polytope.rate_first
        steps, turn = polytope.marks[:, 0] / polytope.unit, polytope.marks[:, 1]
        shares = _one_after_the_other(rates, polytope.gang, polytope.gpus, steps, turn)
        progress = (shares * rates).sum(axis=1)
        return ColumnShares(hand_out(polytope, progress))

    def value(self, instance: Instance, rates: Rates) -> float:
        running = rates.throughput > 0
        return float((instance.steps_left[running] / rates.throughput[running]).min(initial=np.inf))


def _one_after_the_other(rates: Floats, gang: Floats, gpus: Floats, steps: Floats, turn: Floats) -> Floats:
    """Return the shares of each job on each model; the job that can finish first gets GPUs first.

    The GPUs left only shrink, so a job's time only grows. One check of the next job shows whether it is still
    the next.
    """
    left = gpus.copy()
    served = np.zeros(rates.shape)
    queue = [(steps[job] / rates[job].max(), turn[job], job) for job in range(len(rates))]
    heapq.heapify(queue)
    while queue:
        seconds, place, job = heapq.heappop(queue)
        shares = _fastest(rates[job], left / gang[job])
        rate = float(shares @ rates[job])
        if rate <= 0:
            continue
        now = steps[job] / rate
        if now > seconds * (1 + 1e-12):
            heapq.heappush(queue, (now, place, job))
            continue
        left = np.maximum(left - shares * gang[job], 0.0)
        left[left < 1e-9 * gpus] = 0.0
        served[job] = shares
    return served


def _fastest(rates: Floats, room: Floats) -> Floats:
    """Return the shares of one job that make it fastest: its best models first, as long as there is room."""
    shares = np.zeros(len(rates))
    time = 1.0
    for model in np.argsort(-rates, kind="stable"):
        if rates[model] <= 0:
            break
        shares[model] = min(time, room[model])
        time -= shares[model]
    return shares
