"""Run the benchmarks one after the other, and keep what they print: `make bench`.

`make bench ARGS="decide round"` runs bench_decide.py and bench_round.py only. One that fails or takes too
long does not stop the others. Each run adds a line to `.bench/history.jsonl`: commit, machine, result, all
that was printed, and by name those figures that `scripts.pairs` compares with earlier commits.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from scripts.nightly import end
from scripts.pairs import BENCHMARKS

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "benchmarks"
HISTORY = ROOT / ".bench" / "history.jsonl"
LIMIT_MINUTES = 45.0


def run(script: Path, limit_minutes: float) -> tuple[str, list[str]]:
    """Run a benchmark and pass on what it prints; return how it ended, and the lines."""
    process = subprocess.Popen(
        [sys.executable, script],
        cwd=ROOT,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    is_late = threading.Event()

    def end_late() -> None:
        is_late.set()
        end(process)

    clock = threading.Timer(limit_minutes * 60, end_late)
    clock.start()
    lines: list[str] = []
    try:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line.rstrip("\n"))
        code = process.wait()
    finally:
        clock.cancel()
        # What an interrupted benchmark started ends with it.
        end(process)
    if is_late.is_set():
        return f"FAILED: not done in {limit_minutes:g} min", lines
    return "passed" if code == 0 else f"FAILED ({code})", lines


def figures_in(script: str, printed: str) -> dict[str, float]:
    """Return the headline figures in what a benchmark printed."""
    found: dict[str, float] = {}
    for benchmark in BENCHMARKS:
        if Path(benchmark.arguments.split()[0]).name == script:
            found |= benchmark.read(printed)
    return found


def measured(
    script: Path, state: Mapping[str, object], limit_minutes: float = LIMIT_MINUTES
) -> dict[str, object]:
    """Run a benchmark; return its line of the history."""
    at, began = datetime.now(UTC), time.monotonic()
    result, lines = run(script, limit_minutes)
    return {
        "at": at.isoformat(timespec="seconds"),
        **state,
        "benchmark": script.name,
        "result": result,
        "seconds": round(time.monotonic() - began, 1),
        "figures": figures_in(script.name, "\n".join(lines)),
        "printed": lines,
    }


def state_of_tree() -> dict[str, object]:
    """Return what a figure depends on beside the benchmark: the commit and the machine."""
    sys.path.insert(0, str(FOLDER))
    from machine import machine

    git = ["git", "-C", str(ROOT)]
    commit = subprocess.check_output([*git, "rev-parse", "HEAD"], text=True).strip()
    changes = subprocess.check_output([*git, "status", "--porcelain"], text=True)
    return {"commit": commit, "is_changed": bool(changes), "machine": machine()}


def main(arguments: Sequence[str] | None = None) -> int:
    scripts = {path.stem.removeprefix("bench_"): path for path in sorted(FOLDER.glob("bench_*.py"))}
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(scripts))
    parser.add_argument("--limit-minutes", type=float, default=LIMIT_MINUTES, help="of each benchmark")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.names if name not in scripts]:
        parser.error(f"there is no benchmark {unknown[0]!r}; choose {', '.join(scripts)}")
    HISTORY.parent.mkdir(exist_ok=True)
    failed: list[str] = []
    for name in options.names or scripts:
        print(f"== {scripts[name].name}", flush=True)
        line = measured(scripts[name], state_of_tree(), options.limit_minutes)
        with HISTORY.open("a") as history:
            history.write(json.dumps(line) + "\n")
        if line["result"] != "passed":
            failed.append(f"{name}: {line['result']}")
            print(line["result"], flush=True)
    print("\n".join([f"{HISTORY.relative_to(ROOT)} has what was printed.", *failed]))
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
