"""What `allot.training` costs a training run: its import, each step, saving and restoring.

python benchmarks/bench_training.py [--mebibytes 256] [--folder FOLDER]
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from machine import describe_machine

import allot.training

RUNS, STEPS = 5, 100_000


def timed(work) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def seconds_to_import() -> float:
    """CPU time of a fresh interpreter, less that of one without it."""

    def run(code: str) -> float:
        before = os.times()
        subprocess.run([sys.executable, "-S", "-c", code], env=environment, check=True)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    environment = {"PYTHONPATH": str(Path(allot.__file__).parents[1])}
    return run("import allot.training") - run("pass")


def seconds_per_step(folder: Path) -> float:
    with allot.training.session(folder=folder) as run:

        def work() -> None:
            for step in run.steps(STEPS):
                run.report(loss=1.0 / (step + 1), samples=step * 64)

        return timed(work) / STEPS


def plain_write(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def seconds_to_save_and_restore(folder: Path, content: bytes) -> tuple[float, float]:
    with allot.training.session(folder=folder, save_bytes=lambda: content) as run:
        run.step = 1
        saving = timed(run.save)
    started = time.perf_counter()
    with allot.training.session(folder=folder, load_bytes=len):
        return saving, time.perf_counter() - started


def show(name: str, values: list[float], unit: str) -> None:
    raw = " ".join(f"{value:.3g}" for value in values)
    print(f"{name}: {statistics.median(values):.3g} {unit}, median of {len(values)} ({raw})")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mebibytes", type=int, default=256, help="size of the state (256)")
    parser.add_argument("--folder", type=Path, help="on the disk to measure (a temporary one)")
    options = parser.parse_args()
    print(describe_machine())
    content = os.urandom(options.mebibytes * 2**20)
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        show("import, CPU", [1000 * seconds_to_import() for _ in range(RUNS)], "ms")
        show(
            "a step, with a report", [1e6 * seconds_per_step(folder / f"s{run}") for run in range(RUNS)], "µs"
        )
        plain = [timed(lambda: plain_write(folder / f"p{run}", content)) for run in range(RUNS)]  # noqa: B023
        pairs = [seconds_to_save_and_restore(folder / f"c{run}", content) for run in range(RUNS)]
        show(f"{options.mebibytes} MiB: write and sync one file", plain, "s")
        show(f"{options.mebibytes} MiB: save", [saving for saving, _ in pairs], "s")
        show(
            f"{options.mebibytes} MiB: begin a session and restore",
            [restoring for _, restoring in pairs],
            "s",
        )


if __name__ == "__main__":
    main()
