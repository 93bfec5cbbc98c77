"""Cells: gangs scheduled and deleted on 1,000 GPUs, beside the published core of HiveD in the same run.

    python benchmarks/bench_cells.py [--hived FOLDER] [--runs 5] [--fills 3] [--thousands 1]

The hardware is 125 nodes of 8 GPUs (pairs, sockets) in racks of five nodes. Four virtual clusters own racks,
nodes, sockets and pairs; 240 GPUs belong to none. A *fill* is about 340 gangs of 1 to 16 GPUs: guaranteed
ones until all owned cells are in use, then opportunistic ones until no GPU is idle. Then all of them end, in
another order. Both sides get the same fills, by turns, and must place all gangs. Times are processor time of
all threads, for each gang, its start and its end together:

- *HiveD's core*: `Schedule`, `AddAllocatedPod` and `DeleteAllocatedPod` of each pod. As published, each call
  reads the pod's annotations, which are YAML. "Without annotations" leaves that out, as measured on the same
  pods. Making the pod that passes a decision on is left out always; the log is formatted and thrown away.
- *our cells*: `schedule` and `delete` of `CellState`, HiveD's scheduler on our cells and bindings, to which
  tests hold rounds (tests/core/cells/oracle). It chooses virtual GPUs, proves that what is owed remains, and
  binds cells.
- *rounds*: the product. All gangs wait, run and have ended in three rounds of a kept engine; policy, placer,
  plan, reasons and the check of the plan are included. So a gang bears one part in 340 of what a round costs
  in any case; HiveD's core has no such cost. Beside it: `decide()` for the round of the starts, and rounds
  that start a single gang, or in which one has ended, in milliseconds.

To set up the rival: install Go (Debian: `golang-go`), clone https://github.com/microsoft/hivedscheduler and
pass the clone with --hived. Its dependencies are in its folder `vendor`, so nothing is downloaded. The script
builds a driver of ours (benchmarks/reproduction/hived/driver.go) in a temporary copy, which takes a minute.
Without --hived only our side is timed.
"""

from __future__ import annotations

import argparse
import gc
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from machine import describe_machine

from benchmarks.reproduction.hived import published
from benchmarks.reproduction.hived.rounds import History, empty
from benchmarks.reproduction.hived.workload import Fill, Gang, make_fill, make_specification
from scheduler.core.model.cell_specification import Specification
from scheduler.core.model.snapshot import JobId
from scheduler.core.round.decide import decide
from scheduler.core.round.rounds import Rounds
from tests.core.cells.oracle import CellState, Group, Placement

#: More than a run has: engines are not compared meanwhile.
ROUNDS = 10**9
#: Gangs that start and end alone.
ALONE = 20


@dataclass(frozen=True, slots=True)
class Taken:
    """Processor seconds of a fill by part, and the GPUs that its gangs held."""

    parts: tuple[float, ...]
    gpus: int


