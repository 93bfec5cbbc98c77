"""Tiresias' own simulator and ours on the same jobs, by turns: processor time of whole commands.

    python benchmarks/bench_tiresias.py --published CLONE [--jobs 4000] [--runs 3] [--seed 0]

The published simulator has no trace but 60 jobs, so the jobs are generated: 70 % of them on one GPU, 10, 15
and 5 % on two, four and eight, with run times whose logarithm is normally distributed (median 10 minutes),
and a load of about nine tenths of 128 GPUs on nodes of four. Policies, theirs and ours: `fifo` and strict
FIFO, `shortest-gpu` and SRSF, `dlas-gpu` and `tiresias` with the same thresholds. Theirs counts idle GPUs
(`count`: with its default, `yarn`, SRSF ends after a few jobs); ours places gangs by `consolidate`. Both
start a Python, read the jobs, decide at every event, and write what they have to tell. Mean completion times,
from submission to end, are printed beside the times. Those of the two that preempt are near each other;
strict FIFO waits longer where a gang of eight needs two whole nodes.

To set up the rival: clone https://github.com/SymbioticLab/Tiresias and pass the clone with --published. It is
written for Python 2; the script converts a temporary copy with lib2to3, which Python has until 3.12.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from machine import describe_machine

ROOT = Path(__file__).resolve().parents[1]
#: Theirs, and ours.
POLICIES = (
    ("fifo", "fifo:backfill=false"),
    ("shortest-gpu", "srtf:by_service=true"),
    ("dlas-gpu", "tiresias:thresholds=3250|7200"),
)
COLUMNS = ("job_id", "num_gpu", "submit_time", "iterations", "model_name", "duration", "interval")
LIMIT_SECONDS = 600
#: Seconds between arrivals, on average, for the load of the docstring.
APART = 26.0


def write_jobs(path: Path, jobs: int, seed: int) -> None:
    dice, at = random.Random(seed), 0
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(COLUMNS)
        for number in range(jobs):
            gpus = dice.choices((1, 2, 4, 8), (70, 10, 15, 5))[0]
            seconds, apart = max(1, round(dice.lognormvariate(6.4, 1.5))), round(dice.expovariate(1 / APART))
            rows.writerow((number, gpus, at, 100, "vgg19", seconds, apart))
            at += apart


def spent(command: Sequence[str | Path], folder: Path, output: Path = Path(os.devnull)) -> float:
    """Run a command; return its processor seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with output.open("wb") as said:
        subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            check=True,
            timeout=LIMIT_SECONDS,
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def theirs(folder: Path, jobs: Path, policy: str) -> tuple[float, float]:
    """Return the processor seconds of the published simulator, and the mean completion time."""
    log = folder / f"log-{policy}"
    given = ("--cluster_spec=n32g4.csv", "--scheme=count", f"--trace_file={jobs}", f"--schedule={policy}")
    seconds = spent((sys.executable, "run_sim.py", *given, f"--log_path={log}"), folder)
    with (log / "job.csv").open() as file:
        return seconds, statistics.mean(
            float(row["end_time"]) - float(row["submit_time"]) for row in csv.DictReader(file)
        )


def ours(folder: Path, jobs: Path, policy: str) -> tuple[float, float]:
    """Return the same of ours."""
    result = folder / "ours.json"
    seconds = spent(
        (
            *(sys.executable, ROOT / "manage.py", "simulate", "--trace", jobs, "--format", "tiresias"),
            *("--cluster", "p100=128:4", "--round-seconds", "0", "--policy", policy, "--json", result),
        ),
        ROOT,
    )
    (run,) = json.loads(result.read_text())["policies"]
    return seconds, run["completion_seconds"]["mean"]


def print_turns(policy: str, turns: Sequence[tuple[tuple[float, float], tuple[float, float]]]) -> None:
    """Print the medians of (theirs, ours), each processor seconds and mean completion time in seconds."""
    seconds = [[run[0] for run in runs] for runs in zip(*turns, strict=True)]
    published, own = map(statistics.median, seconds)
    raw = " | ".join(" ".join(f"{run:.2f}" for run in runs) for runs in seconds)
    (_, their_mean), (_, our_mean) = turns[0]
    print(
        f"  {policy:<25} published {published:6.2f} s, ours {own:6.2f} s, ratio {own / published:.3f}"
        f"   raw {raw}; mean completion {their_mean:,.0f} and {our_mean:,.0f} s",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--published", type=Path, metavar="CLONE")
    parser.add_argument("--jobs", type=int, default=4_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(describe_machine())
    if options.published is None:
        print("nothing measured: --published CLONE says where the published simulator is")
        return
    with tempfile.TemporaryDirectory(prefix="allotment-bench-") as name:
        folder, jobs = Path(name) / "simulator", Path(name) / "jobs.csv"
        shutil.copytree(options.published / "simulator", folder)
        convert = [sys.executable, "-m", "lib2to3", "--write", "--nobackups"]
        convert += map(str, sorted(folder.glob("*.py")))
        subprocess.run(convert, check=True, capture_output=True)
        write_jobs(jobs, options.jobs, options.seed)
        print(f"{options.jobs} jobs, seed {options.seed}; processor seconds, medians of {options.runs}")
        for there, here in POLICIES:
            turns = [(theirs(folder, jobs, there), ours(folder, jobs, here)) for _ in range(options.runs)]
            print_turns(there, turns)


if __name__ == "__main__":
    main()
