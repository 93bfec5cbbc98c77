"""Placers by score: the published baselines by hand, KubeShare's choice, and what no taste may break."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.core.building_blocks.node_scores import NodeState, Norms
from scheduler.core.fitting.demand import Need
from scheduler.core.fitting.fragmentation import Free
from scheduler.core.fitting.open_gpus import OpenGpus
from scheduler.core.model.gpu_parts import GpuPart
from scheduler.core.model.snapshot import Node
from scheduler.core.placers.best_fit import Tightness
from scheduler.core.placers.clustering import Likeness
from scheduler.core.placers.dot_product import Product
from scheduler.core.placers.packing import Tiers
from tests.builders import make_cluster, make_job, make_node, make_part, make_running
from tests.core.placers.cases import case, placed

SCORED = ("best_fit", "clustering", "dot_product", "fgd", "kubeshare", "packing")
#: Whole GPUs, a third of one in use, 0.4 of another left; the largest node has 128 CPUs and 8 GPUs.
FREE = Free("T4", 64.0, (1_000, 670, 400, 1_000))
NORMS = Norms(128.0, 8_000)
HALF = Need(1, 8.0, 0, GpuPart(request=500, limit=500))
ONE, TWO = Need(1, 8.0, 0), Need(2, 8.0, 0)
ABLE = (0, 1, 3)
GIB = 2**30


def nodes(count: int, gpus: int = 2) -> list[Node]:
    return [make_node(number, gpus=gpus, cpus=16.0) for number in range(1, count + 1)]


def test_best_fit_by_hand() -> None:
    # 56 of 128 CPUs and 2.57 of 8 GPUs: 1 - (0.4375 + 0.32125) / 2 = 0.620625.
    assert Tightness(NORMS).score(NodeState(FREE), HALF, ABLE) == (62, 1)


def test_dot_product_by_hand() -> None:
    # 1 - (64 x 8 / 128 ** 2 + 3.07 x 0.5 / 8 ** 2) / 2 = 0.9724.
    assert Product(NORMS).score(NodeState(FREE), HALF, ABLE) == (97, 1)


@pytest.mark.parametrize(
    ("kinds", "points"), [({"part"}, 90), ({"part", "2"}, 65), (set(), 40), ({"2"}, 15), ({"unknown"}, 15)]
)
def test_clustering_by_hand(kinds: set[str], points: int) -> None:
    # 4.93 of 8 GPUs are not idle there: 15 of 25 points.
    assert Likeness(NORMS).score(NodeState(FREE, frozenset(kinds)), HALF, ABLE) == (points, 1)


def test_packing_by_hand() -> None:
    # On the GPU with 0.67 idle; one idle GPU beside GPUs in use, two of them; a node of four that is idle.
    assert Tiers().score(NodeState(FREE), HALF, ABLE) == (94, 1)
    assert Tiers().score(NodeState(FREE), ONE, ())[0] == 49
    assert Tiers().score(NodeState(FREE), TWO, ())[0] == 48
    assert Tiers().score(NodeState(FREE._replace(shares=(1_000,) * 4)), ONE, ())[0] == 29


def test_like_goes_with_like_though_another_node_is_fuller() -> None:
    pair, part = make_job(1, 2), make_part(2, 0.2)
    running = make_running(pair, [100, 101]), make_running(part, [200])
    there = nodes(3, gpus=4)
    assert placed(case("clustering", there, [pair, part, make_job(3, 2)], running)) == {3: [1]}
    assert placed(case("clustering", there, [pair, part, make_part(3, 0.9)], running)) == {3: [2]}


def test_kubeshare_fills_the_tightest_gpu_and_gives_affinity_the_widest() -> None:
    jobs = [make_part(1, 0.6), make_part(2, 0.3)]
    running = make_running(jobs[0], [100]), make_running(jobs[1], [200])
    assert placed(case("kubeshare", nodes(2), [*jobs, make_part(3, 0.3)], running)) == {3: [1]}
    bound = [replace(job, sharing=make_part(9, 0.1, labels={"affinity": "a"}).sharing) for job in jobs]
    third = make_part(3, 0.3, labels={"affinity": "a"})
    assert placed(case("kubeshare", nodes(2), [*bound, third], running)) == {3: [2]}


def test_the_descent_gives_a_part_the_gpu_that_is_broken_already() -> None:
    there, half = nodes(2), make_part(1, 0.5)
    running = [make_running(half, [200])]
    wanted = [half, make_part(2, 0.5)]
    assert placed(case("fgd:workload=2:0:9|0.5:0:1", there, wanted, running)) == {2: [2]}


@pytest.mark.parametrize("placer", SCORED)
def test_no_taste_mixes_whole_and_parts_or_breaks_a_guarantee(placer: str) -> None:
    jobs = [make_job(1), *[make_part(number, 0.4, replicas=2) for number in (2, 3)], make_part(4, 0.9)]
    there = case(placer, nodes(1, gpus=4), jobs)
    # decide() raises PlanError for a plan that is not legal.
    assert sorted(placed(there)) == [1, 2, 3, 4]
    (only,) = there.virtual_clusters
    tight = replace(there, virtual_clusters=(replace(only, guaranteed={"V100": 1}),), jobs=tuple(jobs[1:]))
    assert placed(tight) == {4: [1]}


@pytest.mark.parametrize("placer", SCORED)
def test_labels_bind_every_taste(placer: str) -> None:
    first, second = (
        make_part(number, 0.3, labels={"exclusion": label}) for number, label in ((1, "a"), (2, "b"))
    )
    running = [make_running(first, [100])]
    assert placed(case(placer, make_cluster(1, gpus=1), [first, second], running)) == {}


@pytest.mark.parametrize("placer", SCORED)
def test_nodes_that_differ_in_the_memory_of_their_gpus_are_not_alike(placer: str) -> None:
    large, small = (
        replace(node, gpus=tuple(replace(gpu, memory_bytes=size) for gpu in node.gpus))
        for node, size in zip(nodes(2), (32 * GIB, 16 * GIB), strict=True)
    )
    jobs = [make_part(number, 0.3, memory_bytes=20 * GIB) for number in (1, 2, 3)]
    # The first of each node is open, and as much of it is left on both.
    held = make_part(8, 0.3, memory_bytes=8 * GIB), make_part(9, 0.3, memory_bytes=8 * GIB)
    running = make_running(held[0], [100]), make_running(held[1], [200])
    assert placed(case(placer, [large, small], [*held, *jobs], running)) == {1: [1], 2: [1]}


@pytest.mark.parametrize("placer", SCORED)
def test_nodes_that_differ_in_the_labels_of_their_jobs_are_not_alike(placer: str) -> None:
    there = make_cluster(3, gpus=1)
    # As much is left on the first node as on the second; the third is idle.
    held = [make_part(number, 0.3, labels={"anti_affinity": label}) for number, label in ((8, "b"), (9, "a"))]
    running = [make_running(job, [100 * number]) for number, job in enumerate(held, start=1)]
    wanted = [make_part(number, 0.3, labels={"anti_affinity": "a"}) for number in (1, 2)]
    assert placed(case(placer, there, [*held, *wanted], running)) == {1: [1], 2: [3]}


def test_nodes_that_are_full_are_not_asked_about_for_every_kind_of_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = 0
    able = OpenGpus.able

    def counted(self: OpenGpus, node: int, need: Need, among: int, budget: int | None) -> list[int]:
        nonlocal asked
        asked += 1
        return able(self, node, need, among, budget)

    monkeypatch.setattr(OpenGpus, "able", counted)
    full = [make_part(number, 0.9) for number in range(1, 41)]
    held = [make_running(job, [100 * (job.id // 2 + job.id % 2) + job.id % 2]) for job in full]
    new = [make_part(100 + number, 0.2 + number / 1000) for number in range(40)]
    snapshot = case("fgd", nodes(40), [*full, *new], held)
    assert len(placed(snapshot)) == 40
    # Of 40 nodes 20 are full; each of the 40 kinds looks once at the others.
    assert asked <= 40 * 20
