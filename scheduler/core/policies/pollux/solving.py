"""One cycle of Pollux as a computation of values: a request in, nodes for every gang out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.core.building_blocks.elastic.arrangement import Arrangement, Gang, Row
from scheduler.core.building_blocks.elastic.speedups import speedup_table
from scheduler.core.goodput.batch import GoodputModel
from scheduler.core.policies.pollux import greedy
from scheduler.core.policies.pollux.genetic import Population
from scheduler.core.policies.pollux.problem import Problem, restart_factors

GREEDY, GENETIC = "greedy", "genetic"
#: Allocations of a population that are remembered until the next cycle.
REMEMBERED = 10
#: An allocation must be better by more than this to be worth a restart; less is rounding.
_NOTHING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """The problem of one GPU model; sequences are by gang, the most important first."""

    room: tuple[int, ...]
    limit: int
    gangs: tuple[Gang, ...]
    models: tuple[GoodputModel | None, ...]
    is_rigid: tuple[bool, ...]
    ages: tuple[float, ...]
    restarts: tuple[int, ...]
    weights: tuple[float, ...]
    power: float
    restart_seconds: float
    apart: bool
    most_nodes: int

    def problem(self) -> Problem:
        """Return the search problem."""
        fair = self.limit / max(len(self.gangs), 1)
        return Problem(
            room=self.room,
            limit=self.limit,
            gangs=self.gangs,
            speedups=speedup_table(self.models, self.gangs, fair, self.is_rigid),
            restart_factors=restart_factors(
                np.array(self.ages), np.array(self.restarts, dtype=np.float64), self.restart_seconds
            ),
            weights=np.array(self.weights, dtype=np.float64),
            power=self.power,
            apart=self.apart,
            most_nodes=self.most_nodes,
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """Nodes for every gang and, after a genetic search, the best few of its population."""

    rows: list[Row]
    population: list[list[Row]]


def solve(
    cycle: Cycle,
    search: str,
    seed: int,
    remembered: Sequence[Sequence[Row]] = (),
    generations: int = 100,
    population: int = 100,
    improvements: int = greedy.IMPROVEMENTS,
) -> Answer:
    """Return the best allocation that a search finds; the present one where none is better."""
    problem = cycle.problem()
    if search == GREEDY:
        return Answer(greedy.search(problem, seed, improvements).rows, [])
    people = Population(problem, seed, remembered, population)
    people.evolve(generations)
    rows, value = people.best
    if is_possible(problem, problem.base) and problem.value_of(problem.base) >= value - _NOTHING * abs(value):
        rows = problem.base
    return Answer(rows, people.remember(REMEMBERED))


def is_possible(problem: Problem, rows: Sequence[Row]) -> bool:
    """Whether gangs can be where an allocation has them, in their order."""
    arrangement = Arrangement(problem.room, problem.gangs, limit=problem.limit, apart=problem.apart)
    for number, gang in enumerate(problem.gangs):
        if not gang.pinned:
            row = rows[number]
            if (row and sum(row.values()) not in gang.sizes) or not arrangement.fits(number, row):
                return False
            arrangement.put(number, row)
    return True
