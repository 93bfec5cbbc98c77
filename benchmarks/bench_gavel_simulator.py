"""Gavel's own simulator and ours on the same jobs, by turns: processor time of whole commands.

    python benchmarks/bench_gavel_simulator.py --published CLONE --python PYTHON [--data ../shared/data/gavel]
                                               [--window 50:100] [--rate 5.6] [--runs 3]

The jobs are those that Gavel's generator draws with seed 0: one GPU each, 5.6 an hour, on 36 GPUs of each of
three models, where the queue is long. Measured are the jobs of the window. Theirs draws jobs until the last
of them has ended; ours gets 700 jobs more, so that the load does not fall before, and runs in Gavel's rounds
(`--rounds gavel`, docs/simulator.md). The mean completion times are printed beside the processor times. Under
AlloX and FIFO both simulators agree to the second, under max-min within 0.4 %; under finish-time
fairness ours are shorter (docs/reproduction.md, "Gavel").

To set up the rival: clone https://github.com/stanford-futuredata/gavel (measured at c4fa400) and pass the
clone with --published. With --python pass a Python that has numpy, cvxpy, ecos, matrix_completion, and
grpcio-tools.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bench_tiresias import ROOT, print_turns, spent
from machine import describe_machine

#: Theirs, and ours.
POLICIES = (
    ("allox", "allox"),
    ("fifo_perf", "fifo"),
    ("max_min_fairness_perf", "gavel:centre=true"),
    ("finish_time_fairness_perf", "gavel:objective=finish_time_fairness"),
)
DRIVER = "scripts/drivers/simulate_scheduler_with_generated_jobs.py"
MEAN = re.compile(r"Average job completion time: ([0-9.]+) seconds")
GPUS = 36
#: Jobs that come after the last measured one.
JOBS_AFTER = 700


def prepare(clone: Path, python: Path, folder: Path) -> None:
    """Copy their simulator, and generate what it imports for messages that a simulation does not send."""
    leave = shutil.ignore_patterns("traces", "notebooks", "tests")
    shutil.copytree(clone / "scheduler", folder, ignore=leave)
    stubs = ("--python_out=rpc_stubs", "--grpc_python_out=rpc_stubs")
    messages = sorted([path.name for path in (folder / "runtime" / "protobuf").glob("*.proto")])
    subprocess.run(
        [python, "-m", "grpc_tools.protoc", "-Iprotobuf", *stubs, *messages],
        cwd=folder / "runtime",
        check=True,
    )


def theirs(folder: Path, options: argparse.Namespace, policy: str) -> tuple[float, float]:
    """Return the processor seconds of the published simulator, and the mean completion time."""
    first, last = options.window.split(":")
    log = folder / f"{policy}.log"
    seconds = spent(
        (
            *(options.python, DRIVER, "--policy", policy, "--lam", str(3600 / options.rate), "--seed", "0"),
            *("--cluster_spec", f"{GPUS}:{GPUS}:{GPUS}", "--window-start", first, "--window-end", last),
            *("--solver", "ECOS", "--throughputs_file", "simulation_throughputs.json", "--verbose"),
        ),
        folder,
        log,
    )
    found = MEAN.search(log.read_text())
    if found is None:
        raise SystemExit(
            f"{policy}: the published simulator printed no mean; see its last lines:\n"
            f"{log.read_text()[-500:]}"
        )
    return seconds, float(found[1])


def ours(folder: Path, options: argparse.Namespace, policy: str) -> tuple[float, float]:
    """Return the same of ours."""
    result, jobs = folder / "ours.json", int(options.window.split(":")[1]) + JOBS_AFTER
    seconds = spent(
        (
            *(sys.executable, ROOT / "manage.py", "simulate", "--rounds", "gavel", "--policy", policy),
            *("--generate", f"gavel:jobs={jobs},jobs_per_hour={options.rate}", "--window", options.window),
            *("--throughputs", options.data / "simulation_throughputs.json"),
            *("--cluster", f"v100={GPUS},p100={GPUS},k80={GPUS}:4", "--json", result),
        ),
        ROOT,
    )
    (run,) = json.loads(result.read_text())["policies"]
    return seconds, run["completion_seconds"]["mean"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--published", type=Path, metavar="CLONE")
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="that runs theirs")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data" / "gavel")
    parser.add_argument("--window", default="50:100", help="the measured jobs, FIRST:END")
    parser.add_argument("--rate", type=float, default=5.6, help="jobs an hour")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    print(describe_machine())
    if options.published is None or not options.data.is_dir():
        print("nothing measured: --published CLONE says where the published simulator is, --data the speeds")
        return
    # Not resolved: a virtual environment is known by the link that its Python is.
    options.data, options.python = options.data.absolute(), options.python.absolute()
    with tempfile.TemporaryDirectory(prefix="allotment-bench-") as name:
        folder = Path(name) / "scheduler"
        prepare(options.published, options.python, folder)
        print(f"jobs {options.window}, {options.rate} an hour; processor seconds, medians of {options.runs}")
        for there, here in POLICIES:
            turns = [
                (theirs(folder, options, there), ours(folder, options, here)) for _ in range(options.runs)
            ]
            print_turns(there, turns)


if __name__ == "__main__":
    main()
