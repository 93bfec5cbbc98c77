"""Targets out of solutions: everyone's shares come out right, in few pairs."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.building_blocks.time_shares.units import (
    TimeShares,
    by_job,
    name_of,
    time_shares_of,
    unit_named,
    without,
)
from scheduler.core.model.snapshot import JobId
from scheduler.core.solvers.checking import checked_instance
from scheduler.core.solvers.instance import Pairs
from scheduler.core.solvers.solution import SharedTime, Solution
from scheduler.core.solvers.solving import solve


def solution_of(first: int, second: int | None, time: tuple[float, float]) -> Solution:
    """Jobs of two groups, or of one, that share GPUs in pairs for so long, by model."""
    jobs = first + (second or 0)
    instance = checked_instance(throughput=np.ones((jobs, 2)), gpus=[50, 50])
    ones = np.arange(first)
    others = ones if second is None else np.arange(first, jobs)
    return Solution(
        instance=instance,
        alone=np.zeros((jobs, 2)),
        shared=(SharedTime(ones, others, np.array(time)),),
        throughput=np.ones(jobs),
        objective=1.0,
        achieved=1.0,
        spending=0.0,
        stuck=np.zeros(0, dtype=np.intp),
        missed=np.zeros(0, dtype=np.intp),
        groups=2,
        columns=1,
    )


@given(
    first=st.integers(1, 12), second=st.integers(1, 12), time=st.tuples(st.floats(0.1, 1), st.floats(0.1, 1))
)
def test_all_jobs_of_two_groups_fare_alike_in_few_pairs(
    first: int, second: int, time: tuple[float, float]
) -> None:
    solution = solution_of(first, second, time)
    jobs = [JobId(100 + number) for number in range(first + second)]
    targets = time_shares_of(solution, jobs)
    assert len(targets) < first + second
    assert all(len(unit) == 2 and unit == tuple(sorted(unit)) for unit in targets)
    assert_shares(targets, solution, jobs)


@given(size=st.integers(2, 12), time=st.tuples(st.floats(0.1, 1), st.floats(0.1, 1)))
def test_all_jobs_of_one_group_fare_alike_in_a_ring(size: int, time: tuple[float, float]) -> None:
    solution = solution_of(size, None, time)
    jobs = [JobId(100 + number) for number in range(size)]
    targets = time_shares_of(solution, jobs)
    assert len(targets) == (1 if size == 2 else size)
    assert_shares(targets, solution, jobs)


def assert_shares(targets: TimeShares, solution: Solution, jobs: list[JobId]) -> None:
    shares = by_job(targets)
    for row, job in enumerate(jobs):
        found = [shares[job].get(model, 0.0) for model in solution.instance.models]
        assert found == pytest.approx(solution.shares[row].tolist(), abs=1e-5)


def test_a_solution_with_pairs_keeps_every_share_and_no_gpu_is_given_twice() -> None:
    dice = np.random.default_rng(5)
    rates = dice.uniform(1, 10, (3, 2))
    pairs = Pairs(
        first=np.array([0, 0, 1]),
        second=np.array([1, 2, 1]),
        throughput=np.array([[0.8 * rates[a], 0.7 * rates[b]] for a, b in ((0, 1), (0, 2), (1, 1))]),
    )
    job_class = np.array([0, 0, 1, 1, 1, 2])
    instance = checked_instance(
        throughput=rates[job_class],
        gpus=[1, 2],
        job_class=job_class,
        job_classes=["a", "b", "c"],
        pairs=pairs,
    )
    solution = solve(instance, "max_min", sharing=True)
    jobs = [JobId(number) for number in range(1, 7)]
    targets = time_shares_of(solution, jobs)
    assert any(len(unit) == 2 for unit in targets)
    assert_shares(targets, solution, jobs)
    used: dict[str, float] = defaultdict(float)
    for shares in targets.values():
        for model, share in shares.items():
            used[model] += share
    assert used["0"] <= 1 + 1e-6
    assert used["1"] <= 2 + 1e-6
    assert all(sum(shares.values()) <= 1 + 1e-6 for shares in by_job(targets).values())


def test_who_loses_its_partner_has_their_time_alone() -> None:
    one, two, three = JobId(1), JobId(2), JobId(3)
    targets: TimeShares = {(one,): {"V100": 0.25}, (one, two): {"V100": 0.5}, (two, three): {"K80": 0.5}}
    assert without(targets, {two}) == {(one,): {"V100": 0.75}, (three,): {"K80": 0.5}}


def test_units_have_names_that_can_be_read_again() -> None:
    unit = JobId(7), JobId(12)
    assert name_of(unit) == "7+12"
    assert unit_named("7+12") == unit
