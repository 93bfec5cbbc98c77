"""Policies that split GPUs evenly: Gavel's isolated policy, and its rendering of Gandiva's packing."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import ClassVar

from scheduler.simulation.gavel.jobs import Cluster, RoundJob, Standing, Unit


def even_parts(cluster: Cluster, gang: int, units: int) -> tuple[float, ...]:
    """Return the shares of one of `units` units: an equal part of each model, and at most all of its time."""
    parts = [gpus / units / gang for gpus in cluster.gpus]
    most = max(sum(parts), 1.0)
    return tuple([part / most for part in parts])


class IsolatedSplit:
    """Give each job its own m-th of every model."""

    knows_speeds: ClassVar[bool] = False
    sharing: ClassVar[bool] = False
    strict: ClassVar[bool] = False

    def decide(self, standing: Standing) -> Mapping[Unit, Sequence[float]]:
        count = len(standing.jobs)
        return {
            (number,): even_parts(standing.cluster, job.gang, count) for number, job in standing.jobs.items()
        }


class Gandiva:
    """Put jobs into random pairs, which stay together while that gets more done; all have equal parts.

    W. Xiao et al., "Gandiva", OSDI 2018, as in Gavel's baseline: pairs of equal gangs are only formed when
    not all jobs fit, and separated when the sum of their relative speeds over all models falls below 1.
    """

    knows_speeds: ClassVar[bool] = True
    sharing: ClassVar[bool] = True
    strict: ClassVar[bool] = False

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._partner: dict[int, int] = {}

    def decide(self, standing: Standing) -> Mapping[Unit, Sequence[float]]:
        cluster, jobs = standing.cluster, standing.jobs
        for one, other in list(self._partner.items()):
            if one not in jobs or other not in jobs or _worth(cluster, jobs, one, other) < 1.0:
                self._partner.pop(one, None)
                self._partner.pop(other, None)
        units: list[Unit] = [(number,) for number in jobs]
        if sum(job.gang for job in jobs.values()) > sum(cluster.gpus):
            singles = self._pair_up([number for number in jobs if number not in self._partner], standing)
            couples = {(min(pair), max(pair)) for pair in self._partner.items()}
            units = [*[(number,) for number in singles], *sorted(couples)]
        return {unit: even_parts(cluster, jobs[unit[0]].gang, len(units)) for unit in units}

    def _pair_up(self, alone: list[int], standing: Standing) -> list[int]:
        """Draw two jobs as often as there are jobs, and pair those that fit; return the jobs left alone."""
        cluster, jobs = standing.cluster, standing.jobs
        for _ in range(len(alone)):
            if len(alone) < 2:
                break
            one, other = self._random.sample(alone, 2)
            if cluster.together(jobs[one], jobs[other]) is not None:
                alone.remove(one)
                alone.remove(other)
                self._partner[one], self._partner[other] = other, one
        return alone


def _worth(cluster: Cluster, jobs: Mapping[int, RoundJob], one: int, other: int) -> float:
    """Return the relative speeds of two jobs in a pair, summed over both and all models."""
    first, second = jobs[min(one, other)], jobs[max(one, other)]
    together = cluster.together(first, second)
    if together is None:
        return 0.0
    total = 0.0
    for model, rates in enumerate(together):
        if min(rates) <= 0:
            return 0.0
        total += rates[0] / first.rates[model] + rates[1] / second.rates[model]
    return total
