"""Where gangs go: few nodes, near each other, tight; checked by hand and against brute force."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.fitting.cards import Share
from scheduler.core.fitting.cluster import Cluster
from scheduler.core.fitting.demand import Demand, Need, demand_of
from scheduler.core.fitting.holding import Part
from scheduler.core.fitting.packing import Layer, locate
from scheduler.core.model.snapshot import GpuId, Job, Node, Task, Topology
from scheduler.core.round.decide import decide
from tests.builders import make_job, make_node, make_running, make_snapshot, make_virtual_cluster
from tests.effort import examples

LEVELS = ("rack", "node", "socket", "switch")
ANYWHERE = len(LEVELS)


def place(job: Job, nodes: Sequence[Node], taken: Sequence[int] = ()) -> list[list[int]] | None:
    """Decide for one job while others hold the taken GPUs; return its replicas."""
    others = [make_job(100 + gpu, 1, virtual_cluster="others") for gpu in taken]
    size = sum(len(node.gpus) for node in nodes)
    snapshot = make_snapshot(
        nodes=nodes,
        jobs=[job, *others],
        running=[make_running(other, [gpu]) for other, gpu in zip(others, taken, strict=True)],
        virtual_clusters=[
            make_virtual_cluster("others", {"V100": size}),
            make_virtual_cluster("research", {"V100": size}),
        ],
    )
    for action in decide(snapshot).actions:
        if action.jobs == (job.id,) and action.placement is not None:
            return [list(replica) for replica in action.placement.replicas]
    return None


def test_a_small_job_takes_the_tightest_hole() -> None:
    nodes = [make_node(1), make_node(2)]
    assert place(make_job(1, 2), nodes, taken=[200, 201, 202, 203, 204, 205]) == [[206, 207]]


def test_gpus_on_one_switch_are_better_than_a_tighter_hole() -> None:
    nodes = [make_node(1), make_node(2)]
    assert place(make_job(1, 2), nodes, taken=[200, 202, 203, 204, 206, 207]) == [[100, 101]]


def test_a_broken_pair_is_used_before_a_whole_one() -> None:
    assert place(make_job(1, 1), [make_node(1)], taken=[102]) == [[103]]
    assert place(make_job(1, 3), [make_node(1)], taken=[102, 106, 107]) == [[100, 101, 103]]


def test_a_gang_prefers_one_node_to_a_tighter_fit_on_two() -> None:
    nodes = [make_node(1, gpus=2), make_node(2, gpus=2), make_node(3, gpus=8)]
    assert place(make_job(1, 1, replicas=4), nodes) == [[300], [301], [302], [303]]


def test_a_gang_over_nodes_stays_in_one_rack() -> None:
    nodes = [
        make_node(1, rack="rack-1"),
        make_node(2, rack="rack-2"),
        make_node(3, rack="rack-2"),
        make_node(4, rack="rack-1", schedulable=False),
    ]
    replicas = place(make_job(1, 8, replicas=2), nodes)
    assert replicas is not None
    assert {replica[0] // 100 for replica in replicas} == {2, 3}


def test_fewer_nodes_are_better_than_one_rack() -> None:
    nodes = [
        *(make_node(number, gpus=2, rack="rack-1") for number in (1, 2)),
        make_node(3, gpus=4, rack="rack-2"),
        make_node(4, gpus=4, rack="rack-3"),
        *(make_node(number, gpus=2, rack="rack-4") for number in (5, 6, 7, 8)),
    ]
    replicas = place(make_job(1, 2, replicas=4), nodes)
    assert replicas is not None
    assert {replica[0] // 100 for replica in replicas} == {3, 4}


@pytest.mark.parametrize(
    ("level", "expected"), [("switch", None), ("socket", None), ("node", [[101], [103], [105]])]
)
def test_a_required_level_is_kept_to(level: str, expected: list[list[int]] | None) -> None:
    job = make_job(1, 1, replicas=3, topology=Topology(level=level, required=True))
    assert place(job, [make_node(1)], taken=[100, 102, 104, 106, 107]) == expected


def test_a_preferred_level_is_a_wish() -> None:
    job = make_job(1, 1, replicas=2, topology=Topology(level="switch"))
    assert place(job, [make_node(1)], taken=[100, 102, 104, 106]) is not None


def test_a_replica_is_never_split_but_replicas_may_share_a_node() -> None:
    nodes = [make_node(1, gpus=4), make_node(2, gpus=4)]
    assert place(make_job(1, 3, replicas=2), nodes) == [[100, 101, 102], [200, 201, 202]]
    assert place(make_job(1, 3, replicas=3), nodes) is None


def test_processors_and_memory_count() -> None:
    nodes = [make_node(1, cpus=8.0, memory_bytes=2**30), make_node(2, cpus=64.0, memory_bytes=2**36)]
    hungry = make_job(1, tasks=(Task(replicas=2, gpus=1, cpus=6.0),))
    assert place(hungry, nodes) == [[200], [201]]
    large = make_job(1, tasks=(Task(replicas=1, gpus=1, memory_bytes=2**31),))
    assert place(large, nodes) == [[200]]


def idle_layer(rooms: Sequence[int], cpus: Sequence[float], racks: Sequence[int]) -> tuple[Cluster, Layer]:
    nodes = [
        make_node(number, gpus=max(room, 1), rack=f"rack-{rack}", cpus=count)
        for number, (room, count, rack) in enumerate(zip(rooms, cpus, racks, strict=True), start=1)
    ]
    cluster = Cluster(nodes, LEVELS)
    fleet = cluster.fleets["V100"]
    order = {node.name: node for node in fleet.nodes}
    masks = [(1 << rooms[node.id - 1]) - 1 for node in order.values()]
    return cluster, Layer(masks, [node.cpus for node in fleet.nodes], [0.0] * len(masks), fleet.largest_node)


def exists(needs: Sequence[Need], rooms: Mapping[int, int], cpus: Mapping[int, float]) -> bool:
    """Try every assignment of replicas to nodes."""
    for nodes in product(rooms, repeat=len(needs)):
        pairs = list(zip(nodes, needs, strict=True))
        if all(
            sum(need.gpus for place, need in pairs if place == node) <= rooms[node]
            and sum(need.cpus for place, need in pairs if place == node) <= cpus[node]
            for node in rooms
        ):
            return True
    return False


#: GPUs free, CPUs, rack.
rooms = st.tuples(st.integers(0, 8), st.sampled_from((0.0, 4.0, 64.0)), st.integers(1, 2))


@settings(max_examples=examples(300), derandomize=True)
@given(
    st.lists(
        st.tuples(st.integers(0, 8), st.sampled_from((0.0, 4.0, 64.0)), st.integers(1, 2)),
        min_size=1,
        max_size=4,
    ),
    st.integers(1, 4),
    st.integers(1, 4),
    st.sampled_from((0.0, 2.0)),
)
def test_equal_replicas_are_placed_whenever_there_is_a_way(
    nodes: list[tuple[int, float, int]], replicas: int, gpus: int, cpus: float
) -> None:
    cluster, layer = idle_layer(*zip(*nodes, strict=True))  # type: ignore[arg-type]
    needs = (Need(gpus, cpus, 0),) * replicas
    demand = Demand(needs, gpus * replicas, ("V100",), (ANYWHERE,))
    found = locate(layer, cluster.fleets["V100"], demand, ANYWHERE, cluster.node_rank)
    rooms = {node: mask.bit_count() for node, mask in enumerate(layer.masks)}
    assert (found is not None) == exists(needs, rooms, dict(enumerate(layer.cpus)))
    for node in rooms if found else ():
        assert layer.holds(
            node, [need for place, need in zip(found or [], needs, strict=True) if place == node]
        )


@settings(max_examples=examples(100), derandomize=True)
@given(st.sets(st.integers(0, 7)), st.integers(1, 8))
def test_gpus_of_one_node_are_as_near_as_they_can_be(taken: set[int], count: int) -> None:
    cluster = Cluster([make_node(1)], LEVELS)
    layout = cluster.fleets["V100"].layouts[0]
    free = sum(1 << gpu for gpu in range(8) if gpu not in taken)
    if free.bit_count() < count:
        return
    rank, chosen = layout.nearest(free, count)
    assert chosen & ~free == 0
    assert chosen.bit_count() == count
    assert any(chosen & ~group == 0 for group in layout.levels[rank])
    for narrower in layout.levels[:rank]:
        assert all((group & free).bit_count() < count for group in narrower)


def test_demands_of_equal_jobs_are_one_object() -> None:
    cluster = Cluster([make_node(1)], LEVELS)
    assert demand_of(make_job(1, 2), cluster) is demand_of(make_job(2, 2), cluster)
    assert GpuId(100) in cluster.where


@settings(max_examples=examples(100))
@given(
    st.lists(
        st.tuples(
            st.sampled_from(("take", "give", "whole", "on", "copy")),
            st.integers(0, 2),
            st.integers(0, 3),
            st.sampled_from((100, 300, 500, 900)),
        ),
        max_size=40,
    )
)
def test_what_is_left_of_open_gpus_is_known_after_every_change(
    steps: list[tuple[str, int, int, int]],
) -> None:
    fleet = Cluster([make_node(number, gpus=4) for number in (1, 2, 3)], LEVELS).fleets["V100"]
    layer = Layer.unclaimed(fleet, fleet.usable)
    given_out: list[tuple[int, Share]] = []
    for what, node, gpu, request in steps:
        share = Share(1 << gpu, request, 0)
        if what == "take" and layer.takes(node, share, 0):
            layer.remove(Part(node, share.gpu, 0.0, 0.0, (share,)))
            given_out.append((node, share))
        elif what == "give" and given_out:
            node, share = given_out.pop()
            layer.add(Part(node, share.gpu, 0.0, 0.0, (share,)))
        elif what == "whole" and layer.masks[node] >> gpu & 1:
            layer.remove(Part(node, 1 << gpu, 0.0, 0.0))
        elif what == "copy":
            layer = layer.copy()
        elif what == "on":
            assert_left(layer.on(1 << node))
        assert_left(layer)


def assert_left(layer: Layer) -> None:
    for node in range(len(layer.masks)):
        cards = layer.cards.get(node, {})
        left = {gpu: 1000 - sum(share.request for share in card) for gpu, card in cards.items()}
        assert layer.rooms.get(node, {}) == left
        assert layer.left.get(node, 0) == max(left.values(), default=0)
