"""The examples of the papers, and inputs at the edge of sense."""

from __future__ import annotations

import numpy as np
import pytest

from scheduler.core.solvers.checking import checked_instance
from scheduler.core.solvers.errors import InstanceError, ObjectiveError
from scheduler.core.solvers.instance import Instance, Pairs
from scheduler.core.solvers.objective import progress_of
from scheduler.core.solvers.solving import OBJECTIVES, solve


def example(**others: object) -> Instance:
    """Three jobs on one V100 and one K80 (Gavel, section 4.1)."""
    return checked_instance(
        throughput=[[40, 10], [12, 4], [100, 50]], gpus=[1, 1], models=["V100", "K80"], **others
    )  # fmt: skip


def test_max_min_of_the_paper() -> None:
    """Everybody is about 10 % better off than with a third of both GPUs."""
    solution = solve(example(), "max_min")
    assert solution.shares == pytest.approx(
        np.array([[0.4545, 0], [0.4545, 0.0909], [0.0909, 0.9091]]), abs=1e-4
    )
    isolated = example().isolated_throughput()
    assert solution.throughput / isolated == pytest.approx([12 / 11] * 3)


def test_water_filling_of_the_paper() -> None:
    """Weights 3, 1, 1, 1 on four GPUs: nobody can use more than one, so all end with one (section 4.3)."""
    instance = checked_instance(throughput=[[1.0]] * 4, gpus=[4], weight=[3, 1, 1, 1])
    assert solve(instance, "water_filling").shares[:, 0] == pytest.approx([1, 1, 1, 1])
    assert solve(instance, "max_min").objective == pytest.approx(1 / 3)


def test_hierarchy_of_the_paper() -> None:
    """Three entities of weights 1, 2, 3 with six jobs each on 3 + 3 + 3 GPUs get as much (figure 11)."""
    rng = np.random.default_rng(11)
    instance = checked_instance(
        throughput=rng.uniform(1, 10, (18, 1)) * np.array([3.0, 2.0, 1.0]) * rng.uniform(0.7, 1.3, (18, 3)),
        gpus=[3, 3, 3],
        entity=np.repeat([0, 1, 2], 6),
        entities=("one", "two", "three"),
        entity_weight=[1, 2, 3],
    )
    aware = progress_of(instance, solve(instance, "hierarchical").throughput)
    shares = aware.reshape(3, 6)
    assert shares / shares[0, 0] == pytest.approx(np.repeat([[1.0], [2.0], [3.0]], 6, axis=1), rel=1e-5)
    # An agnostic policy would divide the time like that: 9 GPUs in 36 parts.
    assert shares[0, 0] > 9 / 36


def test_within_a_queue_the_earliest_goes_first() -> None:
    instance = checked_instance(
        throughput=[[2.0]] * 4,
        gpus=[2],
        entity=[0, 0, 1, 1],
        entities=("a", "b"),
        entity_weight=[1, 3],
        age_seconds=[1, 2, 3, 4],
    )
    # Entity a is owed half a GPU, b one and a half: its first job has a whole one, its second the half.
    assert solve(instance, "hierarchical_fifo").shares[:, 0] == pytest.approx([0, 0.5, 0.5, 1])


def test_makespan_is_exact() -> None:
    """Two jobs, each better on its own model, with 100 and 200 steps at 10 a second: 20 s, not 5 % more."""
    instance = checked_instance(throughput=[[10, 1], [1, 10]], gpus=[1, 1], steps_left=[100, 200])
    assert solve(instance, "makespan").objective == pytest.approx(200 / 10, rel=1e-6)


def test_finish_time_fairness_helps_who_is_behind() -> None:
    instance = checked_instance(
        throughput=[[1.0], [1.0]],
        gpus=[1],
        steps_left=[100, 100],
        age_seconds=[100, 0],
        isolated_seconds=[0, 0],
    )
    solution = solve(instance, "finish_time_fairness")
    # Alone on half a GPU both would take 200 s: (100 + 100 / x) = 100 / (1 - x).
    late, early = solution.throughput
    assert (100 + 100 / late) / 200 == pytest.approx(100 / early / 200, rel=1e-6)
    assert solution.objective == pytest.approx((100 + 100 / late) / 200, rel=1e-6)


def test_minimum_cost_is_a_ratio() -> None:
    """The paper's objective leaves the dear model idle; the published code's never does."""
    instance = checked_instance(throughput=[[10, 4]] * 2, gpus=[1, 1], price=[10, 1], steps_left=1000)
    cheap = solve(instance, "min_cost")
    assert cheap.used == pytest.approx([0, 1], abs=1e-5)
    assert cheap.objective == pytest.approx(3600 * 4 / 1, rel=1e-6)
    assert solve(instance, "throughput_per_cost").used == pytest.approx([1, 1])


def test_an_slo_costs_money_and_one_that_can_not_be_kept_is_named() -> None:
    instance = checked_instance(
        throughput=[[10, 4]] * 3,
        gpus=[1, 1],
        price=[10, 1],
        steps_left=1000,
        slo_seconds=[125, np.inf, np.inf],
    )
    kept = solve(instance, "min_cost_slo")
    assert kept.throughput[0] >= 8 * (1 - 1e-6)
    assert not kept.missed.size
    hopeless = checked_instance(
        throughput=[[10, 4]] * 3, gpus=[1, 1], price=[10, 1], steps_left=1000, slo_seconds=[50, -5, np.inf]
    )
    solution = solve(hopeless, "min_cost_slo")
    assert solution.missed.tolist() == [0, 1]
    # It comes as near to 20 steps per second as it can.
    assert solution.throughput[0] == pytest.approx(10, rel=1e-5)


