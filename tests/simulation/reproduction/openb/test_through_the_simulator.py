"""Published lists, and small ones like them, come out of the simulator as their own simulator is replayed:
parts of GPUs, tasks without GPUs, CPUs and memory, task by task and node by node."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

import pytest

from benchmarks.reproduction.openb.go_random import GoRandom
from benchmarks.reproduction.openb.lists import FOR_EVER, placer_with, write_nodes, write_tasks
from benchmarks.reproduction.openb.replay import Curve, Replay, published
from benchmarks.reproduction.openb.workload import (
    OpenbNode,
    OpenbTask,
    arrivals,
    read_nodes,
    read_tasks,
    typical,
)
from scheduler.core.fitting.fragmentation import WHOLE, Ask
from scheduler.core.model.plan import Plan
from scheduler.core.round.run_view import ViewOutcome
from scheduler.core.sim.engine import Engine
from scheduler.core.sim.result import Result
from scheduler.simulation.command import main
from scheduler.simulation.run import simulate
from scheduler.simulation.sweep import Case, prepare
from tests.effort import first_every_day

DATA = Path(__file__).resolve().parents[5] / "shared" / "data" / "openb"
are_here = pytest.mark.skipif(not DATA.is_dir(), reason="the published openb lists are not in ../shared/data")
#: A task that finds no place is passed by, as there. The backfill of fifo would keep a place for the first.
POLICY = "sjf"
PLACERS = ("fgd", "best_fit", "dot_product", "clustering", "packing")


def simulated(folder: Path, nodes: Sequence[OpenbNode], tasks: Sequence[OpenbTask], placer: str) -> Result:
    """Run the tasks through the simulator until the last one has arrived."""
    case = Case(
        trace=str(write_tasks(folder / "tasks.csv", tasks)),
        format="alibaba-gpu-v2023",
        cluster=str(write_nodes(folder / "nodes.csv", nodes)),
        policy=POLICY,
        placer=placer,
        round_seconds=0,
    )
    now = [0.0]

    def on_round(engine: Engine, outcomes: Sequence[ViewOutcome], plan: Plan) -> None:
        now[0] = engine.now

    result = simulate(
        prepare(case).experiment, on_round=on_round, is_interrupted=lambda: now[0] >= len(tasks) - 1
    )
    assert not result.degraded
    return result


def nodes_of(result: Result, nodes: Sequence[OpenbNode]) -> Mapping[int, str]:
    """Return the node of each task that was placed."""
    assert all(stay.started_at == stay.job - 1 for stay in result.stays), "who waits finds no place later"
    return {stay.job - 1: nodes[stay.nodes[0] - 1].name for stay in result.stays}


def replayed(
    nodes: Sequence[OpenbNode],
    arriving: Sequence[OpenbTask],
    tasks: Sequence[OpenbTask],
    policy: str,
    dice: GoRandom,
) -> Mapping[int, str]:
    """Return the same as the published simulator has it."""
    theirs = Replay(nodes, typical(tasks), policy, dice)
    places = [theirs.place(task) for task in arriving]
    return {number: nodes[place].name for number, place in enumerate(places) if place is not None}


def a_few(seed: int) -> tuple[list[OpenbNode], list[OpenbTask]]:
    """Return nodes of three sizes and tasks of all kinds: parts, whole GPUs, several, none at all."""
    dice = Random(seed)
    machines = (("T4", 128_000, 393_216), ("P100", 64_000, 262_144))
    nodes = [
        OpenbNode(f"node-{number:02}", *dice.choice(machines), gpus)
        for number, gpus in enumerate(dice.choices((2, 2, 8), k=18))
    ]
    nodes.append(OpenbNode("node-99", "", 94_000, 262_144, 0))
    asks = [
        (Ask(0, cpus, 0), memory, "") for cpus, memory in ((5_800, 15_360), (11_300, 8_192), (21_700, 60_000))
    ]
    asks += [
        (Ask(1, cpus, share, frozenset(filter(None, models.split("|")))), 12_288, models)
        for cpus, share, models in (
            (3_152, 230, ""),
            (6_700, 460, "T4"),
            (4_100, 810, ""),
            (8_900, 1_000, ""),
        )
    ]
    asks += [(Ask(2, 11_900, WHOLE), 32_768, ""), (Ask(8, 63_000, WHOLE, frozenset({"T4"})), 131_072, "T4")]
    return nodes, [OpenbTask(*each) for each in dice.choices(asks, (3, 2, 1, 4, 4, 3, 3, 2, 1), k=220)]


@pytest.mark.parametrize("placer", PLACERS)
def test_a_small_list_comes_out_as_it_is_replayed(tmp_path: Path, placer: str) -> None:
    nodes, tasks = a_few(7)
    dice = GoRandom(42)
    arriving, ordered = arrivals(tasks, nodes, dice)
    wanted = replayed(ordered, arriving, tasks, placer, dice)
    result = simulated(tmp_path, ordered, arriving, placer_with(placer, tasks))
    assert nodes_of(result, ordered) == wanted
    # Some of each kind found a place, and not everyone did.
    kinds = Counter(arriving[number].ask.gpus for number in wanted)
    assert min(kinds[gpus] for gpus in (0, 1, 2)) > 0
    assert len(wanted) < len(arriving)


def commanded(
    folder: Path, nodes: Sequence[OpenbNode], arriving: Sequence[OpenbTask], placer: str
) -> Mapping[int, str]:
    """Return the node of each task that starts when it arrives, as `manage.py simulate` writes it."""
    trace, cluster = write_tasks(folder / "tasks.csv", arriving), write_nodes(folder / "nodes.csv", nodes)
    what = ("--trace", str(trace), "--format", "alibaba-gpu-v2023", "--cluster", str(cluster), "--quiet")
    how = (
        "--policy",
        POLICY,
        "--placer",
        placer,
        "--round-seconds",
        "0",
        "--jobs",
        "--json",
        str(folder / "out.json"),
    )
    assert main([*what, *how]) == 0
    (policy,) = json.loads((folder / "out.json").read_bytes())["policies"]
    stays = policy["stays"]
    rows = zip(stays["job"], stays["started_at"], stays["nodes"], strict=True)
    # The command runs to the end of all jobs: those for which there is no place start when others leave.
    early = [(job - 1, at, node) for job, at, (node,) in rows if at < FOR_EVER]
    assert all(at == task for task, at, _ in early), "who waits finds no place before others leave"
    return {task: node for task, _, node in early}


@are_here
@pytest.mark.slow
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("placer", PLACERS)
def test_the_command_writes_the_same_nodes_of_a_whole_list(tmp_path: Path, placer: str) -> None:
    tasks, nodes = read_tasks(DATA, "default"), read_nodes(DATA)
    dice = GoRandom(42)
    arriving, ordered = arrivals(tasks, nodes, dice)
    wanted = replayed(ordered, arriving, tasks, placer, dice)
    assert commanded(tmp_path, ordered, arriving, placer_with(placer, tasks)) == wanted
    assert len(wanted) > 6_000


@are_here
@pytest.mark.parametrize("workload", first_every_day(["default", "gpushare40", "cpu050", "gpuspec33"], 1))
@pytest.mark.parametrize("placer", first_every_day(PLACERS, 1))
def test_published_lists_come_out_as_they_are_replayed(tmp_path: Path, placer: str, workload: str) -> None:
    # Every twelfth node, filled beyond saturation.
    tasks, nodes = read_tasks(DATA, workload)[::12], read_nodes(DATA)[::12]
    dice = GoRandom(42)
    arriving, ordered = arrivals(tasks, nodes, dice)
    wanted = replayed(ordered, arriving, tasks, placer, dice)
    result = simulated(tmp_path, ordered, arriving, placer_with(placer, tasks))
    assert nodes_of(result, ordered) == wanted


@are_here
@pytest.mark.slow
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("seed", [42, 43])
@pytest.mark.parametrize("placer", PLACERS)
def test_whole_lists_give_the_published_curves(tmp_path: Path, placer: str, seed: int) -> None:
    tasks, nodes = read_tasks(DATA, "default"), read_nodes(DATA)
    arriving, ordered = arrivals(tasks, nodes, GoRandom(seed))
    places = nodes_of(simulated(tmp_path, ordered, arriving, placer_with(placer, tasks)), ordered)
    requested, held = 0, 0
    arrived, allocated = list[int](), list[int]()
    for number, task in enumerate(arriving):
        requested += task.gpu_milli
        held += task.gpu_milli if number in places else 0
        arrived.append(requested)
        allocated.append(held)
    curve = Curve(sum([node.gpus for node in nodes]), arrived, allocated, [], len(places)).allocation()
    theirs = published(DATA, "allo", "default", placer)[seed]
    assert len(theirs) > 120
    assert {load: curve[load] for load in theirs} == theirs
