"""Time AlloX: its matching beside the one that the paper writes down, its rounds, and how both grow.

    python benchmarks/bench_allox.py [--runs 5] [--jobs 1024] [--lanes 100] [--growth 10000] [--seed 0]

- *matching*: `scheduler.core.policies.allox.matching` for so many jobs on three GPU models with so many GPUs
  each, once all idle and once nearly all busy until instants of their own. Beside it, in the same run and on
  the same numbers, the straightforward formulation: a full matrix of jobs by (GPU, position from the end),
  each GPU with as many positions as there are jobs. That is jobs x GPUs x jobs large, so it is run on an
  eighth of the jobs and a tenth of the GPUs, and on the whole only as far as memory goes; the ratio is of
  equal instances. Both costs are compared: the collapsed one is exact on idle GPUs and as close as printed on
  busy ones.
- *round*: one `decide()` of the policy, window included, while more and more jobs wait.

Times are of one core's processor time.
"""

from __future__ import annotations

import argparse
import heapq
import random
import statistics
import time
from collections.abc import Callable

import numpy as np
from machine import describe_machine
from scipy.optimize import linear_sum_assignment

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
    VirtualCluster,
)
from scheduler.core.policies.allox.matching import Floats, Matching, match
from scheduler.core.round.decide import decide

MODELS = ("K80", "P100", "V100")
NOW = 1_700_000_000.0
#: Bytes of a full matrix that this machine is asked for at most.
MOST_BYTES = 2 * 2**30


def make_instance(jobs: int, lanes: int, busy: float, seed: int) -> tuple[Floats, list[Floats]]:
    """Run times by Gavel's generator, up to eight times longer on the slowest model; and the lanes."""
    dice = np.random.default_rng(seed)
    fastest = 60 * 10 ** np.where(
        dice.random(jobs) < 0.8, dice.uniform(1.5, 3, jobs), dice.uniform(3, 4, jobs)
    )
    seconds = fastest[:, None] * dice.uniform(1, 8, (jobs, len(MODELS)))
    free = [
        np.sort(np.where(dice.random(lanes) < busy, 10 ** dice.uniform(2, 5.5, lanes), 0.0)) for _ in MODELS
    ]
    return seconds, free


def match_in_full(seconds: Floats, lanes: list[Floats]) -> float:
    """Solve the matching as written in section 3.1; return its cost."""
    jobs = len(seconds)
    position = np.arange(1, jobs + 1.0)
    costs = np.concatenate(
        [
            (free[None, :, None] + seconds[:, kind, None, None] * position).reshape(jobs, -1)
            for kind, free in enumerate(lanes)
        ],
        axis=1,
    )
    rows, columns = linear_sum_assignment(costs)
    return float(costs[rows, columns].sum())


def sum_of_ends(found: Matching, seconds: Floats, lanes: list[Floats]) -> float:
    """Serve the jobs of each kind, the shortest first, on whichever lane is free: what the plan comes to."""
    total = 0.0
    for kind, free in enumerate(lanes):
        heap = free.tolist()
        heapq.heapify(heap)
        for run in np.sort(seconds[found.kind == kind, kind]).tolist():
            end = heapq.heappop(heap) + run
            heapq.heappush(heap, end)
            total += end
    return total


def timed(work: Callable[[], object], runs: int) -> list[float]:
    taken = []
    for _ in range(runs):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return taken


def solve(seconds: Floats, lanes: list[Floats]) -> Matching:
    return match(seconds, np.zeros_like(seconds), lanes, np.ones(len(seconds)))


def report_matching(jobs: int, lanes: int, busy: float, runs: int, seed: int) -> None:
    seconds, free = make_instance(jobs, lanes, busy, seed)
    taken = timed(lambda: solve(seconds, free), runs)
    print(
        f"  {jobs:6} jobs, 3 x {lanes} GPUs, {busy:4.0%} busy: median {statistics.median(taken):.3f} s   raw "
        + " ".join(f"{run:.3f}" for run in taken),
        flush=True,
    )
    if 8 * jobs * jobs * lanes * len(MODELS) > MOST_BYTES:
        return
    in_full = timed(lambda: match_in_full(seconds, free), min(runs, 3))
    cost, least = sum_of_ends(solve(seconds, free), seconds, free), match_in_full(seconds, free)
    print(
        f"         full matrix: median {statistics.median(in_full):.3f} s, "
        f"{statistics.median(in_full) / statistics.median(taken):.0f} times that; "
        f"cost of ours / of the full one: {cost / least:.6f}",
        flush=True,
    )


