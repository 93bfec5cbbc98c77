"""Run all that `make test` leaves out, and write one page of results: `make nightly`.

`make nightly ARGS="slow chaos"` runs these steps only. A step that fails or takes too long does not stop the
others. The page and what each step wrote are in `.nightly`.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".nightly"
PAGE = FOLDER / "report.md"
#: So much of what a failed step wrote is on the page.
LINES_SHOWN = 40
#: How make hands its own options, and the ARGS of `make nightly`, to each make that it starts.
OF_MAKE = ("ARGS", "MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS")


@dataclass(frozen=True)
class Step:
    name: str
    command: str
    limit_minutes: float


def steps(seed: int) -> list[Step]:
    """Return what a night consists of; `seed` decides what the random ones do."""
    return [
        Step("check", "make check", 20),
        Step("test", "make test", 40),
        Step("user", "make test-user", 40),
        Step("slow", "make test-slow", 180),
        Step("reproduce", "make reproduce", 180),
        Step("pythons", "make test-pythons", 90),
        Step("fuzz", f"PYTHONPATH=platform .venv/bin/python -m tests.fuzz --seed {seed} --minutes 10", 15),
        Step("chaos", f"make chaos ARGS='--seed {seed} --faults 200 --minutes 12'", 30),
        Step("pairs", ".venv/bin/python -m scripts.pairs", 60),
        Step("soak", "scripts/soak 5 4 core server node dashboard", 90),
    ]


@dataclass(frozen=True)
class Outcome:
    step: Step
    result: str
    minutes: float

    @property
    def log(self) -> Path:
        return FOLDER / f"{self.step.name}.log"


def carry_out(step: Step) -> Outcome:
    """Run a step; end it with all that it started when its time is up."""
    began = time.monotonic()
    with (FOLDER / f"{step.name}.log").open("wb") as log:
        process = subprocess.Popen(
            ["sh", "-c", step.command],
            cwd=ROOT,
            # A step takes its own arguments, not which steps to run.
            env={name: value for name, value in os.environ.items() if name not in OF_MAKE},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(step.limit_minutes * 60)
            result = "passed" if code == 0 else f"FAILED ({code})"
        except subprocess.TimeoutExpired:
            result = f"FAILED: not done in {step.limit_minutes:g} min"
        finally:
            end(process)
    return Outcome(step, result, (time.monotonic() - began) / 60)


def end(process: subprocess.Popen[Any]) -> None:
    """End a process and its group: in good order, so that it ends what it started in other sessions, and then
    for certain.
    """
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(90)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass


def page(outcomes: list[Outcome], seed: int) -> str:
    commit = subprocess.check_output(["git", "log", "-1", "--format=%h %s"], cwd=ROOT, text=True).strip()
    lines = [f"# The night of {time.strftime('%Y-%m-%d')}", "", f"Commit {commit}; seed {seed}.", ""]
    lines += ["| step | result | minutes | command |", "|---|---|---:|---|"]
    lines += [
        f"| {each.step.name} | {each.result} | {each.minutes:.1f} | `{each.step.command}` |"
        for each in outcomes
    ]
    for each in outcomes:
        if each.result != "passed":
            last = each.log.read_text(errors="replace").splitlines()[-LINES_SHOWN:]
            lines += ["", f"## {each.step.name}", "", "```", *last, "```"]
    return "\n".join(lines) + "\n"


def main() -> int:
    seed = random.SystemRandom().randrange(10_000)
    names = [each.name for each in steps(seed)]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("steps", nargs="*", metavar="STEP", help=", ".join(names))
    parser.add_argument("--seed", type=int, default=seed)
    options = parser.parse_args()
    if unknown := [name for name in options.steps if name not in names]:
        parser.error(f"no step is called {unknown[0]!r}; there are {', '.join(names)}")
    FOLDER.mkdir(exist_ok=True)
    outcomes = list[Outcome]()
    for step in steps(options.seed):
        if not options.steps or step.name in options.steps:
            print(f"{step.name}: {step.command}", flush=True)
            outcomes.append(carry_out(step))
            print(f"{step.name}: {outcomes[-1].result} after {outcomes[-1].minutes:.1f} min", flush=True)
            # After each, so that a night that is cut short leaves a page too.
            PAGE.write_text(page(outcomes, options.seed))
    print(PAGE.relative_to(ROOT))
    return int(any(each.result != "passed" for each in outcomes))


if __name__ == "__main__":
    sys.exit(main())
