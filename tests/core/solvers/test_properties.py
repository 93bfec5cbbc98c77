"""What the paper promises of its policies (section 4.4), and what must hold of any allocation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scheduler.core.solvers.checking import checked_instance
from scheduler.core.solvers.instance import Instance
from scheduler.core.solvers.objective import progress_of
from scheduler.core.solvers.solution import Solution
from scheduler.core.solvers.solving import OBJECTIVES, solve
from tests.core.solvers.exact import Block, exact, optima, shares_of
from tests.core.solvers.instances import random_instance
from tests.effort import first_every_day

SEEDS = range(16)


def test_sharing_incentive() -> None:
    """With equal weights nobody is worse off than with his own m-th part of every model."""
    for seed in SEEDS:
        instance = replace(random_instance(seed), weight=np.ones(random_instance(seed).jobs))
        alone = progress_of(instance, instance.isolated_throughput())
        for objective in ("max_min", "water_filling"):
            progress = progress_of(instance, solve(instance, objective).throughput)
            assert progress.min() >= alone.min() * (1 - 1e-6), (objective, seed)
        finish = instance.age_seconds + instance.steps_left / instance.isolated_throughput()
        isolated = (
            finish / (instance.isolated_seconds + instance.steps_left / instance.isolated_throughput())
        ).max()
        assert solve(instance, "finish_time_fairness").objective <= isolated * (1 + 1e-6), seed


@pytest.mark.parametrize(
    "objective", sorted(set(OBJECTIVES) - {"min_cost", "min_cost_slo", "throughput_per_cost"})
)
def test_pareto_efficiency(objective: str) -> None:
    """Nobody can be given more without somebody getting less; only to save cost GPUs may be idle."""
    blocks, reached = [], []
    for seed in SEEDS:
        instance = random_instance(seed)
        solution = solve(instance, objective)
        plain = exact(instance)
        progress = plain.fair @ shares_of(solution, plain)
        floor = np.concatenate([plain.b, -progress * (1 - 1e-9)])
        blocks.append(Block(plain.fair.sum(axis=0), np.vstack([plain.A, -plain.fair]), floor))
        reached.append(progress.sum())
    assert np.allclose(optima(blocks), reached, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "objective", first_every_day(sorted(name for name in OBJECTIVES if OBJECTIVES[name]().shares_gpus), 4)
)
def test_colocation_never_lowers_the_optimum(objective: str) -> None:
    less_is_better = objective in ("makespan", "finish_time_fairness")
    gained = 0
    for seed in range(12):
        instance = random_instance(seed, pairs=True)
        without, shared = solve(instance, objective), solve(instance, objective, sharing=True)
        gain = (without.objective - shared.objective) * (1 if less_is_better else -1)
        if len(shared.missed) == len(without.missed) == 0:
            # With SLOs that cannot be kept the cost is of something else.
            assert gain >= -1e-6 * abs(without.objective), (seed, without.objective, shared.objective)
        gained += gain > 1e-3 * abs(without.objective)
    assert gained > 0


@pytest.mark.parametrize("objective", sorted(OBJECTIVES))
def test_with_one_model_awareness_changes_nothing(objective: str) -> None:
    """All jobs of gang 1, one model: aware and agnostic agree."""
    for seed in range(5, 69, 8):
        instance = random_instance(seed)
        assert len(instance.models) == 1
        aware, agnostic = solve(instance, objective), solve(instance, objective, aware=False)
        if objective in ("max_sum_throughput", "min_cost", "min_cost_slo", "throughput_per_cost"):
            # To these a fast job is not the same as a slow one even on one model.
            assert aware.achieved >= agnostic.achieved * (1 - 1e-6) or len(aware.missed)
        else:
            assert agnostic.achieved == pytest.approx(aware.achieved, rel=1e-6), seed


def test_with_one_model_max_min_is_equal_time() -> None:
    """The classical policy: GPU time in proportion to weights, for as long as nobody has all of his time."""
    instance = checked_instance(
        throughput=[[5.0], [50.0], [7.0], [1.0]], gpus=[2], weight=[1, 1, 2, 1], gang=[1, 1, 1, 2]
    )
    shares = solve(instance, "water_filling").shares[:, 0] * instance.gang
    assert shares == pytest.approx([0.4, 0.4, 0.8, 0.4])


def test_with_one_model_fifo_and_shortest_job_are_the_classical_ones() -> None:
    instance = checked_instance(
        throughput=[[5.0]] * 4, gpus=[2], age_seconds=[1, 4, 3, 2], steps_left=[10, 40, 30, 20]
    )
    assert solve(instance, "fifo").shares[:, 0] == pytest.approx([0, 1, 1, 0])
    assert solve(instance, "shortest_job").shares[:, 0] == pytest.approx([1, 0, 0, 1], abs=1e-6)


@pytest.mark.parametrize("objective", sorted(OBJECTIVES))
def test_the_order_of_jobs_does_not_matter(objective: str) -> None:
    for seed in range(0, 16, 4):
        instance = random_instance(seed)
        # Arrival must not be tied: of two equally old jobs the one listed first counts as older.
        instance = replace(instance, age_seconds=instance.age_seconds + np.arange(instance.jobs) / 7)
        order = np.random.default_rng(seed).permutation(instance.jobs)
        here, there = solve(instance, objective), solve(instance.take(order), objective)
        assert np.allclose(here.throughput[order], there.throughput, rtol=1e-6, atol=1e-9), seed


@pytest.mark.parametrize("objective", sorted(OBJECTIVES))
def test_the_same_question_has_the_same_answer(objective: str) -> None:
    instance = random_instance(6, jobs=12)
    assert np.array_equal(solve(instance, objective).shares, solve(instance, objective).shares)


def test_equal_jobs_fare_alike() -> None:
    instance = random_instance(0)
    twice = instance.take(np.concatenate([np.arange(instance.jobs)] * 3))
    twice = replace(twice, names=tuple([str(number) for number in range(twice.jobs)]))
    for objective in set(OBJECTIVES) - {"fifo", "hierarchical_fifo", "shortest_job"}:
        throughput = solve(twice, objective).throughput.reshape(3, -1)
        assert np.allclose(throughput, throughput[0]), objective


@pytest.mark.parametrize("objective", first_every_day(sorted(OBJECTIVES), 4))
def test_in_parts_nothing_is_overcommitted(objective: str) -> None:
    for seed in range(2):
        instance = many(seed)
        solution = solve(instance, objective, parts=4, seed=seed)
        assert_within(instance, solution)
        assert np.array_equal(solution.shares, solve(instance, objective, parts=4, seed=seed).shares)


def test_parts_come_near_to_the_whole() -> None:
    """In sum and on average; the worst-off of all may be in a part that is worse than others."""
    for objective, nearly in (("max_sum_throughput", 0.95), ("proportional_fairness", 0.9)):
        instance = many(1, times=4)
        whole = solve(instance, objective).objective
        parted = solve(instance, objective, parts=4).objective
        assert nearly * whole <= parted <= whole * (1 + 1e-6)


def many(seed: int, times: int = 1) -> Instance:
    rng = np.random.default_rng(seed)
    job_classes = rng.uniform(1, 10, (8, 3))
    jobs = 80 * times
    job_class = rng.integers(0, 8, jobs)
    return checked_instance(
        throughput=job_classes[job_class],
        gpus=np.array([13, 17, 21]) * times,
        gang=rng.choice([1, 2, 4], 8)[job_class],
        steps_left=rng.uniform(1e3, 1e5, jobs),
        age_seconds=rng.uniform(0, 1e4, jobs),
        slo_seconds=rng.uniform(1e3, 1e5, jobs),
        entity=rng.integers(0, 4, jobs),
        entities=("a", "b", "c", "d"),
    )


def assert_within(instance: Instance, solution: Solution) -> None:
    assert (solution.shares >= 0).all()
    assert (solution.shares.sum(axis=1) <= 1 + 1e-9).all()
    assert (solution.used <= instance.gpus + 1e-9).all()


def left_over(runs: list[list[bool]], steps: list[float], gangs: list[int], objective: str) -> list[float]:
    """The GPUs that an agnostic policy gives each job beyond what its objective takes."""
    instance = checked_instance(
        throughput=np.where(runs, 1.0, 0.0), gpus=[4, 2], gang=gangs, steps_left=steps, age_seconds=100.0
    )
    solution = solve(instance, objective, aware=False)
    if objective == "makespan":
        needed = instance.steps_left / solution.objective
    else:
        alone = instance.isolated_seconds + instance.steps_left / instance.isolated_throughput()
        needed = instance.steps_left / (solution.objective * alone - instance.age_seconds)
    assert (solution.used.sum()) == pytest.approx(6.0)
    return list((solution.shares.sum(axis=1) - needed) * instance.gang)


@pytest.mark.parametrize("objective", ["finish_time_fairness", "makespan"])
def test_to_whom_all_models_are_alike_what_is_left_over_is_everybodys_in_equal_parts(objective: str) -> None:
    """Only the job of 5,000 steps decides on the optimum: it takes all of its time."""
    steps = [5000.0, *[60.0 + 5 * number for number in range(7)]]
    more = left_over([[True, True]] * 8, steps, [1, 1, 1, 1, 1, 1, 1, 2], objective)
    if objective == "makespan":
        assert more[0] == pytest.approx(0.0, abs=1e-6)
        more = more[1:]
    assert more == pytest.approx([sum(more) / len(more)] * len(more), abs=1e-6)


def test_who_runs_on_fewer_models_has_as_much_of_what_is_left_over_as_these_have() -> None:
    runs = [[True, True]] * 5 + [[False, True]] * 4
    more = left_over(runs, [5000.0] + [10.0] * 8, [1] * 9, "makespan")
    # Two GPUs for the four; those that run on both share the other four, less what the long job has.
    assert more[1:5] == pytest.approx([3 / 4 - 10 / 5000] * 4, abs=1e-6)
    assert more[5:] == pytest.approx([2 / 4 - 10 / 5000] * 4, abs=1e-6)
