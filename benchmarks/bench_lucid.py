"""Lucid's simulator: 4,000 jobs like those of its cluster, under FIFO, SJF, QSSF and Lucid.

    python benchmarks/bench_lucid.py --data ../shared/data/lucid

Mean completion time and makespan of each, how many jobs ended while they were profiled, how many shared GPUs,
and processor time: of five runs, the median and all of them.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from machine import describe_machine

from benchmarks.reproduction.lucid.forecasts import read_forecasts
from benchmarks.reproduction.lucid.jobs import Outcome
from benchmarks.reproduction.lucid.packing import Lucid
from benchmarks.reproduction.lucid.profiler import Profiler
from benchmarks.reproduction.lucid.profiles import read_profiles
from benchmarks.reproduction.lucid.queues import FIFO, QSSF, SJF, run_queue
from benchmarks.reproduction.lucid.workload import make_jobs, read_nodes

RUNS = 5
#: Whose nodes the profiler has, and who lends it a third.
PROFILED_ON, LENDER = ("vc8Gr", "vcefl"), "vcYVn"


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--data", type=Path)
    made.add_argument("--jobs", type=int, default=4000)
    given = made.parse_args()
    print(describe_machine())
    if given.data is None:
        print("nothing measured: --data FOLDER says where what Lucid's authors measured is")
        return
    profiles = read_profiles(given.data)
    forecasts = read_forecasts(given.data / "venus_throughput_pred.csv.gz")
    nodes = read_nodes(given.data)
    jobs = make_jobs(given.data, profiles, forecasts, count=given.jobs)
    left = {name: number - (name in PROFILED_ON) for name, number in nodes.items()}
    profiler = Profiler(forecasts=forecasts)
    lucid = Lucid(profiles=profiles, profiler=profiler, forecasts=forecasts, lender=LENDER)
    alone = Lucid(profiles=profiles, profiler=profiler, packs=False, lender=LENDER)
    runs: dict[str, Callable[[], Outcome]] = {
        **{name: partial(run_queue, jobs, nodes, name) for name in (FIFO, SJF, QSSF)},
        "lucid": partial(lucid.run, jobs, left),
        "lucid, nobody shares": partial(alone.run, jobs, left),
    }
    for name, run in runs.items():
        seconds, outcome = [], run()
        for _ in range(RUNS):
            began = time.process_time()
            run()
            seconds.append(time.process_time() - began)
        raw = " ".join(f"{each:.3f}" for each in seconds)
        print(
            f"{name:<21} mean {outcome.mean_seconds(jobs):10.3f} s"
            f"  makespan {max(outcome.ended_at.values()):7} s"
            f"  {outcome.ended_in_profiler:4} ended in the profiler"
            f"  {outcome.shared:5} shared"
            f"  {statistics.median(seconds):.3f} s of processor time  ({raw})",
            flush=True,
        )


if __name__ == "__main__":
    main()
