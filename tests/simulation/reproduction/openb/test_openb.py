"""The published simulator of fragmentation gradient descent: its policies by hand, its curves exactly."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.reproduction.openb.go_random import GoRandom
from benchmarks.reproduction.openb.replay import (
    POLICIES,
    NodeState,
    Replay,
    best_fit,
    clustering,
    dot_product,
    fullest,
    packing,
    published,
    replay,
)
from benchmarks.reproduction.openb.workload import (
    OpenbNode,
    OpenbTask,
    arrivals,
    read_nodes,
    read_tasks,
    typical,
)
from scheduler.core.fitting.fragmentation import Ask, Fragmentation, Free
from scheduler.simulation.errors import InputError

DATA = Path(__file__).resolve().parents[5] / "shared" / "data" / "openb"
are_here = pytest.mark.skipif(not DATA.is_dir(), reason="../shared/data/openb is not here")

#: Lists of tasks that the authors ran.
LISTS = (
    *("default", "cpu050", "cpu100", "cpu200", "cpu250", "gpushare40", "gpushare60", "gpushare80"),
    *("gpushare100", "gpuspec10", "gpuspec20", "gpuspec25", "gpuspec33"),
    *("multigpu20", "multigpu30", "multigpu40", "multigpu50"),
)
#: Whole GPUs, a third of one in use, 0.4 of another left.
NODE = NodeState("T4", 64_000, 262_144, [1_000, 670, 400, 1_000])
HALF, ONE, TWO = Ask(1, 8_000, 500), Ask(1, 8_000, 1_000), Ask(2, 8_000, 1_000)
CPUS_ONLY = Ask(0, 8_000, 0)


def task(gpus: int = 1, share: int = 1_000, cpus: int = 4_000, models: str = "") -> OpenbTask:
    return OpenbTask(Ask(gpus, cpus, share, frozenset(filter(None, models.split("|")))), 1_024, models)


def test_numbers_are_those_of_go() -> None:
    dice = GoRandom(1)
    assert [dice.int63() for _ in range(3)] == [
        5577006791947779410,
        8674665223082153551,
        6129484611666145821,
    ]
    dice = GoRandom(1)
    assert [dice.below(100) for _ in range(10)] == [81, 87, 47, 59, 81, 18, 25, 40, 56, 0]


def test_every_order_has_everything() -> None:
    dice, values = GoRandom(42), list(range(50))
    shuffled = list(values)
    dice.shuffle(shuffled)
    assert shuffled != values
    assert sorted(shuffled) == sorted(dice.permutation(50)) == values
    # The other way to draw: no number twice for a power of two.
    assert 0 <= dice.below(64) < 64


def test_best_fit_counts_what_is_left_of_cpus_and_gpus() -> None:
    # 56 of 128 CPUs and 2.57 of 8 GPUs: 1 - (0.4375 + 0.32125) / 2 = 0.620625.
    assert best_fit(NODE, HALF) == 62
    assert fullest(NODE, HALF) == 1


def test_dot_product_counts_what_is_idle_before() -> None:
    # 1 - (64 x 8 / 128 ** 2 + 3.07 x 2 / 8 ** 2) / 2 = 0.9364.
    assert dot_product(NODE, TWO) == 93


def test_clustering_seeks_its_kind() -> None:
    fuller = 15  # 25 x 4.93 / 8, rounded down
    for held, points in ({"part"}, 75), ({"part", "1"}, 50), (set(), 25), ({"1"}, 0):
        assert clustering(NodeState("T4", 64_000, 0, NODE.shares, held), HALF) == fuller + points
    assert clustering(NODE, CPUS_ONLY) == 0


def test_packing_opens_gpus_last_and_nodes_after_that() -> None:
    assert packing(NODE, HALF) == 100 - 67 // 10
    assert packing(NODE, ONE) == 49
    assert packing(NODE, TWO) == 48
    assert packing(NodeState("T4", 64_000, 0, [1_000] * 8), ONE) == 25
    assert packing(NodeState("T4", 64_000, 0, [1_000] * 2), ONE) == 31
    assert packing(NODE, CPUS_ONLY) == 0


def test_a_typical_workload_covers_its_part_and_tells_models_apart_as_written() -> None:
    tasks = [task()] * 17 + [task(models="T4|P100")] * 2 + [task(models="P100|T4")]
    assert typical(tasks) == [
        (task().ask, pytest.approx(17 / 19)),
        (task(models="T4|P100").ask, pytest.approx(2 / 19)),
    ]


def test_arrivals_ask_for_what_the_load_says() -> None:
    nodes = [OpenbNode(f"node-{number}", "T4", 64_000, 262_144, 4) for number in range(10)]
    tasks = [task(2)] * 3 + [task(share=300)] * 3
    arriving, ordered = arrivals(tasks, nodes, GoRandom(42))
    assert sorted(ordered) == nodes != ordered
    assert 50_000 <= sum(each.gpu_milli for each in arriving) <= 53_000
    many, _ = arrivals([task(4)] * 20, nodes, GoRandom(42))
    assert len(many) == 13  # 40 GPUs x 1.3 / 4: what is too much goes, and nothing comes instead.


def test_memory_and_cpus_and_models_are_held_to() -> None:
    nodes = [OpenbNode("a", "T4", 8_000, 2_048, 2), OpenbNode("b", "P100", 8_000, 2_048, 2)]
    cluster = Replay(nodes, [(HALF, 1.0)], "packing", GoRandom(1))
    assert [cluster.place(task(share=500, models="P100")) for _ in range(3)] == [1, 1, None]
    assert cluster.nodes[1].shares == [0, 1_000]
    assert cluster.place(task(3)) is None
    assert cluster.fragment == 3_000 - 2_000


def test_a_policy_that_is_none_is_named() -> None:
    with pytest.raises(InputError, match="policy 'first' is none of random"):
        Replay([], [(HALF, 1.0)], "first", GoRandom(1))


def test_lists_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"openb_node_list_gpu_node\.csv cannot be read: No such file"):
        read_nodes(tmp_path)
    (tmp_path / "openb_pod_list_default.csv").write_text("name,num_gpu,cpu_milli\na,1,4000\n")
    with pytest.raises(
        InputError, match=r"openb_pod_list_default\.csv is no list of openb tasks: 'gpu_milli'"
    ):
        read_tasks(tmp_path, "default")


def test_causes_are_the_whole_of_a_fragment() -> None:
    measure = Fragmentation({HALF: 0.25, TWO: 0.25, CPUS_ONLY: 0.5})
    free = Free("T4", 4_000, (1_000, 300))
    assert {cause.value: amount for cause, amount in measure.causes(free).items() if amount} == {
        "cpus": 0.25 * 1_300,
        "gpus_and_cpus": 0.25 * 1_300,
        "no_gpu_no_cpus": 0.5 * 1_300,
    }
    assert measure.of(free) == 1_300


def check(workload: str, policy: str, seed: int) -> None:
    """Compare both curves with the authors', all loads."""
    curve = replay(read_nodes(DATA), read_tasks(DATA, workload), policy, seed)
    pairs = (
        (curve.allocation(), published(DATA, "allo", workload, policy)[seed]),
        (curve.fragmentation(), published(DATA, "frag", workload, policy)[seed]),
    )
    for ours, theirs in pairs:
        assert len(theirs) > 120
        if policy == "random":
            # They draw from nodes in the order in which their threads found them.
            assert all(abs(ours[load] - theirs[load]) < 2 for load in theirs)
        else:
            assert {load: ours[load] for load in theirs} == theirs


@are_here
def test_curves_are_the_published_ones() -> None:
    check("default", "fgd", 42)


@are_here
@pytest.mark.slow
@pytest.mark.parametrize("workload", LISTS)
@pytest.mark.parametrize("policy", POLICIES)
def test_every_curve_is_the_published_one(workload: str, policy: str) -> None:
    for seed in (42, 43):
        check(workload, policy, seed)
