"""Nodes on which a job failed for their hardware's sake."""

from __future__ import annotations

from scheduler.core.round import decide
from tests.builders import make_cluster, make_job, make_running, make_snapshot, make_virtual_cluster


def test_a_job_goes_where_it_did_not_fail_and_rather_waits_than_goes_back() -> None:
    jobs = [make_job(1, 4, avoid=(1,)), make_job(2, 8, avoid=(1,)), make_job(3, 4)]
    facts = make_snapshot(
        nodes=make_cluster(2), jobs=jobs, virtual_clusters=[make_virtual_cluster(guaranteed={"V100": 16})]
    )
    plan = decide(facts)
    placed = {
        action.jobs[0]: {gpu // 100 for gpu in action.placement.gpus}
        for action in plan.actions
        if action.placement is not None
    }
    # Eight GPUs are left on node 1 or scattered, and job 2 waits for the other node.
    assert placed[jobs[0].id] == {2}
    assert jobs[1].id in plan.reasons
    assert placed[jobs[2].id] <= {1, 2}


def test_it_may_take_the_place_of_others_only_on_other_nodes() -> None:
    there = [make_job(number, 8, guaranteed=False) for number in (1, 2)]
    job = make_job(3, 8, avoid=(1,))
    facts = make_snapshot(
        nodes=make_cluster(2),
        jobs=[*there, job],
        running=[make_running(one, range(100 * one.id, 100 * one.id + 8), guaranteed=False) for one in there],
        virtual_clusters=[make_virtual_cluster(guaranteed={"V100": 16})],
    )
    stopped = {action.jobs[0] for action in decide(facts).actions if action.kind == "stop"}
    assert stopped == {2}
