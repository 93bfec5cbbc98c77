"""Fragmentation gradient descent: its authors' curves again, and how fast it places.

    python benchmarks/bench_fgd.py [--workloads default gpushare40] [--seeds 42 43] [--data DATA/openb]
    python benchmarks/bench_fgd.py --simulate [--base COMMIT] [--runs 3]

Q. Weng et al., USENIX ATC 2023, figures 7, 9 and 11 to 14: the tasks of the openb lists arrive in a shuffled
order at 1,213 nodes with 6,212 GPUs and never leave; copies of some are added until they ask for 130 % of the
GPUs. Three parts:

- *curves*: each policy in the published simulator's own order of tasks and nodes (its random numbers): GPUs
  not allocated when tasks for all of them have arrived, the largest difference from the authors' curves of
  allocation and fragmentation over all loads, in points, and processor time;
- *speed*: 10,000 tasks that ask for a part of a GPU, drawn from the default list, by `fgd` on the nodes;
  beside it the plain form, which scores every node anew for every task, on the first of them, in processor
  time a task, and as a ratio;
- *placers*: the time of one placement by each placer of the registry on nodes like those, half full.

With --simulate instead: those 10,000 tasks, all at once, through `manage.py simulate --placer fgd`. It prints
the processor time of the whole command, reading and reporting included. Unless given, COMMIT is that of
`scripts.pairs`; both trees take turns, and the last line says whether their records are the same.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from machine import describe_machine

from benchmarks.reproduction.openb.go_random import GoRandom
from benchmarks.reproduction.openb.lists import write_nodes, write_tasks
from benchmarks.reproduction.openb.replay import POLICIES, NodeState, Replay, published
from benchmarks.reproduction.openb.replay import replay as run_again
from benchmarks.reproduction.openb.workload import (
    OpenbNode,
    OpenbTask,
    read_nodes,
    read_tasks,
    typical,
)
from scheduler.core.fitting.fragmentation import WHOLE, Ask, Free, fragment, score
from scheduler.core.model.plan import ActionKind
from scheduler.core.model.snapshot import (
    AllocationId,
    Gpu,
    GpuId,
    Job,
    JobId,
    Member,
    Node,
    NodeId,
    Running,
    Snapshot,
    Task,
    Tenant,
    VirtualCluster,
)
from scheduler.core.round.decide import decide
from scheduler.core.round.registry import PLACERS
from scripts.pairs import ROOT, checked_out, default_base

TASKS = 10_000


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[42, 43])
    parser.add_argument("--workloads", nargs="+", default=["default"])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--plain", type=int, default=20, metavar="TASKS")
    data = Path(__file__).resolve().parents[2] / "shared" / "data" / "openb"
    parser.add_argument("--data", type=Path, default=data)
    parser.add_argument("--simulate", action="store_true", help="the command, instead of these parts")
    parser.add_argument(
        "--base", metavar="COMMIT", default=default_base(), help="to compare the command with"
    )
    options = parser.parse_args()
    print(describe_machine())
    if not options.data.exists():
        print(f"nothing to replay: the openb trace is not at {options.data}")
        return
    nodes = read_nodes(options.data)
    print(f"{len(nodes)} nodes, {sum(node.gpus for node in nodes)} GPUs")
    if options.simulate:
        simulate(nodes, read_tasks(options.data, "default"), options.runs, options.base)
        return
    for workload in options.workloads:
        for policy in POLICIES:
            compare(options.data, nodes, workload, policy, options.seeds)
    time_parts(nodes, read_tasks(options.data, "default"), options.runs, options.plain)
    time_placers([Free(node.model, node.cpu_milli, (WHOLE,) * node.gpus) for node in nodes])


def compare(data: Path, nodes: Sequence[OpenbNode], workload: str, policy: str, seeds: Sequence[int]) -> None:
    tasks = read_tasks(data, workload)
    theirs = {kind: published(data, kind, workload, policy) for kind in ("allo", "frag")}
    unallocated, apart, seconds = [], {"allo": 0.0, "frag": 0.0}, []
    for seed in seeds:
        began = time.process_time()
        curve = run_again(nodes, tasks, policy, seed)
        seconds.append(time.process_time() - began)
        ours = {"allo": curve.allocation(), "frag": curve.fragmentation()}
        unallocated.append(100 - ours["allo"][100])
        for kind, curves in theirs.items():
            points = [abs(ours[kind][load] - value) for load, value in curves.get(seed, {}).items()]
            apart[kind] = max([apart[kind], *points])
    known = "not published" if not theirs["allo"] else "most apart"
    print(
        f"{workload:12} {policy:12} unallocated {' '.join(f'{value:.2f}' for value in unallocated)} %"
        f"  {known}: allocation {apart['allo']:.2f}, fragmentation {apart['frag']:.2f}"
        f"  {statistics.mean(seconds):.2f} s a run"
    )


def simulate(nodes: Sequence[OpenbNode], tasks: Sequence[OpenbTask], runs: int, base: str | None) -> None:
    """Time the command on parts of GPUs, by turns with that of a commit."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        write_nodes(folder / "nodes.csv", nodes)
        write_tasks(folder / "tasks.csv", parts_of(tasks, GoRandom(42)), apart_seconds=0, until=3_600)
        trees = {"now": ROOT}
        if base is not None:
            trees[base[:8]] = stack.enter_context(checked_out(base))
        seconds: dict[str, list[float]] = {name: [] for name in trees}
        records = {}
        for _ in range(runs):
            for name, tree in trees.items():
                spent, records[name] = command(tree, folder)
                seconds[name].append(spent)
        print(f"load {' '.join(f'{each:.1f}' for each in os.getloadavg())}")
    for name, runs_of in seconds.items():
        started = sum(at == 0 for at in records[name]["first_started_at"])
        print(
            f"simulate, {TASKS} parts of GPUs at once by fgd, {name}: {started} start at once,"
            f" {' '.join(f'{each:.1f}' for each in runs_of)} s of processor time, best {min(runs_of):.1f} s"
        )
    if len(records) > 1:
        first, *others = records.values()
        print(f"the same records: {all(each == first for each in others)}")