def clocked(call: Callable[[], object]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def group_of(gang: Gang) -> Group:
    return Group(
        name=gang.name,
        virtual_cluster=gang.owner,
        priority=gang.priority,
        members=((gang.pods, gang.gpus),),
    )


def fill_cells(state: CellState, fill: Fill) -> Taken:
    groups = [group_of(gang) for gang in fill.gangs]
    gc.collect()
    began = time.process_time()
    answers = [state.schedule(group) for group in groups]
    filled = time.process_time()
    for name in fill.ends:
        state.delete(name)
    ended = time.process_time()
    placed = [answer for answer in answers if isinstance(answer, Placement)]
    gpus = sum(len(pod.gpus) for answer in placed for pod in answer.pods)
    return Taken((filled - began, ended - filled), gpus)


class InRounds:
    """Rounds of one kept engine."""

    def __init__(self, specification: Specification) -> None:
        self.history = History(empty(specification))
        self.rounds = Rounds(compared_every=ROUNDS)
        self.jobs = 0
        self.round()

    def round(self) -> float:
        """Decide a round and carry it out; return the processor seconds of deciding."""
        began = time.process_time()
        plan = self.rounds.decide(self.history.facts)
        taken = time.process_time() - began
        self.history.carry_out(plan)
        return taken

    def submit(self, fill: Fill) -> None:
        self.history.submit(fill, self.jobs)
        self.jobs += len(fill.gangs)

    def fill(self, fill: Fill) -> Taken:
        self.submit(fill)
        gc.collect()
        anew = clocked(lambda: decide(self.history.facts))
        gc.collect()
        started = self.round()
        gpus = self.history.gpus
        runs = self.round()
        self.history.end(frozenset(self.history.jobs))
        ended = self.round()
        return Taken((started, runs, ended, anew), gpus)

    def one_by_one(self, fill: Fill) -> tuple[list[float], list[float]]:
        """Return the processor seconds of rounds that start one gang, and of those in which one has ended."""
        self.submit(fill)
        self.round()
        self.round()
        starts, ends = [], []
        for gang in fill.gangs[:ALONE]:
            before = frozenset(list(self.history.jobs)[:1])
            self.history.end(before)
            ends.append(self.round())
            self.submit(Fill((gang,), ()))
            starts.append(self.round())
        self.history.end(frozenset[JobId](self.history.jobs))
        self.round()
        return starts, ends


def micro(seconds: float, fill: Fill) -> float:
    return seconds / len(fill.gangs) * 1e6


def hived_rows(outcomes: Sequence[published.Outcome], fills: Sequence[Fill]) -> dict[str, list[float]]:
    """Return microseconds for each gang, by row; check that all GPUs were held."""
    rows: dict[str, list[float]] = {}
    for each, fill in zip(outcomes, fills, strict=True):
        check("HiveD's core", each.gpus, fill)
        parts = {"schedule": each.schedule, "add": each.add, "delete": each.delete}
        whole = sum(parts.values())
        found = {"whole": whole, "without annotations": whole - each.reading, **parts}
        for name, seconds in found.items():
            rows.setdefault(f"HiveD's core, {name}", []).append(micro(seconds, fill))
    return rows


def our_rows(state: CellState, rounds: InRounds, fills: Sequence[Fill]) -> dict[str, list[float]]:
    rows: dict[str, list[float]] = {}
    for fill in fills:
        cells, kept = fill_cells(state, fill), rounds.fill(fill)
        check("our cells", cells.gpus, fill)
        check("rounds", kept.gpus, fill)
        started, runs, ended, anew = kept.parts
        found = {
            "our cells, whole": sum(cells.parts),
            "our cells, schedule": cells.parts[0],
            "our cells, delete": cells.parts[1],
            "rounds, whole": started + runs + ended,
            "rounds, that of the starts": started,
            "rounds, that after the starts": runs,
            "rounds, that after the ends": ended,
            "decide() for the starts": anew,
        }
        for name, seconds in found.items():
            rows.setdefault(name, []).append(micro(seconds, fill))
    return rows


def check(who: str, gpus: int, fill: Fill) -> None:
    wanted = sum(gang.pods * gang.gpus for gang in fill.gangs)
    if gpus != wanted:
        raise SystemExit(f"{who}: gangs hold {gpus} GPUs, not {wanted}, so times cannot be compared")


def print_rows(runs: Sequence[dict[str, list[float]]]) -> None:
    """Print the median of each row, of runs that are each the median of their fills."""
    print(f"\n{'processor time for each gang':<36} median    raw")
    for name in runs[0]:
        raw = [statistics.median(run[name]) for run in runs]
        shown = " ".join(f"{each:.0f}" for each in raw)
        print(f"{name:<36} {statistics.median(raw):5.0f} µs  {shown}", flush=True)


def print_ratios(runs: Sequence[dict[str, list[float]]]) -> None:
    print("\nHow many times as long HiveD's core takes, run by run")
    for theirs in ("whole", "without annotations"):
        for ours in ("our cells, whole", "rounds, whole"):
            ratios = [
                statistics.median(run[f"HiveD's core, {theirs}"]) / statistics.median(run[ours])
                for run in runs
            ]
            shown = " ".join(f"{each:.2f}" for each in ratios)
            name = f"{theirs} : {ours}"
            print(f"{name:<44} {statistics.median(ratios):5.2f}  {shown}")


def built(given: argparse.Namespace, folder: Path) -> Path | None:
    """Return the rival's program; None, with the reason printed, where there is none."""
    if given.hived is None:
        print("HiveD's core is not measured: --hived FOLDER says where its repository is")
        return None
    if shutil.which("go") is None:
        print("HiveD's core is not measured: there is no command `go`; install Go (Debian: golang-go)")
        return None
    return published.build(given.hived, folder)


def measure(given: argparse.Namespace, folder: Path) -> None:
    program = built(given, folder)
    specification, dice = make_specification(given.thousands), random.Random(given.seed)
    state, rounds = CellState(specification), InRounds(specification)
    runs: list[dict[str, list[float]]] = []
    for _ in range(given.runs):
        first, *fills = [make_fill(given.thousands, dice) for _ in range(given.fills + 1)]
        rows: dict[str, list[float]] = {}
        if program is not None:
            rows |= hived_rows(published.run(program, specification, [first, *fills], given.profile), fills)
        our_rows(state, rounds, [first])
        runs.append(rows | our_rows(state, rounds, fills))
    print_rows(runs)
    if program is not None:
        print_ratios(runs)
    starts, ends = rounds.one_by_one(first)
    for name, seconds in (("start", starts), ("end", ends)):
        shown = " ".join(f"{each * 1e3:.1f}" for each in seconds)
        print(f"\na round with one {name}: median {statistics.median(seconds) * 1e3:.1f} ms\n  raw {shown}")


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--hived", type=Path, help="a clone of microsoft/hivedscheduler")
    made.add_argument("--profile", type=Path, help="where HiveD's core writes a profile for `go tool pprof`")
    made.add_argument("--runs", type=int, default=5)
    made.add_argument("--fills", type=int, default=3)
    made.add_argument("--thousands", type=int, default=1, metavar="GPUS", help="thousands of GPUs")
    made.add_argument("--seed", type=int, default=0)
    given = made.parse_args()
    print(describe_machine())
    print(f"{1_000 * given.thousands} GPUs, {given.runs} runs of {given.fills} fills, seed {given.seed}")
    with tempfile.TemporaryDirectory() as folder:
        measure(given, Path(folder))


if __name__ == "__main__":
    main()
