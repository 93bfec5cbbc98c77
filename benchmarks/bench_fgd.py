"""Replay the experiment of fragmentation gradient descent and compare with what its authors published.

    python benchmarks/bench_fgd.py [--seeds 42 43 44] [--workload default] [--data ../shared/data/openb]

Q. Weng et al., USENIX ATC 2023, figure 7: the tasks of the openb trace arrive in a shuffled order at 1,213
nodes with 6,212 GPUs and never leave. Copies of randomly drawn tasks are added until they ask for 130 % of
the GPUs; printed is what part of the GPUs is not allocated when tasks for 100 % have arrived (a task that
fits nowhere is dropped).

Schedulers, as in the authors' simulator: *FGD* (`core/fitting/fragmentation.py`); *BestFit*: least is left,
CPUs and GPUs in parts of the largest node counting half each, truncated to whole percents; *Random*: any node
that holds the task. A task that shares a GPU gets the one that FGD scores best, the fullest that suffices,
or any.

It ends with the time of one placement by each placer of the registry on nodes like those, all of them half
full.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from machine import describe_machine

from scheduler.core.fitting.fragmentation import WHOLE, Ask, Fragmentation, Free, frequent, runs_on
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

POLICIES = {"FGD": "06-FGD", "BestFit": "05-BestFit", "Random": "01-Random"}

#: What a task does to a node: a score, and what is left; None when it cannot run there.
Score = Callable[[Free, Ask], tuple[float, Free] | None]


@dataclass
class Scores:
    """The scores of one kind of task on every node; only nodes that changed are scored again."""

    values: list[float]
    seen: int = 0
    stale: set[int] = field(default_factory=set)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[42, 43, 44])
    parser.add_argument("--workload", default="default")
    data = Path(__file__).resolve().parents[2] / "shared" / "data" / "openb"
    parser.add_argument("--data", type=Path, default=data)
    options = parser.parse_args()
    print(describe_machine())
    if not options.data.exists():
        print(f"nothing to replay: the openb trace is not at {options.data}")
        return
    nodes, tasks = read_nodes(options.data), read_tasks(options.data, options.workload)
    print(
        f"{len(nodes)} nodes, {sum(len(node.shares) for node in nodes)} GPUs, {len(tasks)} tasks in the list"
    )
    for name, label in POLICIES.items():
        runs = [replay(name, nodes, tasks, seed) for seed in options.seeds]
        ours = [unallocated for unallocated, _ in runs]
        theirs = published(options.data, options.workload, label)
        print(
            f"{name:8} unallocated at 100 % arrived: {statistics.mean(ours):5.2f} %"
            f"  (runs {' '.join(f'{value:.2f}' for value in ours)})"
            f"  published {statistics.mean(theirs):5.2f} % ({min(theirs):.2f} to {max(theirs):.2f},"
            f" {len(theirs)} runs)  {statistics.mean([seconds for _, seconds in runs]):.1f} s a run"
        )
    time_placers(nodes)


def replay(name: str, nodes: list[Free], tasks: list[Ask], seed: int) -> tuple[float, float]:
    """Return the GPUs not allocated when tasks for all of them have arrived, in percent, and the seconds."""
    dice = random.Random(seed)
    total = sum(len(node.shares) for node in nodes) * WHOLE
    arriving, asked = list(tasks), sum(task.gpus * task.share for task in tasks)
    while asked < 1.3 * total:
        arriving.append(dice.choice(tasks))
        asked += arriving[-1].gpus * arriving[-1].share
    dice.shuffle(arriving)
    state = dice.sample(nodes, len(nodes))
    began = time.process_time()
    if name == "Random":
        allocated = fill_at_random(state, arriving, total, dice)
    else:
        allocated = fill_by_score(state, arriving, total, scorer(name, tasks, nodes))
    return 100 * (1 - allocated / total), time.process_time() - began


def scorer(name: str, tasks: list[Ask], nodes: list[Free]) -> Score:
    if name == "FGD":
        return Fragmentation(frequent(Counter(tasks))).best
    cpus = max(node.cpus for node in nodes)
    gpus = max(len(node.shares) for node in nodes) * WHOLE

    def best_fit(free: Free, ask: Ask) -> tuple[float, Free] | None:
        if not runs_on(free, ask):
            return None
        after = taken(free, ask, lambda shares: min(shares, key=lambda gpu: (free.shares[gpu], gpu)))
        left = after.cpus / cpus / 2 + sum(after.shares) / gpus / 2
        return int(100 * (1 - left)), after

    return best_fit


def taken(free: Free, ask: Ask, choose: Callable[[list[int]], int]) -> Free:
    """Return what a task leaves of a node that it runs on."""
    shares = list(free.shares)
    able = [gpu for gpu, share in enumerate(shares) if share >= ask.share]
    chosen = [choose(able)] if ask.gpus == 1 and ask.share < WHOLE else able[: ask.gpus]
    for gpu in chosen:
        shares[gpu] -= ask.share
    return Free(free.model, free.cpus - ask.cpus, tuple(shares))


def fill_by_score(state: list[Free], arriving: list[Ask], total: int, score: Score) -> int:
    """Place each task on the first node of the highest score; return what is allocated."""
    known: dict[Ask, Scores] = {}
    changes: list[int] = []
    allocated = arrived = 0
    for ask in arriving:
        if arrived >= total:
            break
        arrived += ask.gpus * ask.share
        if ask not in known:
            known[ask] = Scores([-1.0] * len(state), len(changes), set(range(len(state))))
        scores = known[ask]
        scores.stale.update(changes[scores.seen :])
        scores.seen = len(changes)
        for node in scores.stale:
            found = score(state[node], ask)
            scores.values[node] = -1.0 if found is None else found[0]
        scores.stale.clear()
        best = max(scores.values)
        if best >= 0:
            node = scores.values.index(best)
            found = score(state[node], ask)
            assert found is not None
            state[node] = found[1]
            changes.append(node)
            allocated += ask.gpus * ask.share
    return allocated


def fill_at_random(state: list[Free], arriving: list[Ask], total: int, dice: random.Random) -> int:
    allocated = arrived = 0
    for ask in arriving:
        if arrived >= total:
            break
        arrived += ask.gpus * ask.share
        fitting = [node for node, free in enumerate(state) if runs_on(free, ask)]
        if fitting:
            node = dice.choice(fitting)
            state[node] = taken(state[node], ask, dice.choice)
            allocated += ask.gpus * ask.share
    return allocated


def read_nodes(data: Path) -> list[Free]:
    with (data / "openb_node_list_gpu_node.csv").open() as rows:
        return [
            Free(row["model"], float(row["cpu_milli"]), (WHOLE,) * int(row["gpu"]))
            for row in csv.DictReader(rows)
        ]


def read_tasks(data: Path, workload: str) -> list[Ask]:
    path = data / f"openb_pod_list_{workload}.csv"
    text = path.read_text() if path.exists() else gzip.decompress(Path(f"{path}.gz").read_bytes()).decode()
    return [
        Ask(
            gpus=int(row["num_gpu"]),
            cpus=float(row["cpu_milli"]),
            share=int(row["gpu_milli"]) if int(row["num_gpu"]) else 0,
            models=frozenset(filter(None, (row.get("gpu_spec") or "").split("|"))),
        )
        for row in csv.DictReader(text.splitlines())
    ]


def published(data: Path, workload: str, label: str) -> list[float]:
    """Return the percentages of the authors' runs."""
    with gzip.open(data / "published" / "analysis_allo_discrete.csv.gz", "rt") as rows:
        return [
            100 - float(row["100"])
            for row in csv.DictReader(rows)
            if row["workload"] == f"openb_pod_list_{workload}" and row["sc_policy"] == label
        ]


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
