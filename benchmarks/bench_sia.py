"""Time Sia's rounds: the integer program, and the whole round with placing and checks, on one core.

    python benchmarks/bench_sia.py [--cases 160:64,1000:1000] [--seeds 5] [--goodput 0.8]

JOBS:GPUS of three models, a third of the nodes each, with 4 GPUs a node up to 64 GPUs and 8 beyond. Of the
jobs 70 % are elastic, of 1 to 64 GPUs, and `--goodput` of these were measured on one model and are projected
to the others by a ratio; the rest are rigid, of 1, 2, 4 and 8 GPUs. They are up to 8 hours old. Three rounds,
a minute apart; the first is from nothing.

- *program*: goodputs of all configurations and the solver. *round*: everything from snapshot to plan.
- *gap*: how far the value of what was chosen is below that of the program in which jobs may have parts of
  configurations, which is an upper bound; *rounding*: the same of the greedy rounding, used where no
  solution is found in time.
- *used*: GPUs given by the plan.

Times are of the wall clock, medians over the seeds; the worst after them.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from machine import describe_machine

sys.path.insert(0, str(Path(__file__).parent.parent))

from scheduler.core.model.snapshot import ADAPTIVE, Job, Snapshot
from scheduler.core.model.training import Goodput
from scheduler.core.policies.sia import policy, program
from scheduler.core.round.decide import decide
from tests.builders import NOW, make_job, make_node, make_snapshot, make_virtual_cluster
from tests.core.virtual_loop import VirtualLoop

MODELS = {"A100": 1.0, "V100": 0.45, "T4": 0.2}
ROUNDS = 3


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", default="160:64,1000:1000")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--goodput", type=float, default=0.8, help="part of the elastic jobs that was measured"
    )
    options = parser.parse_args()
    print(describe_machine())
    print(
        "  jobs  GPUs  round  configurations   program (worst)       round (worst)      gap (worst)"
        "  rounding (worst)   used"
    )
    for case in options.cases.split(","):
        jobs, gpus = map(int, case.split(":"))
        runs = [measure(jobs, gpus, seed, options.goodput) for seed in range(options.seeds)]
        for number in range(ROUNDS):
            columns = np.array([run[number] for run in runs]).T
            choices, solved, whole, gap, rounding, used = np.median(columns, axis=1)
            worst = columns.max(axis=1)
            print(
                f"{jobs:6} {gpus:5} {number + 1:6} {choices:15.0f} {solved:7.2f} s ({worst[1]:5.2f} s)"
                f" {whole:8.2f} s ({worst[2]:5.2f} s) {gap:8.4%} ({worst[3]:.4%})"
                f" {rounding:8.3%} ({worst[4]:.3%}) {used:6.0f}",
                flush=True,
            )


def measure(jobs: int, gpus: int, seed: int, measured: float) -> list[tuple[float, ...]]:
    """Return for each round: configurations, seconds of the program and of the round, gaps, GPUs used."""
    loop = VirtualLoop(make_world(jobs, gpus, seed, measured), dict.fromkeys(range(1, jobs + 1), 1e9))
    rows: list[tuple[float, ...]] = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        plan = decide(loop.snapshot)
        whole = time.perf_counter() - began
        assert not plan.degraded
        choices, seconds, gap, rounding = looked_at(loop.snapshot)
        # The policy decides at every second of the loop's rounds.
        loop.step()
        loop.step()
        used = sum(len(held.gpus) for held in loop.snapshot.running if not held.stopping)
        rows.append((choices, seconds, whole, gap, rounding, used))
    return rows


def looked_at(snapshot: Snapshot) -> tuple[float, float, float, float]:
    """Return configurations, seconds of the program, and both gaps, of a round that is decided for it."""
    found: list[float] = []
    solve = program._solve

    def timed(*arguments: Any) -> tuple[int, ...]:
        began = time.perf_counter()
        program.choose(*arguments)
        found.append(time.perf_counter() - began)
        program._solve = watched
        try:
            return program.choose(*arguments)
        finally:
            program._solve = solve

    def watched(choices: Any, room: Any, limit: float) -> list[int]:
        taken = solve(choices, room, limit)
        relaxed = program._maximise(choices, room, limit, whole=False)
        assert relaxed is not None
        bound = float(choices.gain @ relaxed[0])
        rounded = program.rounding(choices, room, relaxed[0])
        gaps = [1 - float(choices.gain[entries].sum()) / bound for entries in (taken, rounded)]
        found.extend([len(choices), *gaps])
        return taken

    setattr(policy, "choose", timed)  # noqa: B010
    try:
        decide(snapshot)
    finally:
        setattr(policy, "choose", program.choose)  # noqa: B010
    seconds, choices, gap, rounding = found
    return choices, seconds, gap, rounding


def make_world(jobs: int, gpus: int, seed: int, measured: float) -> Snapshot:
    """All in one virtual cluster; rounds of the loop are half of the policy's."""
    dice = random.Random(seed)
    each = 4 if gpus <= 64 else 8
    nodes = [
        make_node(number, gpus=each, gpu_model=list(MODELS)[number % 3], rack=f"rack-{number // 8}")
        for number in range(1, gpus // each + 1)
    ]
    guaranteed = {model: sum(len(node.gpus) for node in nodes if node.gpu_model == model) for model in MODELS}
    return make_snapshot(
        nodes=nodes,
        jobs=[make_work(number, dice, measured) for number in range(1, jobs + 1)],
        virtual_clusters=[make_virtual_cluster(guaranteed=guaranteed, policy="sia")],
        round_seconds=30.0,
    )


def make_work(number: int, dice: random.Random, measured: float) -> Job:
    speeds = {model: 100.0 * speed * dice.uniform(0.7, 1.4) for model, speed in MODELS.items()}
    fields: dict[str, Any] = {"throughput": speeds, "submitted_at": NOW - dice.uniform(0, 8 * 3600)}
    if dice.random() >= 0.7:
        return make_job(number, 1, replicas=dice.choice((1, 1, 1, 2, 4, 8)), **fields)
    job = make_job(number, 1, elastic=(1, 64), elastic_mode=ADAPTIVE, attempts=dice.randrange(6), **fields)
    if dice.random() >= measured:
        return job
    batch = dice.choice((32, 64, 128))
    compute = dice.uniform(0.5e-3, 4e-3)
    link, far = dice.uniform(0.005, 0.05), dice.uniform(0.02, 0.2)
    parameters = (dice.uniform(0, 0.02), compute, far, far / 50, link, link / 50, dice.uniform(1, 4))
    goodput = Goodput(
        parameters={dice.choice(list(MODELS)): parameters},
        noise=(1.0, 10 ** dice.uniform(-1, 3)),
        initial_batch=batch,
        max_batch=batch * dice.choice((8, 32, 128)),
        max_local_batch=batch * 2,
        most_replicas=dice.choice((1, 2, 4, 8, 16, 32)),
    )
    return replace(job, goodput=goodput)


if __name__ == "__main__":
    main()
