"""`manage.py simulate`: needs no database, no server and no settings."""

from __future__ import annotations

import csv
import json
import shlex
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import fields
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from scheduler.core.model import wording
from scheduler.core.model.errors import SchedulingError
from scheduler.core.model.plan import LedgerLine, Plan
from scheduler.core.round.registry import PLACERS, POLICIES, make_placer, make_policy
from scheduler.core.round.run_view import ViewOutcome
from scheduler.core.sim.engine import Engine
from scheduler.core.sim.result import Result
from scheduler.simulation.arguments import Order, understand
from scheduler.simulation.autoscaling import service_words
from scheduler.simulation.clusters import load_cluster
from scheduler.simulation.errors import InputError
from scheduler.simulation.experiment import Experiment, Milestone
from scheduler.simulation.gavel import choices
from scheduler.simulation.outputs import check_file, check_folder
from scheduler.simulation.outside import check_name, placer_text, policy_text
from scheduler.simulation.overcommitment import lending_words
from scheduler.simulation.quiet import silence_solvers
from scheduler.simulation.replay import replay_scenario
from scheduler.simulation.run import simulate
from scheduler.simulation.sweep import Case, Failed, check_numbers, prepare, read_workload, run_all
from scheduler.simulation.traces.native import write_native

#: The most wrong rows that are shown; of more, only the number is printed, and the report has them all.
PROBLEMS_SHOWN = 10

#: Runs cases somewhere and yields the index of each with its result.
Runner = Callable[[Sequence[Case]], Iterator[tuple[int, Result | Failed]]]


class _Console(Console):
    """Standard error, on which a text is as it is: no word of it is markup, and no line is wrapped.

    A name such as "mine:x:" would be an emoji, and a wrapped line is not found by grep.
    """

    def __init__(self) -> None:
        super().__init__(stderr=True, highlight=False, markup=False, emoji=False)

    def print(self, *objects: Any, **options: Any) -> None:
        # A progress bar is drawn by print(), too, and fits the terminal.
        super().print(*objects, **{"soft_wrap": bool(objects) and isinstance(objects[0], str), **options})


def main(arguments: Sequence[str], run_elsewhere: Runner | None = None) -> int:
    """Carry out the command line; return the exit code. Bad input is reported in one line."""
    console = _Console()
    silence_solvers()
    try:
        order = understand(arguments)
        _check_outputs(order)
        for case in order.cases:
            check_numbers(case)
            _check_plugins(case)
        if order.scenario is not None:
            return _replay(order.scenario, order, _command(arguments), console)
        if order.export is not None:
            return _export(order, console)
        return _simulate(order, arguments, console, run_elsewhere)
    except (InputError, SchedulingError, OSError) as error:
        console.print(f"simulate: {error}", style="red")
        return 2


def _check_outputs(order: Order) -> None:
    for option, file in (("--json", order.json), ("--export", order.export), ("--ledger", order.ledger)):
        check_file(option, file)
    check_folder("--report", order.report)


def _check_plugins(case: Case) -> None:
    """Raise for a wrong name at once, not after hours of reading and simulating."""
    # A scenario's file may name the policy.
    if policy := policy_text(case.policy):
        if case.rounds:
            check_name("Gavel's rounds have no policy", policy, choices.POLICIES)
            choices.shares_named(policy)
        else:
            check_name("there is no policy", policy, POLICIES)
            make_policy(policy)
    if placer := placer_text(case.placer):
        check_name("there is no placer", placer, PLACERS)
        make_placer(placer)


def _command(arguments: Sequence[str]) -> str:
    return "manage.py simulate " + shlex.join(arguments)


def _replay(scenario: Path, order: Order, command: str, console: Console) -> int:
    with ExitStack() as files:
        ledger = None if order.ledger is None else files.enter_context(LedgerFile(order.ledger))
        on_round = None if ledger is None else ledger.on_round
        result = replay_scenario(scenario, order.cases[0], sys.stdout, on_round)
        if ledger is not None:
            console.print(ledger.words)
    _say_left_out(result.left_out, console)
    # A scenario about loans and nodes needs no jobs.
    _say_faults([result] if result.jobs or result.cut_short else [], console)
    _write([result], order, (), command, console)
    return 0 if result.is_whole or not (result.jobs or result.cut_short or result.degraded) else 1


