"""Synergy: how long a round of TUNE and of OPT takes, and its published replay traces run again.

    python benchmarks/bench_synergy.py
    python benchmarks/bench_synergy.py --data ../shared/data/synergy

- *rounds*: processor time of TUNE for jobs of one to eight GPUs, three quarters of which want more CPUs than
  the proportional share, on servers with 8 GPUs, as many as the jobs fill.
- *opt*: wall time of both programs of OPT (HiGHS) for as many such jobs as fill the servers, with ten
  profiles (published models come to that) or one for each job, and the sums of speeds of OPT and TUNE.
- *traces*: mean completion times of the replay traces, by policy and mechanism.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from pathlib import Path

from machine import describe_machine

from benchmarks.reproduction.synergy.jobs import CPUS, MEMORY, read_jobs
from benchmarks.reproduction.synergy.optimal import Profile, divide, optimal
from benchmarks.reproduction.synergy.rounds import MECHANISMS, POLICIES, run
from scheduler.core.building_blocks.auxiliary_shares import Need, Servers, tune

RUNS = 5


def rounds() -> None:
    for jobs in (1_000, 10_000):
        dice = random.Random(jobs)
        needs = [
            Need(
                dice.choice((1, 1, 1, 2, 4, 8)),
                (dice.choice((1, 6, 9, 12)), dice.choice((20.0, 62.5, 125.0))),
            )
            for _ in range(jobs)
        ]
        servers = Servers(sum(need.gpus for need in needs) // 8, 8, 24, 500)
        taken = []
        for _ in range(RUNS):
            began = time.process_time()
            tune(servers, needs)
            taken.append(time.process_time() - began)
        print(f"{jobs:6} jobs  {servers.count:5} servers  {statistics.median(taken):.3f} s", flush=True)


def profile(dice: random.Random, gpus: int) -> Profile:
    """Draw a job's speeds: in proportion to CPUs up to a knee, and memory below a knee costs a part."""
    cpus, memory, slower = dice.choice(CPUS[:8]), dice.choice(MEMORY[:3]), dice.uniform(0.3, 1)
    speeds = [
        [min(has, cpus) / min(3, cpus) * (1 if gb >= memory else slower) for gb in MEMORY] for has in CPUS
    ]
    return Profile.of_matrix(gpus, CPUS, MEMORY, speeds)


def opt() -> None:
    for count in (4, 16, 64):
        for kinds in (10, count * 8):
            dice = random.Random(count + kinds)
            drawn = [profile(dice, dice.choice((1, 1, 1, 2, 4, 8))) for _ in range(kinds)]
            servers, jobs = Servers(count, 8, 24, 500), []
            while sum(job.gpus for job in jobs) < count * 8:
                jobs.append(dice.choice(drawn) if kinds == 10 else drawn[len(jobs)])
            choosing, dividing = [], []
            for _ in range(RUNS):
                began = time.perf_counter()
                best = optimal(servers, jobs)
                chosen = time.perf_counter()
                parts = divide(servers, jobs, best.points)
                choosing.append(chosen - began)
                dividing.append(time.perf_counter() - chosen)
            shares = tune(servers, [Need(job.gpus, job.best) for job in jobs])
            tuned = sum(job.speed(share.per_gpu) for job, share in zip(jobs, shares, strict=True) if share)
            print(
                f"{len(jobs):5} jobs  {count:3} servers  {len(set(jobs)):4} profiles"
                f"  choose {list(map(_seconds, choosing))}  divide {list(map(_seconds, dividing))}"
                f"  split {sum(len(each) > 1 for each in parts)}  total {best.total:.2f}"
                f"  bound {best.bound:.2f}  TUNE {tuned:.2f}",
                flush=True,
            )


def _seconds(value: float) -> str:
    return f"{value:.3f}"


def traces(folder: Path) -> None:
    for trace in ("static_100jobs", "dynamic_srtf_jobs"):
        for policy in POLICIES:
            for mechanism in MECHANISMS:
                jobs = read_jobs(folder / f"{trace}.csv", folder / "model_profiles.json")
                mean = statistics.fmean(run(jobs, policy, mechanism).values())
                print(f"{trace:<18} {policy:<5} {mechanism:<13} mean {mean:11.4f} s", flush=True)


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--data", type=Path)
    given = made.parse_args()
    print(describe_machine())
    if given.data is None:
        rounds()
        opt()
    else:
        traces(given.data)


if __name__ == "__main__":
    main()
