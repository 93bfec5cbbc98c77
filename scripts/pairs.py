"""Compare the headline figures with those of an earlier commit, by turns on the same machine.

    python -m scripts.pairs [BASE] [--pairs 3] [--only decide round ...]

Unless named, BASE is the last tag, or without one the newest commit that is a day old. It is checked out
beside this tree and runs with the same packages, its own benchmarks included. Both take turns, so that what
else goes on in the machine hurts both alike. Figures are processor time where a benchmark has it. Each is the
best of its runs, which a neighbour can only make worse; one that is more than 5 % worse than that of BASE
fails, and both raw runs are printed.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: So much worse than the base fails.
TOLERANCE = 0.05
LIMIT_SECONDS = 1_200


@dataclass(frozen=True)
class Benchmark:
    """A command, and the figures in what it prints: less is better."""

    name: str
    arguments: str
    #: By figure: a pattern with the number as its group.
    figures: Mapping[str, str]

    def read(self, printed: str) -> dict[str, float]:
        """Return the figures in what was printed; what is not there is left out."""
        found = {name: re.search(pattern, printed) for name, pattern in self.figures.items()}
        return {name: float(match[1]) for name, match in found.items() if match is not None}


BENCHMARKS = (
    Benchmark(
        "decide",
        "benchmarks/bench_decide.py --gpus 10000 --runs 3 --cells",
        {
            "decide(), 10,000 GPUs, cold, s": r"10000 GPUs, cold:.*\n +decide +median ([\d.]+)",
            "decide(), 10,000 GPUs, steady, s": r"10000 GPUs, steady:.*\n +decide +median ([\d.]+)",
            "decide(), in cells, cold, s": r"in cells, cold:.*\n +decide +median ([\d.]+)",
            "decide(), in cells, steady, s": r"in cells, steady:.*\n +decide +median ([\d.]+)",
        },
    ),
    Benchmark(
        "round",
        "benchmarks/bench_round.py --gpus 10000 --runs 2 --steady 3",
        {
            "round in the database, first, s": r"first, medians of .*?processor ([\d.]+)",
            "round in the database, steady, s": r"steady, medians of .*?processor ([\d.]+)",
        },
    ),
    Benchmark(
        "simulate",
        "benchmarks/bench_simulate.py --policies fifo tiresias --clusters p100=2496:8 --limit 30000",
        {
            "30,000 Philly jobs, fifo, s": r"fifo +([\d.]+) s",
            "30,000 Philly jobs, tiresias, s": r"tiresias +([\d.]+) s",
        },
    ),
    Benchmark(
        "queues",
        "benchmarks/bench_simulate.py --policies fifo tiresias --clusters p100=400:8 --limit 4000",
        {
            "4,000 Philly jobs in a long queue, fifo, s": r"fifo +([\d.]+) s",
            "4,000 Philly jobs in a long queue, tiresias, s": r"tiresias +([\d.]+) s",
        },
    ),
    Benchmark(
        "api",
        "benchmarks/bench_api.py --runs 3 --clients 2",
        {
            "a single submit, ms of the web process": r"single submits.*web process: ([\d.]+) ms",
            "a job of a bulk, ms of the web process": r"in bulks.*web process: ([\d.]+) ms",
        },
    ),
    Benchmark(
        "start",
        "benchmarks/bench_start.py --runs 10",
        {"submit to process started, s": r"one process: median ([\d.]+)"},
    ),
)


def measure(tree: Path, benchmark: Benchmark) -> dict[str, float]:
    """Return the figures that a benchmark of a tree prints; what it prints no more, or not yet, is left out.

    Raises `subprocess.CalledProcessError` where it fails.
    """
    done = subprocess.run(
        [sys.executable, *benchmark.arguments.split()],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": f"{tree}{os.pathsep}{tree / 'platform'}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        timeout=LIMIT_SECONDS,
        check=True,
    )
    return benchmark.read(done.stdout)


@dataclass(frozen=True)
class Pair:
    """What both trees measured of one figure, run by run."""

    figure: str
    before: Sequence[float]
    now: Sequence[float]

    @property
    def ratio(self) -> float:
        return min(self.now) / min(self.before)

    @property
    def is_worse(self) -> bool:
        return self.ratio > 1 + TOLERANCE

    def __str__(self) -> str:
        raw = " | ".join(" ".join(f"{each:g}" for each in runs) for runs in (self.before, self.now))
        best = f"{min(self.before):8.3f} {min(self.now):8.3f}"
        return f"{self.figure:<42} {best}  {self.ratio:5.2f}{'  WORSE' if self.is_worse else ''}  ({raw})"


def compare(base: Path, benchmark: Benchmark, count: int) -> list[Pair]:
    """Return what both trees measure, by turns."""
    turns = [(measure(base, benchmark), measure(ROOT, benchmark)) for _ in range(count)]
    measured = [figures for turn in turns for figures in turn]
    names = [name for name in benchmark.figures if all(name in figures for figures in measured)]
    return [
        Pair(name, [before[name] for before, _ in turns], [now[name] for _, now in turns]) for name in names
    ]


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """Yield a tree of an earlier commit beside which published data is found, as beside this one."""
    with tempfile.TemporaryDirectory(prefix="allotment-base-") as folder:
        tree = Path(folder) / "tree"
        (Path(folder) / "shared").symlink_to(ROOT.parent / "shared")
        git = ["git", "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", tree, commit], cwd=ROOT, check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", tree], cwd=ROOT, check=True)


def default_base() -> str | None:
    """Return the last tag, else the newest commit that is a day old; None where there is neither."""
    for arguments in ("describe --tags --abbrev=0", "rev-list -1 --before=24.hours HEAD"):
        command = ["git", *arguments.split()]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if base := done.stdout.strip():
            return base
    return None


def main() -> int:
    names = [each.name for each in BENCHMARKS]
    parser = argparse.ArgumentParser(prog="python -m scripts.pairs", description=__doc__)
    parser.add_argument("base", nargs="?", default=default_base(), help="a commit to compare with")
    parser.add_argument("--pairs", type=int, default=3, help="how often both run")
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    options = parser.parse_args()
    if options.base is None:
        print("There is no tag and no commit that is a day old; name one to compare with.")
        return 0
    # A run that is ended leaves no tree behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from machine import describe_machine

    print(describe_machine())
    print(f"{'figure':<42} {options.base[:8]:>8} {'now':>8}  ratio  (raw runs of both)")
    worse = 0
    with checked_out(options.base) as base:
        for benchmark in BENCHMARKS:
            if benchmark.name in options.only:
                for pair in compare(base, benchmark, options.pairs):
                    print(pair, flush=True)
                    worse += pair.is_worse
    print(f"{worse} figures are more than {TOLERANCE:.0%} worse." if worse else "No figure is worse.")
    return int(worse > 0)


if __name__ == "__main__":
    sys.exit(main())
