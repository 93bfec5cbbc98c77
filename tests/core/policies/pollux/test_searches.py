"""Both searches against each other, against a bound, and against all there is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from scheduler.core.building_blocks.elastic.arrangement import Arrangement, Gang, Row
from scheduler.core.policies.pollux.genetic import Population
from scheduler.core.policies.pollux.greedy import search
from scheduler.core.policies.pollux.problem import Problem, restart_factors
from scheduler.core.policies.pollux.solving import is_possible
from tests.core.policies.pollux.problems import random_problem


def genetic(problem: Problem, generations: int = 30, size: int = 40) -> tuple[list[Row], float]:
    population = Population(problem, seed=1, size=size)
    population.evolve(generations)
    return population.best


def everything(problem: Problem) -> float:
    """Return the best sum of values by trying everything."""
    nodes, best = len(problem.room), float("-inf")
    options: list[list[Row]] = []
    for gang in problem.gangs:
        rows: list[Row] = [
            {node: count for node, count in enumerate(counts) if count}
            for counts in product(*[range(room + 1) for room in problem.room])
            if sum(counts) in (0, *gang.sizes)
        ]
        options.append(rows)
    assert nodes <= 3
    for chosen in product(*options):
        if is_possible(problem, chosen):
            best = max(best, problem.value_of(chosen))
    return best


@pytest.mark.parametrize("seed", range(6))
def test_the_greedy_search_finds_the_best_there_is_of_small_problems(seed: int) -> None:
    problem = random_problem(3, 2, seed, gpus=2)
    found = search(problem, seed=1)
    assert found.value == pytest.approx(everything(problem))
    assert problem.value_of(found.rows) == pytest.approx(found.value)


@pytest.mark.parametrize("power", [-1.0, 0.0, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_it_is_better_than_the_genetic_one_and_near_the_bound(seed: int, power: float) -> None:
    problem = random_problem(24, 12, seed, power=power)
    found, (rows, value) = search(problem, seed=1), genetic(problem)
    assert value <= found.value <= found.bound
    assert problem.value_of(rows) == pytest.approx(value)
    assert problem.fitness(found.value) >= 0.93 * problem.fitness(found.bound)


@pytest.mark.parametrize("seed", range(4))
def test_what_either_finds_is_possible(seed: int) -> None:
    problem = random_problem(30, 8, seed)
    pinned = replace(problem.gangs[0], base={0: 1, 1: 1}, sizes=(2,), pinned=True)
    fixed = replace(problem.gangs[1], base={}, sizes=(4,), on_one_node=True)
    there = replace(problem.gangs[2], base={}, nodes=frozenset({2, 3}))
    large = replace(problem.gangs[3], base={}, replica_gpus=2, sizes=(1, 2), nodes=frozenset({4, 5}))
    rest = [replace(gang, base={}) for gang in problem.gangs[4:]]
    problem = replace(problem, gangs=(pinned, fixed, there, large, *rest), limit=27)
    for rows in (search(problem, seed=1).rows, genetic(problem)[0]):
        assert rows[0] == {0: 1, 1: 1}
        assert len(rows[1]) <= 1
        assert sum(rows[1].values()) in (0, 4)
        assert set(rows[2]) <= {2, 3}
        assert is_possible(problem, rows)
        used = [0] * 8
        for gang, row in zip(problem.gangs, rows, strict=True):
            for node, replicas in row.items():
                used[node] += replicas * gang.replica_gpus
        assert max(used) <= 4
        assert sum(used) <= 27


def test_a_search_with_the_same_seed_finds_the_same() -> None:
    problem = random_problem(30, 8, seed=5)
    assert search(problem, seed=3) == search(problem, seed=3)
    assert genetic(problem) == genetic(problem)


def test_a_population_goes_on_from_what_is_remembered() -> None:
    problem = random_problem(30, 8, seed=2)
    first = Population(problem, seed=1, size=40)
    first.evolve(20)
    again = Population(problem, seed=2, remembered=first.remember(5), size=40)
    assert again.best[1] >= first.best[1]


# Worked examples


def problem_of(gangs: Sequence[Gang], speedups: Sequence[Sequence[float]], **fields: object) -> Problem:
    """Speedups by gang and replicas, the same on one node and on several."""
    table = np.array([speedups, speedups], dtype=np.float64)
    values: dict[str, object] = {
        "room": (4,),
        "limit": 4,
        "gangs": tuple(gangs),
        "speedups": table,
        "restart_factors": np.ones(len(gangs)),
        "weights": np.ones(len(gangs)),
    }
    return Problem(**{**values, **fields})  # type: ignore[arg-type]


FOUR = Gang(sizes=(1, 2, 3, 4))
#: One that scales perfectly, and one that hardly does; with two GPUs, their fair share, each has 1.
GOOD: tuple[float, ...] = (0, 0.5, 1, 1.5, 2)
BAD: tuple[float, ...] = (0, 0.9, 1, 1.02, 1.03)


@pytest.mark.parametrize(("power", "sizes"), [(1.0, [4, 0]), (0.0, [3, 1]), (-1.0, [3, 1]), (-10.0, [2, 2])])
def test_the_smaller_the_power_the_fairer(power: float, sizes: list[int]) -> None:
    """Throughput alone starves the one that scales badly (p = 1), extreme fairness makes them equal."""
    bad = tuple(0.9 * speedup for speedup in BAD) if power == 1.0 else BAD
    good = tuple(2.0 * speedup for speedup in GOOD) if power == 1.0 else GOOD
    found = search(problem_of([FOUR, FOUR], [good, bad], power=power), seed=1)
    assert [sum(row.values()) for row in found.rows] == sizes


def test_the_least_speedup_is_larger_with_the_harmonic_mean_than_with_the_sum() -> None:
    least = []
    for power in (1.0, -1.0):
        problem = random_problem(12, 4, seed=1, power=power)
        rows = search(problem, seed=1).rows
        least.append(
            min(problem.speedups[int(len(row) > 1), gang, sum(row.values())] for gang, row in enumerate(rows))
        )
    assert least[0] < least[1]


def test_who_was_moved_often_while_young_stays() -> None:
    """Four GPUs are 1.5 times as fast as two. After ten minutes that is worth a restart; after one, with two
    restarts already, nothing would be left of it."""
    gang = Gang(sizes=(1, 2, 3, 4), base={0: 2})
    factors = restart_factors(np.array([60.0, 600.0]), np.array([2.0, 2.0]), 30.0)
    assert factors.tolist() == [0.0, pytest.approx(540 / 630)]
    for factor, size in zip(factors, (2, 4), strict=True):
        problem = problem_of([gang], [(0, 0.6, 1, 1.3, 1.5)], restart_factors=np.array([factor]))
        assert [sum(row.values()) for row in search(problem, seed=1).rows] == [size]


def test_gangs_over_several_nodes_keep_off_each_others_nodes() -> None:
    """Two gangs of three replicas, three nodes of two GPUs: one is on two nodes, the other on one."""
    pair = [Gang(sizes=(3,)), Gang(sizes=(1, 2, 3))]
    speedups = [(0, 0, 0, 1), (0, 0.2, 0.5, 1)]
    together = problem_of(pair, speedups, room=(2, 2, 2), limit=6, apart=False)
    apart = replace(together, apart=True)
    assert [sum(row.values()) for row in search(together, seed=1).rows] == [3, 3]
    assert sorted(len(row) for row in search(apart, seed=1).rows) == [1, 2]
    arrangement = Arrangement((2, 2, 2), pair, limit=6, apart=True)
    arrangement.put(0, {0: 2, 1: 1})
    assert arrangement.fits(1, {1: 1})
    assert not arrangement.fits(1, {1: 1, 2: 2})
    assert arrangement.find(1, 3) is None


def test_nobody_moves_for_an_allocation_that_is_no_better() -> None:
    gangs = [Gang(sizes=(1, 2), base={1: 2}), Gang(sizes=(1, 2), base={0: 1})]
    problem = problem_of(gangs, [(0, 0.6, 1), (0, 1, 1)], room=(2, 2), restart_factors=np.array([0.9, 0.9]))
    assert search(problem, seed=1).rows == [{1: 2}, {0: 1}]
