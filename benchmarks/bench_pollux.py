"""Pollux: how long a decision takes, how good it is, and the published workloads run again.

    python benchmarks/bench_pollux.py [--genetic]
    python benchmarks/bench_pollux.py --workloads ../shared/data/pollux [--only 6] [--search genetic]
    python benchmarks/bench_pollux.py --workloads ../shared/data/pollux --engine [--only 6]
    python benchmarks/bench_pollux.py --workloads ../shared/data/pollux --sweeps [--only 6]

- *decisions*: one cycle of policy pollux for 160 jobs on 64 GPUs (16 nodes of four) and 1,000 jobs on 1,000
  GPUs (125 nodes of eight), jobs like those of Pollux's artifact with a speed and noise of their own, six in
  ten of which run: processor time of the whole request (speedups of all sizes, then the search), the fitness
  found, and the most that any allocation could have. With `--genetic` the published search beside ours.
- *workloads*: the eight workloads of the artifact in its own ticks, under its Tiresias and Optimus and our
  Pollux: mean completion times, processor time of everything and of decisions.
- *engine*: the same workloads in the platform's own simulator, rounds of a minute and 30 s for every start,
  under its policies tiresias, optimus (which is told how jobs truly scale) and pollux (what they measured).
- *sweeps*: Pollux at intervals of 30 s to 8 min, and with interference of 0, 25 and 50 % where jobs over
  nodes do not keep apart.
"""

from __future__ import annotations

import os

# Set before NumPy is loaded: threads of a linear algebra library only wait for each other in small problems.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import random
import statistics
import time
from pathlib import Path

from machine import describe_machine

from benchmarks.reproduction.pollux.baselines import Optimus, Tiresias
from benchmarks.reproduction.pollux.pollux import Pollux
from benchmarks.reproduction.pollux.ticks import Outcome, TickPolicy, read_workload, run_ticks
from scheduler.core.building_blocks.elastic.arrangement import Gang, Row
from scheduler.core.goodput.batch import GoodputModel, Limits, Noise
from scheduler.core.goodput.throughput import Parameters
from scheduler.core.policies.pollux.greedy import search
from scheduler.core.policies.pollux.solving import GENETIC, GREEDY, Cycle, solve
from scheduler.simulation.sweep import Case, run_case

#: Seconds of computing, by sample, over nodes, by replica, on one, by replica; overlap. And batches.
KINDS = (
    ((0.02, 0.0005, 0.06, 0.004, 0.02, 0.002, 1.6), (128, 4096, 32, 1024)),
    ((0.10, 0.090, 0.35, 0.020, 0.10, 0.010, 1.3), (12, 384, 4, 12)),
    ((0.15, 0.012, 0.50, 0.010, 0.15, 0.006, 2.0), (200, 12_800, 50, 200)),
    ((0.08, 0.030, 0.80, 0.050, 0.20, 0.020, 1.2), (20, 640, 4, 40)),
)
RUNS = 5
#: Policies in the platform's simulator, what may be done to jobs, and what is known of how they scale.
ENGINE = (
    ("tiresias:thresholds=57600|,pack_limit=1.0,inside=submission", "rigid", "measured"),
    ("optimus:interval_seconds=60", "resizable", "true"),
    ("pollux", "adaptive", "measured"),
)


def cycle(jobs: int, nodes: int, gpus: int, seed: int) -> Cycle:
    """Return a request like that of a policy in the middle of a busy day."""
    dice = random.Random(seed)
    free = [gpus] * nodes
    gangs, models = [], []
    for _ in range(jobs):
        seconds, (initial, largest, least_local, most_local) = dice.choice(KINDS)
        slower = dice.uniform(0.7, 1.4)
        models.append(
            GoodputModel(
                Parameters(*seconds).times(slower),
                Noise(1.0, dice.uniform(1.0, 50.0)),
                Limits(
                    initial_batch=initial,
                    max_batch=largest,
                    min_local_batch=least_local,
                    max_local_batch=most_local,
                ),
            )
        )
        most = dice.choice((2, 4, 8, 16, 32))
        base: Row = {}
        node, size = dice.randrange(nodes), dice.randint(1, min(gpus, most))
        if dice.random() < 0.6 and free[node] >= size:
            base, free[node] = {node: size}, free[node] - size
        gangs.append(Gang(sizes=tuple(range(1, most + 1)), base=base))
    return Cycle(
        room=(gpus,) * nodes,
        limit=gpus * nodes,
        gangs=tuple(gangs),
        models=tuple(models),
        is_rigid=(False,) * jobs,
        ages=tuple([dice.uniform(60.0, 20_000.0) for _ in range(jobs)]),
        restarts=tuple([dice.randint(0, 8) for _ in range(jobs)]),
        weights=(1.0,) * jobs,
        power=-1.0,
        restart_seconds=30.0,
        apart=True,
        most_nodes=16,
    )