def make_snapshot(jobs: int, gpus: int, window: int, seed: int, *, busy: bool) -> Snapshot:
    """One virtual cluster on three models, a few of its GPUs idle or all; 70 % of the jobs want one GPU."""
    dice = random.Random(seed)
    nodes = tuple(
        Node(
            id=NodeId(number),
            name=f"node-{number:05d}",
            gpu_model=MODELS[number % 3],
            gpus=tuple(Gpu(id=GpuId(8 * number + index), index=index) for index in range(8)),
        )
        for number in range(gpus // 8)
    )

    def job(number: int, width: int) -> Job:
        fastest = 10 ** dice.uniform(2, 5)
        return Job(
            id=JobId(number),
            tenant=f"tenant-{number % 10}",
            virtual_cluster="all",
            submitted_at=NOW - dice.uniform(0, 86_400),
            tasks=(Task(replicas=1, gpus=width),),
            estimate_seconds=fastest,
            throughput={"V100": 8.0, "P100": dice.uniform(3, 8), "K80": dice.uniform(1, 4)},
        )

    waiting = [job(number, dice.choices((1, 2, 4, 8), (70, 10, 15, 5))[0]) for number in range(jobs)]
    held = [gpu.id for node in nodes for gpu in node.gpus[:-1]] if busy else []
    holders = [job(jobs + number, 1) for number in range(len(held))]
    model = {gpu.id: node.gpu_model for node in nodes for gpu in node.gpus}
    return Snapshot(
        round_number=1,
        now=NOW,
        round_seconds=5.0,
        nodes=nodes,
        jobs=(*waiting, *holders),
        running=tuple(
            Running(
                allocation=AllocationId(number),
                jobs=(holder.id,),
                gpu_model=model[gpu],
                replicas=((gpu,),),
                since=NOW - dice.uniform(0, 3_600),
            )
            for number, (holder, gpu) in enumerate(zip(holders, held, strict=True))
        ),
        virtual_clusters=(
            VirtualCluster(
                name="all",
                guaranteed={name: sum(8 for node in nodes if node.gpu_model == name) for name in MODELS},
                members=tuple(Member(tenant=f"tenant-{number}") for number in range(10)),
                policy="allox",
                policy_parameters={"window": window},
            ),
        ),
    )


def report_round(jobs: int, gpus: int, window: int, runs: int, seed: int) -> None:
    for name, busy in (("all idle", False), ("one GPU in eight idle", True)):
        snapshot = make_snapshot(jobs, gpus, window, seed, busy=busy)
        plan = decide(snapshot)
        assert not plan.degraded
        taken = timed(lambda snapshot=snapshot: decide(snapshot), runs)
        print(
            f"  {jobs:6} wait, {gpus} GPUs, {name}, window {window}: {len(plan.actions)} start, median "
            f"{statistics.median(taken):.3f} s   raw " + " ".join(f"{run:.3f}" for run in taken),
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1_024)
    parser.add_argument("--lanes", type=int, default=100)
    parser.add_argument("--growth", type=int, default=10_000, help="most jobs that wait in a round")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(describe_machine())
    solve(*make_instance(8, 2, 0.0, 0))  # loads SciPy
    print("matching")
    sizes = sorted({options.jobs // 8, options.jobs // 4, options.jobs // 2, options.jobs})
    for busy in (0.0, 0.95):
        report_matching(options.jobs // 8, options.lanes // 10, busy, options.runs, options.seed)
        for jobs in sizes:
            report_matching(jobs, options.lanes, busy, options.runs, options.seed)
    print("round")
    for jobs in (100, 1_000, options.growth):
        for window in (256, options.jobs):
            report_round(jobs, 960, window, min(options.runs, 3), options.seed)


if __name__ == "__main__":
    main()
