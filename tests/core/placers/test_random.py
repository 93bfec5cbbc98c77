"""Random: every node that holds a replica is as likely as any other."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from scheduler.core.model.snapshot import Snapshot, Topology
from scheduler.core.round.decide import decide
from tests.builders import NOW, make_cluster, make_job, make_node, make_part, make_running
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


def test_all_gpus_with_room_for_a_part_are_equally_likely() -> None:
    # Half of one GPU of node 3 is left, and all of one of node 4; the others are full.
    held = {100: 0.8, 101: 0.8, 200: 0.8, 201: 0.8, 300: 0.5, 301: 0.8, 400: 0.8}
    nodes = [make_node(number, gpus=2, gpu_model="V100" if number < 3 else "P100") for number in range(1, 5)]
    jobs = [make_part(number, request) for number, request in enumerate(held.values(), 1)]
    running = [
        make_running(job, [gpu], gpu_model="V100" if gpu < 300 else "P100")
        for job, gpu in zip(jobs, held, strict=True)
    ]
    drawn = gpus_drawn(case("random", nodes, [*jobs, make_part(99, 0.3)], running), 400)
    assert set(drawn) == {300, 401}
    # 200 each are expected; one in a million such tests would be further off.
    assert all(150 < count < 250 for count in drawn.values())


def test_a_part_goes_to_any_node_and_any_of_its_gpus_though_one_is_open() -> None:
    nodes = [make_node(number, gpus=4) for number in (1, 2)]
    nodes += [make_node(number, gpus=4, gpu_model="P100") for number in (3, 4)]
    first = make_part(1, 0.1)
    drawn = gpus_drawn(case("random", nodes, [first, make_part(2, 0.1)], [make_running(first, [101])]), 800)
    # 50 of each of 16 are expected.
    assert len(drawn) == 16
    assert all(20 < count < 90 for count in drawn.values())


def gpus_drawn(snapshot: Snapshot, seconds: int) -> Counter[int]:
    """Count the GPUs on which the job starts, of which there is one, at so many instants."""
    found: Counter[int] = Counter()
    for second in range(seconds):
        [action] = decide(replace(snapshot, now=NOW + second)).actions
        assert action.placement is not None
        found[action.placement.replicas[0][0]] += 1
    return found


def test_gangs_of_parts_are_whole_and_equal_snapshots_are_placed_equally() -> None:
    gang = make_part(1, 0.25, replicas=4)
    near = make_part(2, 0.4, replicas=3, topology=Topology(level="node", required=True))
    for second in range(10):
        snapshot = replace(case("random", make_cluster(6), [gang, near]), now=NOW + second)
        found = placed(snapshot)
        assert found == placed(snapshot)
        assert len(found[1]) == 4
        assert len(set(found[2])) == 1