def _export(order: Order, console: Console) -> int:
    assert order.export is not None
    case = order.cases[0]
    workload, problems = read_workload(case, load_cluster(case.cluster) if case.cluster else None)
    _warn(problems, console)
    _say_left_out(workload.left_out, console)
    write_native(workload, order.export)
    console.print(f"{wording.counted(len(workload.arrivals), 'job')} written to {order.export}")
    return 0


def _warn(problems: Sequence[str], console: Console) -> None:
    for problem in problems[:PROBLEMS_SHOWN]:
        console.print(f"skipped {problem}", style="yellow")
    if len(problems) > PROBLEMS_SHOWN:
        more = wording.counted(len(problems) - PROBLEMS_SHOWN, "row")
        console.print(f"and {more} more", style="yellow")


def _say_left_out(sentences: Iterable[str], console: Console) -> None:
    """Print each sentence about what is not simulated once."""
    for sentence in dict.fromkeys(sentences):
        console.print(sentence, style="yellow")


def _simulate(order: Order, arguments: Sequence[str], console: Console, run_elsewhere: Runner | None) -> int:
    # Read the files once here, in the parent, so that mistakes are reported at once, and only once.
    first = prepare(order.cases[0])
    _warn(first.problems, console)
    said = (*first.experiment.workload.left_out, *first.experiment.cluster.left_out)
    _say_left_out(said, console)
    if run_elsewhere is not None:
        results = _in_order(run_elsewhere(order.cases), order, console)
    elif order.processes > 1 and len(order.cases) > 1:
        results = _in_order(run_all(order.cases, order.processes), order, console)
    else:
        results = _one_by_one(order, first.experiment, console)
    _say_left_out([each for result in results for each in result.left_out if each not in said], console)
    code = _tell(results, order, first.problems, _command(arguments), console)
    return code if len(results) == len(order.cases) else 1


def _in_order(done: Iterator[tuple[int, Result | Failed]], order: Order, console: Console) -> list[Result]:
    """Return the results in the order of the cases, and print which cases have none."""
    results: dict[int, Result] = {}
    with _progress(console, order.quiet) as progress:
        task = progress.add_task("runs", total=len(order.cases))
        try:
            for place, result in done:
                if isinstance(result, Failed):
                    _say_failed(place, result.why, order, console)
                else:
                    results[place] = result
                progress.advance(task)
        except KeyboardInterrupt:
            console.print("Interrupted: the results below are those of the finished runs.", style="yellow")
    return [results[place] for place in sorted(results)]


def _say_failed(place: int, why: str, order: Order, console: Console) -> None:
    which = f"{_label(order.cases[place], order.cases)} (run {place + 1} of {len(order.cases)})"
    console.print(f"{which} has no result: {why}", style="red")


def _one_by_one(order: Order, first: Experiment, console: Console) -> list[Result]:
    """Run the cases here, each with a progress bar; Ctrl-C ends the present one, whose result stays valid."""
    stop = Stop()
    results: list[Result] = []
    with stop, _progress(console, order.quiet) as progress:
        jobs, gpus = len(first.workload.arrivals), sum(first.cluster.gpus_by_model.values())
        size = f"{wording.counted(jobs, 'job')} on {wording.counted(gpus, 'GPU')}"
        console.print(f"{first.workload.name}: {size}")
        for place, case in enumerate(order.cases):
            # The first case always begins, even after Ctrl-C, so that there is a result to write.
            if results and stop.requested:
                break
            try:
                experiment = first if place == 0 else prepare(case).experiment
                results.append(_run_here(experiment, _label(case, order.cases), order, progress, stop))
            except (InputError, SchedulingError, OSError) as error:
                if len(order.cases) == 1:
                    raise
                _say_failed(place, str(error), order, console)
    return results


def _run_here(experiment: Experiment, label: str, order: Order, progress: Progress, stop: Stop) -> Result:
    task = progress.add_task(label, total=len(experiment.workload.arrivals))

    def show(milestone: Milestone) -> None:
        progress.update(task, completed=milestone.ended_jobs)

    with ExitStack() as files:
        file = None if order.ledger is None else files.enter_context(LedgerFile(order.ledger))
        result = simulate(
            experiment,
            on_progress=show,
            is_interrupted=stop.is_requested,
            on_round=None if file is None else file.on_round,
        )
        if file is not None:
            progress.console.print(file.words)
    if not result.cut_short:
        progress.update(task, completed=len(experiment.workload.arrivals))
    return result