def decisions(searches: list[str]) -> None:
    print("jobs  GPUs  search   fitness  of the bound  processor time")
    for jobs, nodes, gpus in ((32, 16, 4), (160, 16, 4), (1000, 125, 8)):
        asked = cycle(jobs, nodes, gpus, seed=jobs)
        problem = asked.problem()
        bound = problem.fitness(search(problem, 1).bound)
        for name in searches:
            seconds = []
            for run in range(RUNS if name == GREEDY else 1):
                began = time.process_time()
                rows = solve(asked, name, seed=run).rows
                seconds.append(time.process_time() - began)
            fitness = problem.fitness(problem.value_of(rows))
            raw = " ".join(f"{each:.3f}" for each in seconds)
            print(
                f"{jobs:5} {nodes * gpus:5}  {name:<8} {fitness:.5f}  {fitness / bound:7.1%}"
                f"       {statistics.median(seconds):.3f} s  ({raw})",
                flush=True,
            )


def run(folder: Path, number: int, policy: TickPolicy, **fields: float) -> Outcome:
    workload = folder / "workloads" / f"workload-{number}.csv"
    jobs = read_workload(workload, folder / "profiles", chooses_batch=policy.chooses_batch)
    return run_ticks(jobs, policy, **fields)  # type: ignore[arg-type]


def told(label: str, outcome: Outcome) -> None:
    print(
        f"{label:<34} {outcome.mean_seconds:10.3f} s  {outcome.restarts:5} restarts"
        f"  {outcome.elapsed_seconds:6.1f} s of processor time, decisions {outcome.decide_seconds:.1f} s",
        flush=True,
    )


def workloads(folder: Path, numbers: list[int], how: str) -> None:
    means: dict[str, list[float]] = {}
    for number in numbers:
        for name, policy in (
            ("tiresias", Tiresias()),
            ("optimus", Optimus()),
            ("pollux", Pollux(search=how)),
        ):
            outcome = run(folder, number, policy)
            means.setdefault(name, []).append(outcome.mean_seconds)
            told(f"workload {number}, {name}", outcome)
    for name, each in means.items():
        print(f"mean of {len(each)}: {name} {statistics.mean(each):.1f} s")


def engine(folder: Path, numbers: list[int]) -> None:
    means: dict[str, list[float]] = {}
    for number in numbers:
        for policy, scaling, goodput in ENGINE:
            result = run_case(
                Case(
                    cluster="t4=64:4",
                    trace=str(folder / "workloads" / f"workload-{number}.csv"),
                    format="pollux",
                    policy=policy,
                    options={"scaling": scaling},
                    goodput=goodput,
                    costs={"start_seconds": 30.0},
                )
            )
            mean = statistics.mean([job.completion_seconds or 0.0 for job in result.jobs])
            means.setdefault(policy, []).append(mean)
            print(
                f"workload {number}, {policy.partition(':')[0]:<10} {mean:10.1f} s"
                f"  {sum(job.attempts for job in result.jobs):5} starts  {result.rounds:5} rounds"
                f"  {result.elapsed_seconds:6.1f} s of processor time,"
                f" decisions {result.decide_seconds:.1f} s",
                flush=True,
            )
    for policy, each in means.items():
        print(f"mean of {len(each)}: {policy} {statistics.mean(each):.1f} s")


def sweeps(folder: Path, numbers: list[int], how: str) -> None:
    for seconds in (30, 60, 120, 240, 480):
        found = [run(folder, each, Pollux(search=how), interval_seconds=seconds) for each in numbers]
        print(
            f"interval {seconds:4} s: {statistics.mean(each.mean_seconds for each in found):8.1f} s",
            flush=True,
        )
    for part in (0.0, 0.25, 0.5):
        found = [run(folder, each, Pollux(search=how, avoid=False), interference=part) for each in numbers]
        mean = statistics.mean(each.mean_seconds for each in found)
        print(f"not kept apart, interference {part:4.0%}: {mean:8.1f} s", flush=True)


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--genetic", action="store_true")
    made.add_argument("--workloads", type=Path)
    made.add_argument("--only", type=int, action="append")
    made.add_argument("--search", choices=(GREEDY, GENETIC), default=GREEDY)
    made.add_argument("--sweeps", action="store_true")
    made.add_argument("--engine", action="store_true")
    given = made.parse_args()
    print(describe_machine())
    numbers = given.only or list(range(1, 9))
    if given.workloads is None:
        decisions([GREEDY, GENETIC] if given.genetic else [GREEDY])
    elif given.engine:
        engine(given.workloads, numbers)
    elif given.sweeps:
        sweeps(given.workloads, numbers, given.search)
    else:
        workloads(given.workloads, numbers, given.search)


if __name__ == "__main__":
    main()
