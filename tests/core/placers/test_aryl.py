"""Aryl's placement: base demands on own nodes, flexible workers on lent ones, and the two kept apart."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.core.model.snapshot import LENT, Job, Node, NodeLoan, Running, Snapshot, Topology
from scheduler.core.round.decide import decide
from tests.builders import make_job, make_node, make_running, make_snapshot, make_virtual_cluster
from tests.core.placers.cases import case, nodes_in, placed


def lent(number: int, gpus: int = 4) -> Node:
    return make_node(number, gpus=gpus, loan=NodeLoan(pool="chat", state=LENT))


NODES = [lent(1), lent(2), make_node(3, gpus=8)]


def grown(jobs: Sequence[Job], running: Sequence[Running] = (), nodes: Sequence[Node] = NODES) -> Snapshot:
    """Aryl divides extra workers at once: all of a gang's sizes are tried."""
    clusters = [
        make_virtual_cluster(
            guaranteed={"V100": sum(len(node.gpus) for node in nodes)}, policy="aryl", placer="aryl"
        )
    ]
    return make_snapshot(nodes=nodes, jobs=jobs, running=running, virtual_clusters=clusters)


def test_gangs_of_fixed_size_go_to_own_nodes_while_there_is_room() -> None:
    # By tightest fit alone both would be on a lent node.
    assert placed(case("aryl", NODES, [make_job(1, 4), make_job(2, 4)])) == {1: [3], 2: [3]}
    assert placed(case("aryl", NODES, [make_job(1, 8), make_job(2, 4)])) == {1: [3], 2: [1]}


def test_of_an_elastic_gang_the_base_is_on_own_nodes_and_the_rest_on_lent_ones() -> None:
    gang = make_job(1, 1, replicas=2, elastic=(2, 6))
    assert nodes_in(decide(grown([gang]))) == {1: [3, 3, 1, 1, 1, 1]}


def test_base_demands_that_must_go_to_lent_nodes_are_kept_from_flexible_workers() -> None:
    gang, rigid = make_job(1, 1, replicas=2, elastic=(2, 4)), make_job(2, 1, replicas=8)
    held = [
        make_running(gang, [[300], [301], [100], [101]]),
        make_running(make_job(3, 1, replicas=6), [[300 + index] for index in range(2, 8)]),
    ]
    assert placed(case("aryl", NODES, [gang, make_job(3, 1, replicas=6), make_job(4, 2)], held)) == {4: [2]}
    # Where there is no other room they are together all the same.
    two_more = [make_job(4, 4), make_job(5, 2)]
    found = placed(case("aryl", NODES, [gang, make_job(3, 1, replicas=6), *two_more], held))
    assert found == {4: [2], 5: [1]}
    assert rigid.id not in found


def test_flexible_workers_join_flexible_workers() -> None:
    first = make_job(1, 1, replicas=2, elastic=(2, 4))
    second = make_job(2, 1, replicas=2, elastic=(2, 4))
    held = make_running(first, [[300], [301], [200], [201]])
    found = nodes_in(decide(grown([first, second], [held])))
    assert found[2] == [3, 3, 2, 2]


def test_opportunistic_gangs_of_fixed_size_rather_use_lent_nodes() -> None:
    job = make_job(1, 2, guaranteed=False)
    snapshot = make_snapshot(nodes=NODES, jobs=[job], spare_placer="aryl")
    assert placed(snapshot) == {1: [1]}


def test_a_gang_that_must_be_on_one_node_is_not_torn_apart() -> None:
    gang = make_job(1, 1, replicas=2, elastic=(2, 6), topology=Topology(level="node", required=True))
    assert nodes_in(decide(grown([gang]))) == {1: [3] * 6}


def test_without_lent_nodes_it_is_the_tightest_fit() -> None:
    nodes = [make_node(1, gpus=8), make_node(2, gpus=4)]
    assert placed(case("aryl", nodes, [make_job(1, 4), make_job(2, 4)])) == {1: [2], 2: [1]}
