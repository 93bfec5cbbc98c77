"""PAI: order by recurrence, and GPU models that are reserved. The paper has no example with numbers."""

from __future__ import annotations

import pytest

from scheduler.core.model.plan import Plan
from scheduler.core.model.snapshot import Job, Snapshot, Task
from scheduler.core.policies.pai import Pai
from scheduler.core.round.decide import decide
from tests.builders import make_job, make_node, make_running, make_snapshot, make_virtual_cluster
from tests.core.sim.worlds import arrival, cluster, ends, simulate


def world(*jobs: Job, running: Job | None = None, **parameters: object) -> Snapshot:
    """One V100 node and one P100 node, two GPUs each."""
    vc = make_virtual_cluster(guaranteed={"V100": 2, "P100": 2}, policy="pai", policy_parameters=parameters)
    return make_snapshot(
        nodes=[make_node(1, gpus=2), make_node(2, gpus=2, gpu_model="P100")],
        jobs=[*jobs, *([running] if running else [])],
        running=[make_running(running, [100])] if running else [],
        virtual_clusters=[vc],
    )


def placed(plan: Plan) -> dict[int, str]:
    assert not plan.degraded
    return {
        job: action.placement.gpu_model for action in plan.actions if action.placement for job in action.jobs
    }


def test_what_jobs_like_it_took_counts_before_what_was_declared() -> None:
    jobs = [
        make_job(1, 2, estimate_seconds=10.0, usual_seconds=5_000.0),
        make_job(2, 2, estimate_seconds=90_000.0, usual_seconds=100.0),
        make_job(3, 2, estimate_seconds=300.0),
    ]
    plan = decide(world(*jobs))
    assert sorted(placed(plan)) == [2, 3]
    assert plan.reasons[1][-1].code == "shorter_first"


def test_steps_come_before_recurrence_and_what_was_executed_is_taken_off() -> None:
    measured = make_job(1, 2, estimate_seconds=50.0, measured=True, usual_seconds=9_000.0)
    begun = make_job(2, 2, usual_seconds=2_000.0, attained_service={"V100": 2 * 1_900.0})
    fresh = make_job(3, 2, usual_seconds=150.0)
    assert sorted(placed(decide(world(measured, begun, fresh)))) == [1, 2]


def test_a_reserved_model_is_for_large_jobs_and_for_those_that_have_no_other() -> None:
    reserving = {"reserved": ["V100"], "reserved_from": 2}
    small = [make_job(number, 1, usual_seconds=float(number)) for number in (1, 2, 3)]
    plan = decide(world(*small, **reserving))
    assert placed(plan) == {1: "P100", 2: "P100"}
    assert [reason.code for reason in plan.reasons[3]] == ["model_reserved", "shorter_first"]
    large = make_job(4, 2, usual_seconds=9.0, gpu_models=("V100", "P100"))
    picky = make_job(5, 1, gpu_models=("V100",))
    assert placed(decide(world(*small, large, **reserving))) == {1: "P100", 2: "P100", 4: "V100"}
    assert placed(decide(world(*small, picky, **reserving))) == {1: "P100", 2: "P100", 5: "V100"}
    # Two replicas of one GPU each are no large job.
    gang = make_job(6, tasks=(Task(replicas=2, gpus=1),))
    assert placed(decide(world(gang, **reserving))) == {6: "P100"}


def test_where_nothing_else_is_guaranteed_nothing_is_reserved() -> None:
    snapshot = make_snapshot(
        nodes=[make_node(1, gpus=2), make_node(2, gpus=2, gpu_model="P100")],
        jobs=[make_job(1, 1)],
        virtual_clusters=[
            make_virtual_cluster(
                guaranteed={"V100": 2}, policy="pai", policy_parameters={"reserved": ["V100"]}
            )
        ],
    )
    assert placed(decide(snapshot)) == {1: "V100"}


def test_a_gang_may_have_a_reserved_model_where_it_fits_on_no_other() -> None:
    snapshot = make_snapshot(
        nodes=[make_node(1, gpus=4), make_node(2, gpus=1, gpu_model="P100")],
        jobs=[make_job(1, 2)],
        virtual_clusters=[
            make_virtual_cluster(
                guaranteed={"V100": 4, "P100": 1},
                policy="pai",
                policy_parameters={"reserved": ["V100"], "reserved_from": 4},
            )
        ],
    )
    assert placed(decide(snapshot)) == {1: "V100"}


def test_nobody_is_stopped() -> None:
    running = make_job(9, 1, usual_seconds=90_000.0)
    plan = decide(world(make_job(1, 2, usual_seconds=1.0, gpu_models=("V100",)), running=running))
    assert not plan.actions


def test_nonsense_is_refused() -> None:
    with pytest.raises(ValueError, match="reserved_from is 0; it must be at least 1"):
        Pai(reserved_from=0)


@pytest.mark.parametrize(("policy", "long_ends"), [("pai", 1_340.0), ("sjf", 1_200.0)])
def test_simulated_jobs_that_recur_are_told_by_those_that_ended(policy: str, long_ends: float) -> None:
    """Ada's quick jobs declare an hour; after two of them the rest go ahead of Bob's, who declares less."""
    quick = {"user": "ada", "application": "quick", "estimate_seconds": 3_600.0}
    slow = {"user": "bob", "application": "slow", "estimate_seconds": 3_000.0}
    jobs = [
        arrival(1, 0.0, 100.0, **quick),
        arrival(2, 50.0, 100.0, **quick),
        arrival(3, 150.0, 1_000.0, **slow),
        arrival(4, 150.0, 70.0, **quick),
        arrival(5, 150.0, 70.0, **quick),
    ]
    ended = ends(simulate(cluster(1, policy=policy), jobs))
    assert ended[3] == long_ends