def test_two_jobs_that_do_not_disturb_each_other_share() -> None:
    pairs = Pairs(first=np.array([0]), second=np.array([1]), throughput=np.array([[[9.0], [9.0]]]))
    instance = checked_instance(
        throughput=[[10.0], [10.0]], gpus=[1], job_class=[0, 1], job_classes=("a", "b"), pairs=pairs
    )
    assert solve(instance, "max_min").throughput == pytest.approx([5, 5])
    solution = solve(instance, "max_min", sharing=True)
    assert solution.throughput == pytest.approx([9, 9])
    assert solution.used == pytest.approx([1])
    assert solution.alone == pytest.approx(np.zeros((2, 1)))


@pytest.mark.parametrize("objective", sorted(OBJECTIVES))
class TestAtTheEdge:
    def test_no_jobs(self, objective: str) -> None:
        instance = checked_instance(throughput=np.zeros((0, 2)), gpus=[1, 1])
        solution = solve(instance, objective)
        assert solution.shares.shape == (0, 2)

    def test_nobody_runs_anywhere(self, objective: str) -> None:
        instance = checked_instance(throughput=[[0, 0], [0, 3]], gang=[1, 5], gpus=[4, 4], steps_left=10)
        solution = solve(instance, objective)
        assert solution.stuck.tolist() == [0, 1]
        assert not solution.shares.any()

    def test_a_job_that_runs_nowhere_gets_nothing_and_disturbs_nobody(self, objective: str) -> None:
        instance = checked_instance(throughput=[[0, 0], [2, 1]], gpus=[1, 1], steps_left=10, slo_seconds=1e6)
        solution = solve(instance, objective)
        assert solution.stuck.tolist() == [0]
        assert solution.throughput[0] == 0
        assert solution.throughput[1] > 0

    def test_a_gang_larger_than_a_model_does_not_run_there(self, objective: str) -> None:
        instance = checked_instance(throughput=[[9, 1]], gang=4, gpus=[3, 4], steps_left=10, slo_seconds=1e6)
        assert not solve(instance, objective).shares[:, 0].any()

    def test_everybody_fits(self, objective: str) -> None:
        instance = checked_instance(throughput=[[2, 2]] * 3, gpus=[100, 100], steps_left=[1, 20, 300])
        solution = solve(instance, objective)
        if not objective.startswith("min_cost"):
            assert solution.throughput == pytest.approx([2, 2, 2])

    def test_speeds_of_all_magnitudes(self, objective: str) -> None:
        instance = checked_instance(
            throughput=[[1e-6, 2e-6], [1e6, 3e6], [1.0, 1e-9]], gpus=[1, 1], steps_left=[1e-3, 1e9, 1e3]
        )
        solution = solve(instance, objective)
        assert (solution.shares.sum(axis=1) <= 1 + 1e-9).all()
        # A throughput of a thousand-millionth of the job's best counts as none.
        assert solution.shares[2, 1] == 0


def test_a_job_without_weight_gets_what_is_left() -> None:
    instance = checked_instance(throughput=[[1.0]] * 3, gpus=[2], weight=[1, 0, 0])
    for objective in ("max_min", "water_filling", "proportional_fairness", "hierarchical"):
        shares = solve(instance, objective).shares[:, 0]
        assert shares == pytest.approx([1, 0.5, 0.5]), objective


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(InstanceError) as caught:
        checked_instance(throughput=[[1, -1], [np.nan, 1]], gpus=[1, 0.5], weight=[0, 0], gang=[0, 1])
    told = [str(problem) for problem in caught.value.problems]
    assert [line.split(": is")[0] for line in told] == [
        "model 1: gpus",
        "job 0: throughput on 1",
        "job 1: throughput on 0",
        "job 0: gang",
        "weight: the weights of all jobs sum to zero (a positive weight for at least one job)",
    ]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"gang": [1, 2]}, "gang: has 2 entries for 3 (one number per job, or one for all)"),
        ({"age_seconds": -1}, "job 0: age_seconds: is -1"),
        ({"steps_left": np.inf}, "job 0: steps_left: is inf"),
        ({"price": [1, 0]}, "model K80: price: is 0 (a positive number)"),
        ({"entity": 3}, "job 0: entity: is 3 (an index below 1)"),
        ({"entity_weight": [np.nan]}, "weight: is nan"),
    ],
)
def test_a_mistake_is_told_with_its_field(fields: dict[str, object], message: str) -> None:
    with pytest.raises(InstanceError) as caught:
        example(**fields)
    assert message in str(caught.value)


def test_entities_without_weight_are_refused() -> None:
    instance = example(entity=0, entities=("a", "b"), entity_weight=[0, 1])
    with pytest.raises(InstanceError, match="entities: the weights sum to zero"):
        solve(instance, "hierarchical")


def test_an_unknown_objective_is_refused_with_those_there_are() -> None:
    with pytest.raises(ObjectiveError, match="there is no 'max'; there are fifo, finish_time_fairness, "):
        solve(example(), "max")


def test_too_many_pairs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.core.solvers.polytope.MOST_COLUMNS", 10)
    pairs = Pairs(first=np.array([0]), second=np.array([0]), throughput=np.full((1, 2, 1), 0.9))
    instance = checked_instance(throughput=[[1.0]] * 9, gpus=[9], steps_left=np.arange(1, 10), pairs=pairs)
    with pytest.raises(ObjectiveError, match="solve it in parts"):
        solve(instance, "makespan", sharing=True)
    assert solve(instance, "max_min", sharing=True).columns == 2
