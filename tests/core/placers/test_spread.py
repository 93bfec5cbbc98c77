"""Spread: emptiest nodes first, replicas on different nodes and racks."""

from __future__ import annotations

from scheduler.core.model.plan import ActionKind
from scheduler.core.model.snapshot import Topology
from scheduler.core.round.decide import decide
from tests.builders import make_cluster, make_job, make_node, make_running
from tests.core.placers.cases import case, placed


def test_jobs_go_to_the_emptiest_nodes() -> None:
    holder = make_job(9, 4)
    nodes = [make_node(1), make_node(2), make_node(3, gpus=4)]
    running = [make_running(holder, range(100, 104))]
    jobs = [holder, make_job(10, 2), make_job(11, 2), make_job(12, 1)]
    # Node 2 and 3 are empty; then 2 of 8, 2 of 4 and 4 of 8 are in use.
    assert placed(case("spread", nodes, jobs, running)) == {10: [2], 11: [3], 12: [2]}


def test_replicas_are_apart_and_in_different_racks_first() -> None:
    nodes = make_cluster(8)  # Nodes 1 to 4 are in one rack, 5 to 8 in another.
    assert placed(case("spread", nodes, [make_job(1, 1, replicas=2)])) == {1: [1, 5]}
    assert sorted(placed(case("spread", nodes, [make_job(1, 2, replicas=8)]))[1]) == list(range(1, 9))


def test_more_replicas_than_nodes_share_them_evenly() -> None:
    replicas = placed(case("spread", make_cluster(2), [make_job(1, 1, replicas=6)]))[1]
    assert sorted(replicas) == [1, 1, 1, 2, 2, 2]


def test_what_a_job_requires_of_the_topology_comes_first() -> None:
    node = make_job(1, 1, replicas=4, topology=Topology(level="node", required=True))
    rack = make_job(2, 1, replicas=4, topology=Topology(level="rack", required=True))
    found = placed(case("spread", make_cluster(8), [node, rack]))
    assert len(set(found[1])) == 1
    assert set(found[2]) in ({1, 2, 3, 4}, {5, 6, 7, 8})
    switch = make_job(3, 2, topology=Topology(level="switch", required=True))
    half = make_running(make_job(9), [101, 102, 105, 106], gpu_model="V100")
    holder = make_job(9, 4)
    # The GPUs 100, 103, 104 and 107 of node 1 are idle: no two on one switch. Node 2 is fuller.
    full = make_running(make_job(8), range(200, 206))
    jobs = [switch, holder, make_job(8, 6)]
    assert placed(case("spread", make_cluster(2), jobs, [half, full]))[3] == [2]


def test_jobs_that_run_stay_where_they_are() -> None:
    job = make_job(1, 1, replicas=4)
    running = [make_running(job, [[100], [101], [102], [103]])]
    assert decide(case("spread", make_cluster(4), [job], running)).actions == ()


def test_a_gang_that_was_granted_gpus_is_not_left_out_for_the_sake_of_balance() -> None:
    # Spread over both nodes, the small jobs would leave no node whole for the large one.
    jobs = [make_job(1, 1), make_job(2, 1), make_job(3, 8)]
    assert placed(case("spread", make_cluster(2), jobs)) == {1: [1], 2: [1], 3: [2]}


def test_a_guaranteed_gang_reclaims_what_it_needs_as_with_any_placer() -> None:
    borrower = make_job(1, 8, guaranteed=False)
    running = [make_running(borrower, range(100, 108))]
    plan = decide(case("spread", make_cluster(1), [borrower, make_job(2, 8)], running))
    assert {job: action.kind for action in plan.actions for job in action.jobs} == {
        1: ActionKind.STOP,
        2: ActionKind.START,
    }
