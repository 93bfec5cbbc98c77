"""Pollux in the published simulator's ticks: its fitness, by either of our policy's searches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.reproduction.pollux.jobs import RESCALE_SECONDS, Nodes, TickJob
from scheduler.core.building_blocks.elastic.arrangement import Gang, Row
from scheduler.core.building_blocks.elastic.speedups import speedup_table
from scheduler.core.policies.pollux import greedy
from scheduler.core.policies.pollux.genetic import Population
from scheduler.core.policies.pollux.problem import EPSILON, Problem, restart_factors

#: No job has more.
MOST_REPLICAS = 64
#: The authors multiply speedups by the part of a node that a replica is, so that ε is as much larger.
_REPLICAS_OF_A_NODE = 4


class Pollux:
    """Every tick the allocation with the best mean of speedups."""

    chooses_batch = True

    def __init__(
        self, *, search: str = "greedy", avoid: bool = True, seed: int = 0, power: float = -1.0
    ) -> None:
        self.search, self.avoid, self.power = search, avoid, power
        self._rng = np.random.default_rng(seed)
        self._population: list[dict[str, Row]] = []

    def decide(self, jobs: Sequence[TickJob], room: Sequence[int], now: float) -> Mapping[str, Nodes]:
        order = sorted(jobs, key=lambda job: (job.service, job.submitted_at))
        gangs = tuple([Gang(sizes=tuple(range(1, _most(job) + 1)), base=_row(job.nodes)) for job in order])
        models = [job.model() for job in order]
        fair = sum(room) / len(order)
        problem = Problem(
            room=tuple(room),
            limit=sum(room),
            gangs=gangs,
            speedups=speedup_table(models, gangs, fair, [False] * len(order)),
            restart_factors=restart_factors(
                np.array([now - job.submitted_at for job in order]),
                np.array([float(job.restarts or 0) for job in order]),
                RESCALE_SECONDS,
            ),
            weights=np.ones(len(order)),
            power=self.power,
            epsilon=EPSILON * _REPLICAS_OF_A_NODE,
            apart=self.avoid,
        )
        rows = self._searched(problem, order)
        return {
            job.name: tuple([node for node in sorted(row) for _ in range(row[node])])
            for job, row in zip(order, rows, strict=True)
        }

    def _searched(self, problem: Problem, order: Sequence[TickJob]) -> Sequence[Row]:
        seed = int(self._rng.integers(2**31))
        if self.search == "greedy":
            return greedy.search(problem, seed).rows
        remembered = [[rows.get(job.name, {}) for job in order] for rows in self._population]
        population = Population(problem, seed, remembered)
        population.evolve()
        self._population = [
            {job.name: row for job, row in zip(order, rows, strict=True) if row}
            for rows in population.remember(population.size)
        ]
        return population.best[0]


def _most(job: TickJob) -> int:
    """Return the most replicas that it may have: twice those that were measured."""
    application = job.application
    if application.name == "ncf":
        return 1
    return min(
        max(2 * job.most_measured, 1), MOST_REPLICAS, application.max_batch // application.min_local_batch
    )


def _row(nodes: Nodes) -> Row:
    row: dict[int, int] = {}
    for node in nodes:
        row[node] = row.get(node, 0) + 1
    return row
