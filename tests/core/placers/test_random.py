"""Random: every node that holds a replica is as likely as any other."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from scheduler.core.model.snapshot import Topology
from tests.builders import NOW, make_cluster, make_job, make_node
from tests.core.placers.cases import case, placed

#: Four nodes of two models and, which can hold nothing, a broken one.
NODES = (
    make_node(1),
    make_node(2),
    make_node(3, gpu_model="P100", gpus=4),
    make_node(4, gpu_model="P100", gpus=4),
    make_node(5, broken=range(8)),
)


def test_all_nodes_of_all_models_are_equally_likely() -> None:
    snapshot = case("random", NODES, [make_job(1, 2)])
    drawn = Counter(placed(replace(snapshot, now=NOW + second))[1][0] for second in range(400))
    assert set(drawn) == {1, 2, 3, 4}
    # 100 each are expected; one in ten thousand such tests would be further off.
    assert all(60 < count < 140 for count in drawn.values())


def test_equal_snapshots_are_placed_equally_and_another_seed_otherwise() -> None:
    nodes = make_cluster(8)
    jobs = [make_job(number, 1) for number in range(1, 9)]
    assert placed(case("random", nodes, jobs)) == placed(case("random", nodes, jobs))
    assert placed(case("random", nodes, jobs)) != placed(case("random:seed=7", nodes, jobs))


def test_a_gang_stays_in_one_model_and_where_it_must() -> None:
    gang = make_job(1, 2, replicas=3)
    near = make_job(2, 1, replicas=4, topology=Topology(level="node", required=True))
    for second in range(20):
        found = placed(replace(case("random", NODES, [gang, near]), now=NOW + second))
        assert set(found[1]) <= {1, 2} or set(found[1]) <= {3, 4}
        assert len(set(found[2])) == 1
