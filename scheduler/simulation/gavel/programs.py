"""Shares from linear programs: the objectives of `core.solvers`, as Gavel's simulator uses them.

A policy that treats all models alike assumes a rate of 1, or each job's rate on the reference model where the
end of jobs matters. It assumes this even on models on which the job does not run, so it may give a job time
that it cannot use. That is the published baseline.

The optimum leaves much open. `core.solvers` hands out the rest where it does most; the published code leaves
it to an interior point method, which ends near the centre. The objectives are equal, but shares are not, and
completion times differ by a few percent (docs/reproduction.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from scheduler.core.building_blocks.time_shares.units import time_shares_of
from scheduler.core.model.snapshot import JobId
from scheduler.core.solvers.checking import checked_instance
from scheduler.core.solvers.instance import Instance, Pairs
from scheduler.core.solvers.polytope import polytope_of
from scheduler.core.solvers.solving import OBJECTIVES, solve
from scheduler.simulation.gavel.centre import central_shares
from scheduler.simulation.gavel.jobs import Cluster, RoundJob, Standing, Unit


class Program:
    """One of `allocation.solving.OBJECTIVES` in every decision. `reference` is the model named first."""

    strict = False

    def __init__(
        self,
        objective: str,
        *,
        aware: bool = True,
        sharing: bool = False,
        centre: bool = False,
        parts: int = 1,
        seed: int = 0,
    ) -> None:
        self._centre = centre
        self.knows_speeds, self.sharing = aware, sharing
        self._objective, self._parts, self._seed = objective, parts, seed
        self._to_speed = OBJECTIVES[objective]().agnostic_to_speed
        self._isolated = _IsolatedSeconds()

    def decide(self, standing: Standing) -> Mapping[Unit, Sequence[float]]:
        if not standing.jobs:
            return {}
        instance = self._instance(standing)
        if self._centre:
            return _central(instance, standing)
        solution = solve(
            instance,
            self._objective,
            aware=self.knows_speeds,
            sharing=self.sharing and instance.pairs is not None,
            parts=self._parts,
            seed=self._seed,
        )
        time_shares = time_shares_of(solution, [JobId(number) for number in standing.jobs])
        models = standing.cluster.models
        return {
            tuple(map(int, unit)): tuple([parts.get(model, 0.0) for model in models])
            for unit, parts in time_shares.items()
        }

    def _instance(self, standing: Standing) -> Instance:
        cluster, jobs = standing.cluster, standing.jobs
        rates = np.array([self._believed(job) for job in jobs.values()])
        kinds = sorted({job.kind for job in jobs.values()})
        place = {kind: number for number, kind in enumerate(kinds)}
        return checked_instance(
            names=[str(number) for number in jobs],
            models=cluster.models,
            gpus=cluster.gpus,
            price=cluster.prices,
            throughput=rates,
            gang=[job.gang for job in jobs.values()],
            weight=[job.weight for job in jobs.values()],
            steps_left=[standing.steps_left[number] for number in jobs],
            age_seconds=[standing.now - job.arrived_at for job in jobs.values()],
            slo_seconds=[standing.due_at[number] - standing.now for number in jobs],
            isolated_seconds=self._isolated.so_far(standing, rates),
            job_class=[place[job.kind] for job in jobs.values()],
            job_classes=[str(kind) for kind in kinds],
            pairs=_pairs(cluster, place, jobs) if self.sharing else None,
        )

    def _believed(self, job: RoundJob) -> tuple[float, ...]:
        if self.knows_speeds:
            return job.rates
        return (job.rates[0] if self._to_speed else 1.0,) * len(job.rates)


def _central(instance: Instance, standing: Standing) -> dict[Unit, tuple[float, ...]]:
    polytope = polytope_of(instance, instance.weight[:, None])
    shares = central_shares(polytope, polytope.marks[:, 0])
    by_group = np.zeros((polytope.groups, len(polytope.gpus)))
    by_group[polytope.first, polytope.model] = shares / polytope.size[polytope.first]
    return {
        (number,): tuple(parts)
        for number, parts in zip(standing.jobs, by_group[polytope.group].tolist(), strict=True)
    }


def _pairs(cluster: Cluster, place: Mapping[int, int], jobs: Mapping[int, RoundJob]) -> Pairs | None:
    """Return the rates of all pairs of kinds among the present jobs."""
    gangs = {job.kind: job.gang for job in jobs.values()}
    known = [
        (first, second)
        for first in place
        for second in place
        if first <= second and gangs[first] == gangs[second] and (first, second) in cluster.pairs
    ]
    if not known:
        return None
    return Pairs(
        first=np.array([place[first] for first, _ in known]),
        second=np.array([place[second] for _, second in known]),
        throughput=np.array([cluster.pairs[pair] for pair in known]).transpose(0, 2, 1).copy(),
    )


class _IsolatedSeconds:
    """The time that each job's steps so far would have taken on its own, changing part of the cluster."""

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}
        self._before: dict[int, tuple[float, float]] = {}

    def so_far(
        self, standing: Standing, rates: np.ndarray[tuple[int, ...], np.dtype[np.float64]]
    ) -> list[float]:
        """Return the seconds by job, and remember how fast each job would be from now on."""
        for number in standing.jobs:
            if number in self._before:
                steps, rate = self._before[number]
                more = (steps - standing.steps_left[number]) / rate if rate > 0 else 0.0
                self._seconds[number] = self._seconds.get(number, 0.0) + more
        cluster, count = standing.cluster, len(standing.jobs)
        gangs = np.array([job.gang for job in standing.jobs.values()])
        parts = np.array(cluster.gpus) / count / gangs[:, None]
        parts /= np.maximum(parts.sum(axis=1, keepdims=True), 1.0)
        alone = (rates * parts).sum(axis=1)
        self._before = {
            number: (standing.steps_left[number], rate)
            for number, rate in zip(standing.jobs, alone.tolist(), strict=True)
        }
        self._seconds = {number: self._seconds.get(number, 0.0) for number in standing.jobs}
        return [max(0.0, self._seconds[number]) for number in standing.jobs]
