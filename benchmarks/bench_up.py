"""How long `manage.py up` takes to a working demonstration, how much memory that is, how long it ends.

    python benchmarks/bench_up.py [--runs 3]

Each run starts twice in a new home: the first start creates the databases, the second reuses them.
Prints the start's own steps for the first run, then every run's seconds and the medians. Memory is the sum
of proportional set sizes (shared pages counted once) over all processes of the platform, jobs
included, once the demonstration's jobs run. Installing packages and building the page are not in it.
"""

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from machine import describe_machine

from controlplane.embedded import ports

ROOT = Path(__file__).resolve().parents[1]
SETTLE_SECONDS = 15.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3)
    runs = parser.parse_args().runs
    print(describe_machine())
    figures: dict[str, list[float]] = {
        name: [] for name in ("first start, s", "second start, s", "memory, MiB", "stop, s")
    }
    for run in range(runs):
        with tempfile.TemporaryDirectory(prefix="allotment-bench-") as folder:
            first, _, stopped = measure(Path(folder) / "home", settle_seconds=0.0, show=run == 0)
            figures["first start, s"].append(first)
            figures["stop, s"].append(stopped)
            second, memory, stopped = measure(
                Path(folder) / "home", settle_seconds=SETTLE_SECONDS, show=run == 0
            )
            figures["second start, s"].append(second)
            figures["memory, MiB"].append(memory)
            figures["stop, s"].append(stopped)
    for name, values in figures.items():
        raw = " ".join(f"{value:.1f}" for value in values)
        print(f"{name:<16} median {statistics.median(values):7.1f}   runs: {raw}")


def measure(home: Path, *, settle_seconds: float, show: bool) -> tuple[float, float, float]:
    """Seconds until everything works, MiB held, seconds until everything has ended."""
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "manage.py"), "up", "--home", str(home), "--port", str(ports.pick())],
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if show:
                print("   ", line, end="")
            if "Stop: Ctrl-C" in line:
                break
        ready = time.monotonic() - began
        time.sleep(settle_seconds)
        memory = sum(map(proportional_bytes, processes_of(home, process.pid)))
    finally:
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        if process.wait() != 0:
            raise SystemExit("the platform did not start")
    return ready, memory / 2**20, time.monotonic() - began


def processes_of(home: Path, supervisor: int) -> set[psutil.Process]:
    """All below the supervisor, and jobs' shims that outlived their agent."""
    parents = [psutil.Process(supervisor)]
    for process in psutil.process_iter(["ppid", "cmdline"]):
        if process.info["ppid"] == 1 and any(str(home) in word for word in process.info["cmdline"] or ()):
            parents.append(process)
    return {process for parent in parents for process in [parent, *parent.children(recursive=True)]}


def proportional_bytes(process: psutil.Process) -> int:
    try:
        return process.memory_full_info().pss
    except psutil.NoSuchProcess:
        # Jobs start and end all the time.
        return 0


if __name__ == "__main__":
    main()
