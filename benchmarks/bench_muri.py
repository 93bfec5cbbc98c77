"""Muri: how long the matching of waiting jobs takes, and its published traces run again.

    python benchmarks/bench_muri.py
    python benchmarks/bench_muri.py --traces ../shared/data/muri [--only trace3] [--autopack]

- *matching*: the pairs of most efficiency among waiting jobs of one size, stage times like those that Muri's
  authors measured, each job with its own: processor time of all efficiencies, and of the matching.
- *traces*: the published traces in the published simulator's events, under its SRTF, SRSF and Tiresias and
  under Muri-S and Muri-L: mean completion time, makespan, 99th percentile, events at which jobs shared GPUs,
  processor time. Muri as in the paper's figures, or, with --autopack, as the published code is today: it
  takes groups apart whose jobs are faster one after another.
"""

from __future__ import annotations

import os

# Set before NumPy is loaded: threads of a linear algebra library only wait for each other in small problems.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from machine import describe_machine

from benchmarks.reproduction.muri.baselines import run_shortest, run_tiresias
from benchmarks.reproduction.muri.events import run_muri
from benchmarks.reproduction.muri.jobs import MuriJob, Outcome, read_trace
from scheduler.core.building_blocks.matching import pairs_of_most_weight

#: Milliseconds of an iteration on storage and preprocessing, GPU and network: of a job of each kind.
KINDS = ((446, 8, 0.5), (0.5, 163, 18), (82, 75, 66), (723, 113, 73), (84, 85, 73), (514, 14, 0.4))
RUNS = 5


def policies(*, autopack: bool) -> dict[str, Callable[[list[MuriJob]], Outcome]]:
    return {
        "srtf": run_shortest,
        "srsf": partial(run_shortest, by_service=True),
        "tiresias": run_tiresias,
        "muri-s": partial(run_muri, autopack=autopack),
        "muri-l": partial(run_muri, knows_durations=False, autopack=autopack),
    }


def efficiencies(stages: np.ndarray) -> np.ndarray:
    """Return by pair the part of the time in which resources are busy, in turns of two phases."""
    storage, rest = stages[:, 0], stages[:, 1] + stages[:, 2]
    cycle = np.maximum(storage[:, None], rest) + np.maximum(rest[:, None], storage)
    whole = stages.sum(axis=1)
    return (whole[:, None] + whole) / (4 * cycle)


def matchings() -> None:
    print("jobs  pairs  efficiencies  matching, processor time")
    for jobs in (100, 250, 1000):
        weighing, matching, found = [], [], 0
        for run in range(RUNS):
            dice = np.random.default_rng(run)
            stages = np.array(KINDS)[dice.integers(len(KINDS), size=jobs)] * dice.uniform(0.7, 1.4, (jobs, 3))
            began = time.process_time()
            weights = efficiencies(stages)
            weighing.append(time.process_time() - began)
            # Until SciPy is loaded, half a second goes into that.
            began = time.process_time()
            found = len(pairs_of_most_weight(weights))
            matching.append(time.process_time() - began)
        raw = " ".join(f"{each:.3f}" for each in matching)
        print(
            f"{jobs:4}  {found:5}  {statistics.median(weighing):8.3f} s"
            f"    {statistics.median(matching):8.3f} s  ({raw})",
            flush=True,
        )


def traces(folder: Path, only: str | None, *, autopack: bool) -> None:
    for path in sorted(folder.glob("*.csv")):
        if only is not None and path.stem != only:
            continue
        for name, run in policies(autopack=autopack).items():
            began = time.process_time()
            outcome = run(read_trace(path))
            print(
                f"{path.stem:<13} {name:<8} mean {outcome.mean_seconds:14.3f} s"
                f"  makespan {outcome.makespan_seconds:14.1f} s  p99 {outcome.p99_seconds:14.1f} s"
                f"  shared at {outcome.sharing_events:5} of {outcome.events:5} events"
                f"  {time.process_time() - began:6.1f} s of processor time",
                flush=True,
            )


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--traces", type=Path)
    made.add_argument("--only")
    made.add_argument("--autopack", action="store_true")
    given = made.parse_args()
    print(describe_machine())
    if given.traces is None:
        matchings()
    else:
        traces(given.traces, given.only, autopack=given.autopack)


if __name__ == "__main__":
    main()