class Stop:
    """While entered, a first Ctrl-C is a request, checked between rounds; a second one interrupts."""

    def __init__(self) -> None:
        self.requested = False

    def is_requested(self) -> bool:
        return self.requested

    def __enter__(self) -> Stop:
        self._before = signal.signal(signal.SIGINT, self._request)
        return self

    def __exit__(self, *error: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _request(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True


def _progress(console: Console, quiet: bool) -> Progress:
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=quiet or not console.is_terminal,
    )


def _label(case: Case, cases: Sequence[Case]) -> str:
    """Return what distinguishes this case from the others."""
    words = [case.policy]
    if len({each.seed for each in cases}) > 1:
        words.append(f"seed {case.seed}")
    if case.placer:
        words.append(case.placer)
    return ", ".join(words)


def _tell(
    results: Sequence[Result], order: Order, problems: Sequence[str], command: str, console: Console
) -> int:
    """Write what was requested; a table of the main figures goes to standard output."""
    # Loaded only now, so that a mistyped option need not wait for numpy.
    from scheduler.simulation.report.comparison import summary_table
    from scheduler.simulation.report.measure import measure
    from scheduler.simulation.report.privately import against_private, private_text
    from scheduler.simulation.report.quantities import labels

    if not results:
        console.print("Nothing was simulated.", style="yellow")
        return 1
    window = order.cases[0].window
    measures = [measure(result, window) for result in results]
    sys.stdout.write(summary_table(measures) + "\n")
    private = private_text(list(zip(labels(measures), map(against_private, results), strict=True)))
    if private:
        sys.stdout.write(private + "\n")
    for result, name in zip(results, labels(measures), strict=True):
        for words in filter(None, (service_words(result), lending_words(result))):
            sys.stdout.write(f"{name}: {words}\n")
    _say_faults(results, console)
    _write(results, order, problems, command, console)
    return 0 if all(result.is_whole for result in results) else 1


def _say_faults(results: Sequence[Result], console: Console) -> None:
    """Print why runs ended early."""
    for result in results:
        if result.cut_short:
            console.print(f"{result.policy}: {result.cut_short}", style="yellow")
        for view, why in result.degraded.items():
            console.print(f"{result.policy}: view {view} was degraded: {why}", style="red")
        if not result.has_run:
            console.print(f"{result.policy}: no job ran", style="red")


def _write(
    results: Sequence[Result], order: Order, problems: Sequence[str], command: str, console: Console
) -> None:
    """Write the numbers and the page, if requested."""
    from scheduler.simulation.report.write import write_json, write_report

    window = order.cases[0].window
    if order.json is not None:
        write_json(
            results, order.json, command=command, problems=problems, window=window, jobs=order.jobs_in_json
        )
    if order.report is not None:
        page = write_report(
            results, order.report, command=command, problems=problems, window=window, jobs=order.jobs_in_json
        )
        console.print(f"Report: {page}")


_SAID = tuple([each.name for each in fields(LedgerLine)])
COLUMNS = ("at", "round_number", "view", "position", *_SAID, "person")


class LedgerFile:
    """The ledger of a simulation as a table: what was bid, won, paid, traded or lent in each round.

    The columns are those of the platform's own export (docs/ledger.md) without its ids; `at` is virtual time
    in seconds. Lines are written round by round, so that millions of them need no memory. Raises OSError
    where the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("w", newline="", encoding="utf-8")
        self._table = csv.writer(self._file, lineterminator="\n")
        self._table.writerow(COLUMNS)
        self.lines = 0

    def on_round(self, engine: Engine, outcomes: Sequence[ViewOutcome], plan: Plan) -> None:
        """Write the lines of a round."""
        for view, lines in sorted(plan.ledger.items()):
            for position, line in enumerate(lines):
                said = [_cell(getattr(line, name)) for name in _SAID]
                self._table.writerow([engine.now, plan.round_number, view, position, *said, ""])
                self.lines += 1

    @property
    def words(self) -> str:
        return f"Ledger: {wording.counted(self.lines, 'line')} in {self._path}"

    def __enter__(self) -> LedgerFile:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()


def _cell(value: Any) -> Any:
    """Return a value for a cell, lists and objects as JSON, as in the platform's own export."""
    if isinstance(value, str | int | float | None):
        return value
    return json.dumps(list(value) if isinstance(value, tuple) else dict(value), ensure_ascii=False)