def command(tree: Path, folder: Path) -> tuple[float, dict[str, list[float]]]:
    """Run the command of a tree; return its processor seconds and the records of its jobs."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        (
            *(sys.executable, "manage.py", "simulate", "--quiet", "--trace", folder / "tasks.csv"),
            *("--format", "alibaba-gpu-v2023", "--cluster", folder / "nodes.csv", "--placer", "fgd"),
            *("--jobs", "--json", folder / "out.json"),
        ),
        cwd=tree,
        env=os.environ | {"PYTHONPATH": f"{tree}{os.pathsep}{tree / 'platform'}"},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    (policy,) = json.loads((folder / "out.json").read_bytes())["policies"]
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, policy["job_records"]


def parts_of(tasks: Sequence[OpenbTask], dice: GoRandom) -> list[OpenbTask]:
    """Draw tasks that ask for a part of a GPU."""
    parts = [task for task in tasks if task.ask.gpus == 1 and task.ask.share < WHOLE]
    return [parts[dice.below(len(parts))] for _ in range(TASKS)]


def time_parts(nodes: Sequence[OpenbNode], tasks: Sequence[OpenbTask], runs: int, plain: int) -> None:
    """Time tasks of parts of GPUs by `fgd`, and the plain form on the first `plain` of them."""
    dice, workload = GoRandom(42), typical(tasks)
    arriving = parts_of(tasks, dice)
    seconds, first = [], list[int | None]()
    for _ in range(runs):
        began = time.process_time()
        cluster = Replay(nodes, workload, "fgd", dice)
        places = [cluster.place(task) for task in arriving]
        seconds.append(time.process_time() - began)
        first = places[:plain]
    held = sum(place is not None for place in places)
    print(
        f"fgd: {TASKS} parts of GPUs, {held} placed: {' '.join(f'{each:.2f}' for each in seconds)} s"
        f" of processor time, median {statistics.median(seconds):.2f} s"
    )
    cluster = Replay(nodes, workload, "best_fit", dice)
    began = time.process_time()
    same = [plainly(cluster.nodes, task, workload) for task in arriving[:plain]] == first
    slow = (time.process_time() - began) / plain
    fast = statistics.median(seconds) / TASKS
    print(
        f"plain form, first {plain} tasks: {1e3 * slow:.0f} ms a task, {slow / fast:.0f} times as long as"
        f" {1e3 * fast:.2f} ms; the same nodes: {same}"
    )


def plainly(nodes: Sequence[NodeState], task: OpenbTask, workload: Sequence[tuple[Ask, float]]) -> int | None:
    """Place a part of a GPU by the definition: every GPU of every node, every class of task."""
    best, chosen, gpu = -1, None, 0
    for at, node in enumerate(nodes):
        if not node.holds(task):
            continue
        before = expected(Free(node.model, node.cpus, tuple(node.shares)), workload)
        for index, share in enumerate(node.shares):
            if share < task.ask.share:
                continue
            left = (*node.shares[:index], share - task.ask.share, *node.shares[index + 1 :])
            points = score(before - expected(Free(node.model, node.cpus - task.ask.cpus, left), workload))
            if points > best:
                best, chosen, gpu = points, at, index
    if chosen is not None:
        nodes[chosen].shares[gpu] -= task.ask.share
        nodes[chosen].cpus -= int(task.ask.cpus)
        nodes[chosen].memory -= task.memory_mib
    return chosen


def expected(free: Free, workload: Sequence[tuple[Ask, float]]) -> float:
    return sum([often * fragment(free, ask) for ask, often in workload])


def time_placers(free: list[Free], starts: int = 20) -> None:
    """Time a round that places `starts` gangs of two GPUs, less one that places none."""
    nodes = tuple(
        Node(
            id=NodeId(number),
            name=f"node-{number:04d}",
            gpu_model=node.model,
            path=(f"rack-{number // 40:02d}",),
            cpus=node.cpus,
            gpus=tuple(Gpu(id=GpuId(100 * number + index), index=index) for index in range(len(node.shares))),
        )
        for number, node in enumerate(free, start=1)
    )
    busy = [
        Running(
            allocation=AllocationId(node.id),
            jobs=(JobId(node.id),),
            gpu_model=node.gpu_model,
            replicas=(tuple(gpu.id for gpu in node.gpus[: len(node.gpus) // 2]),),
            guaranteed=False,
        )
        for node in nodes
    ]
    jobs = [job(running.jobs[0], len(running.replicas[0])) for running in busy]
    waiting = [job(JobId(10_000 + number), 2) for number in range(starts)]
    for name in sorted(PLACERS):
        idle = Snapshot(
            round_number=1,
            now=1e6,
            round_seconds=5.0,
            nodes=nodes,
            jobs=tuple(jobs),
            running=tuple(busy),
            tenants=(Tenant(name="tenant"),),
            virtual_clusters=(VirtualCluster(name="research", members=(Member(tenant="tenant"),)),),
            spare_placer=name,
        )
        without, _ = time_round(idle)
        seconds, placed = time_round(replace(idle, jobs=(*jobs, *waiting)))
        print(f"{name:12} {1e3 * (seconds - without) / max(placed, 1):6.2f} ms a placement ({placed} placed)")


def time_round(snapshot: Snapshot) -> tuple[float, int]:
    """Return the least seconds of five rounds, and how many jobs start."""
    runs = []
    for _ in range(5):
        began = time.process_time()
        plan = decide(snapshot)
        runs.append(time.process_time() - began)
    return min(runs), sum(action.kind is ActionKind.START for action in plan.actions)


def job(number: JobId, gpus: int) -> Job:
    return Job(
        id=number,
        tenant="tenant",
        virtual_cluster="research",
        submitted_at=0.0,
        guaranteed=False,
        tasks=(Task(replicas=1, gpus=gpus, cpus=1.0),),
    )


if __name__ == "__main__":
    main()
