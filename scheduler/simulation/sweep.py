"""Run many simulations: every policy with every seed and parameter, in processes here or elsewhere.

An experiment is described by plain values (`Case`), so that it can be sent to another process or a Celery
worker. A process that runs it reads the files again and gives the same result.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, TypeVar

from scheduler.core.model import wording
from scheduler.core.model.errors import SchedulingError
from scheduler.core.sim.costs import OF_JOBS, CostFor, Costs
from scheduler.core.sim.failures import Failures
from scheduler.core.sim.result import Result
from scheduler.core.sim.rules import Rules
from scheduler.core.sim.scaling_jobs import GoodputFacts
from scheduler.core.sim.speeds import Speeds
from scheduler.core.sim.workload import Workload
from scheduler.simulation.autoscaling import read_autoscaling
from scheduler.simulation.clusters import load_cluster
from scheduler.simulation.division import divided_by_cells
from scheduler.simulation.errors import InputError
from scheduler.simulation.experiment import (
    ROUND_SECONDS,
    VIEW_BUDGET_SECONDS,
    Experiment,
    check_round_seconds,
    check_view_budget,
)
from scheduler.simulation.gavel.run import ROUND_SECONDS as GAVEL_SECONDS
from scheduler.simulation.gavel.workload import generate_gavel, is_gavel, parse_gavel
from scheduler.simulation.generate import generate
from scheduler.simulation.generator_spec import read_generator
from scheduler.simulation.inventory import ClusterSpec
from scheduler.simulation.joining import join
from scheduler.simulation.outside import placer_text, policy_text
from scheduler.simulation.quiet import silence_solvers
from scheduler.simulation.rates import ThroughputTable
from scheduler.simulation.run import simulate
from scheduler.simulation.throughputs import read_throughputs
from scheduler.simulation.traces.options import TraceOptions, parse_options
from scheduler.simulation.traces.registry import node_size, read_trace

T = TypeVar("T")

#: Axes that hold numbers.
_NUMBERS: Mapping[str, Callable[[str], float]] = {
    "round_seconds": float,
    "locality": float,
    "limit": int,
    "interference": float,
}
#: Axes that are off or on.
_SWITCHES = ("cells", "steps", "moves", "autoscaling")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One experiment by the names of its files and its parameters, as on the command line."""

    cluster: str
    #: A trace and its format, or the parameters of a generator.
    trace: str = ""
    format: str = ""
    generator: str = ""
    policy: str = "fifo"
    placer: str = ""
    throughputs: str = ""
    #: None for a minute, or for the length of Gavel's own rounds.
    round_seconds: float | None = None
    #: Empty for the platform's rounds, else Gavel's own.
    rounds: str = ""
    limit: int | None = None
    seed: int = 0
    strict: bool = False
    window: tuple[int, int] | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    costs: Mapping[str, float] = field(default_factory=dict)
    failures: Mapping[str, float] = field(default_factory=dict)
    locality: float = 1.0
    #: Whether jobs report their steps.
    steps: bool = False
    #: What the scheduler knows about how jobs with a profile scale: what they measured so far, or the truth.
    goodput: str = "measured"
    #: The part of its speed that a gang over several nodes loses beside another one.
    interference: float = 0.0
    #: The bounds of the number of nodes in service; if empty, all nodes are.
    autoscaling: Mapping[str, float] = field(default_factory=dict)
    #: Whether running jobs may be moved.
    moves: bool = True
    #: Whether every guarantee is divided by cells.
    cells: bool = False
    private: bool = False
    #: Seconds on the clock that a policy and a placer have for a view in a round.
    view_budget_seconds: float = VIEW_BUDGET_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCase:
    """An experiment, and the problems of its input."""

    experiment: Experiment
    problems: tuple[str, ...] = ()


def prepare(case: Case) -> PreparedCase:
    """Read the files of a case; raise InputError for unusable ones."""
    _check_rounds(case)
    table = table_of(case)
    cluster = load_cluster(case.cluster)
    if case.cells:
        cluster = divided_by_cells(cluster)
    workload, problems = read_workload(case, cluster)
    cluster, workload = join(cluster, workload, strict=case.strict)
    _check_window(case.window, workload)
    experiment = Experiment(
        cluster=cluster,
        workload=workload,
        policy=policy_text(case.policy),
        placer=placer_text(case.placer),
        rules=rules_of(case, cluster, table),
        round_seconds=_round_seconds(case),
        rounds=case.rounds,
        window=case.window,
        private=case.private,
        strict=case.strict,
        view_budget_seconds=case.view_budget_seconds,
    )
    return PreparedCase(experiment=experiment, problems=problems)


def rules_of(case: Case, cluster: ClusterSpec, table: ThroughputTable | None) -> Rules:
    """Return the rules of the world that a case describes; raise InputError for impossible ones."""
    return Rules(
        speeds=Speeds(
            tables=table, default_locality=_locality(case.locality), gpus_per_node=cluster.largest_node
        ),
        costs=_costs(case.costs),
        failures=_made(Failures, "failure", case.failures),
        tells_steps=case.steps,
        moves=case.moves,
        goodput=_goodput(case.goodput),
        interference=_interference(case.interference),
        autoscaling=read_autoscaling("autoscaling", case.autoscaling) if case.autoscaling else None,
        seed=case.seed,
    )


def _goodput(text: str) -> GoodputFacts:
    if text == "measured":
        return "measured"
    if text == "true":
        return "true"
    raise InputError(f"goodput is {text!r}; it must be measured or true")


def _locality(part: float) -> float:
    # Above 1 a spread gang would be faster than a consolidated one, and with 0 a job would never end.
    if not 0 < part <= 1:
        raise InputError(f"locality is {part:g}; it must be above 0 and at most 1")
    return part


def _interference(part: float) -> float:
    if not 0 <= part < 1:
        raise InputError(f"interference is {part}; it must be from 0 to below 1")
    return part


def _check_limit(limit: int | None) -> None:
    if limit is not None and limit < 1:
        raise InputError(f"limit is {limit}; it must be at least 1, or be left out for all jobs")


def check_numbers(case: Case) -> None:
    """Raise InputError for an impossible number, before any file is read or other case simulated."""
    _check_limit(case.limit)
    check_round_seconds(_round_seconds(case))
    check_view_budget(case.view_budget_seconds)
    _locality(case.locality)
    _interference(case.interference)
    _costs(case.costs)
    _made(Failures, "failure", case.failures)
    if case.autoscaling:
        read_autoscaling("autoscaling", case.autoscaling)


def _round_seconds(case: Case) -> float:
    if case.round_seconds is not None:
        return case.round_seconds
    return GAVEL_SECONDS if case.rounds else ROUND_SECONDS


def _check_rounds(case: Case) -> None:
    """Refuse what Gavel's own rounds do not support."""
    given = {
        "cells": case.cells,
        "private clusters": case.private,
        "placers": bool(case.placer),
        "costs": bool(case.costs),
        "failures": bool(case.failures),
        "locality": case.locality != 1.0,
        "steps": case.steps,
        "interference": case.interference != 0.0,
        "bans on moving": not case.moves,
        "goodput": case.goodput != "measured",
    }
    strange = [name for name, is_given in given.items() if is_given]
    if case.rounds and strange:
        raise InputError(f"--rounds {case.rounds} does not support {wording.listed(strange)}: leave that out")


def read_workload(case: Case, cluster: ClusterSpec | None = None) -> tuple[Workload, tuple[str, ...]]:
    """Read or generate the jobs of a case; return the workload and the problems of its input.

    For a cluster, gangs are split as its nodes require, and jobs that are too large for it are problems.
    """
    _check_limit(case.limit)
    options = parse_options(case.options, TraceOptions(seed=case.seed, throughputs=table_of(case)))
    if case.generator:
        if case.trace:
            raise InputError("a trace and a generator exclude each other")
        if is_gavel(case.generator):
            return generate_gavel(parse_gavel(case.generator), seed=case.seed, options=options), ()
        return generate(read_generator(case.generator), seed=case.seed, options=options), ()
    if not case.trace:
        raise InputError("there is nothing to simulate: give a trace or a generator")
    if cluster is not None:
        options = _for_cluster(options, node_size(case.format), cluster)
    reading = read_trace(case.trace, case.format, strict=case.strict, limit=case.limit, options=options)
    return reading.workload, tuple(map(str, reading.problems))


def table_of(case: Case) -> ThroughputTable | None:
    """Return the throughput table that a case names."""
    return read_throughputs(case.throughputs) if case.throughputs else None


def _for_cluster(options: TraceOptions, node_size: int, cluster: ClusterSpec) -> TraceOptions:
    """Return the options with what the cluster decides, where the user has not set them."""
    if options.gpus_per_node is None:
        # A gang is split as the nodes of the trace's own cluster required, or as those of this one require.
        options = replace(options, gpus_per_node=min(node_size, cluster.largest_node))
    if options.largest_gpus is None:
        options = replace(options, largest_gpus=cluster.largest_gang)
    if not options.gpu_models:
        options = replace(options, gpu_models=frozenset(cluster.gpus_by_model))
    return options


def _check_window(window: tuple[int, int] | None, workload: Workload) -> None:
    if window is not None and not 0 <= window[0] < window[1] <= len(workload.arrivals):
        raise InputError(
            f"window {window[0]}:{window[1]} is not within the"
            f" {wording.counted(len(workload.arrivals), 'job')} of the workload"
        )


def _costs(given: Mapping[str, float]) -> Costs:
    """Return the costs: NAME of all, NAME@GPUS of gangs of at least this size, NAME@KIND[@GPUS] of a kind."""
    plain = _made(Costs, "cost", {name: value for name, value in given.items() if "@" not in name})
    special = []
    for text, seconds in given.items():
        name, *rest = text.split("@")
        if not rest:
            continue
        gpus = int(rest.pop()) if rest[-1].isdecimal() else 0
        if name not in OF_JOBS or len(rest) > 1 or (rest and not rest[0]):
            raise InputError(
                f"cost {text!r}: write NAME@GPUS, NAME@KIND or NAME@KIND@GPUS, NAME being one of"
                f" {wording.either(OF_JOBS)}"
            )
        special.append(CostFor(name=name, seconds=seconds, application="".join(rest), least_gpus=gpus))
    try:
        return replace(plain, special=tuple(special))
    except ValueError as error:
        raise InputError(f"cost: {error}") from None


def _made(kind: type[T], word: str, given: Mapping[str, float]) -> T:
    """Return the parameters as their dataclass; raise InputError that names a wrong one."""
    known = [each.name for each in fields(kind) if each.name not in ("classes", "special")]  # type: ignore[arg-type]
    for name in given:
        if name not in known:
            raise InputError(f"there is no {word} {name!r}; choose {wording.either(known)}")
    try:
        return kind(**given)
    except ValueError as error:
        raise InputError(f"{word}: {error}") from None


def run_case(case: Case) -> Result:
    """Simulate one case in this process."""
    silence_solvers()
    return simulate(prepare(case).experiment)


def expand(
    case: Case, policies: Sequence[str], seeds: Sequence[int], axes: Mapping[str, Sequence[str]]
) -> list[Case]:
    """Return the case with every combination of policy, seed and the values of each axis, in that order.

    An axis is a field of Case that holds a number, a text, or no or yes, or an entry of its costs, failures
    or autoscaling, such as "costs.start_seconds". Raises InputError for another axis, and for a value that is
    none of the axis.
    """
    cases = [replace(case, policy=policy, seed=seed) for policy in policies for seed in seeds]
    for axis, values in axes.items():
        cases = [_with(each, axis, value) for each in cases for value in values]
    return cases


def _with(case: Case, axis: str, text: str) -> Case:
    group, dot, name = axis.partition(".")
    if axis in ("placer", "cluster", "trace"):
        name_of: Any = {axis: text}
        return replace(case, **name_of)
    if axis in _SWITCHES and text not in ("no", "yes"):
        raise InputError(f"axis {axis}: {text!r} is neither no nor yes")
    if axis == "autoscaling":
        if not case.autoscaling:
            raise InputError("axis autoscaling: state its bounds, such as --autoscaling min_nodes=1")
        return case if text == "yes" else replace(case, autoscaling={})
    if axis in _SWITCHES:
        is_on: Any = {axis: text == "yes"}
        return replace(case, **is_on)
    if not (axis in _NUMBERS or (dot and group in ("costs", "failures", "autoscaling"))):
        choices = [
            *_NUMBERS,
            "placer",
            *[f"{switch}=no,yes" for switch in _SWITCHES],
            "cluster",
            "trace",
            "costs.NAME",
            "failures.NAME",
            "autoscaling.NAME",
        ]
        raise InputError(f"there is no axis {axis!r}; choose {wording.either(choices)}")
    kind = _NUMBERS.get(axis, float)
    try:
        value = kind(text)
    except ValueError:
        what = "a whole number" if kind is int else "a number"
        raise InputError(f"axis {axis}: {text!r} is not {what}") from None
    changed: Any = {**getattr(case, group), name: value} if dot else value
    return replace(case, **{group: changed})


@dataclass(frozen=True, slots=True)
class Failed:
    """Stands for the result of a case that has none."""

    why: str


#: The outcome of a case whose process ended before it had a result.
_DIED = Failed("its process died, killed for lack of memory or ended by a policy or placer")


def run_all(cases: Sequence[Case], processes: int) -> Iterator[tuple[int, Result | Failed]]:
    """Simulate all cases, `processes` at a time; yield the index and the result of each as it finishes.

    The results are those that `run_case` gives.
    """
    if processes <= 1:
        for place, case in enumerate(cases):
            yield place, run_or_fail(case)
        return
    workers = [_Worker() for _ in range(min(processes, len(cases)))]
    idle = SimpleQueue[_Worker]()
    for worker in workers:
        idle.put(worker)
    threads = ThreadPoolExecutor(len(workers))
    try:
        places = {threads.submit(_run_on_one, idle, case): place for place, case in enumerate(cases)}
        for done in as_completed(places):
            yield places[done], done.result()
    finally:
        # Before the threads, which wait for what their workers answer.
        for worker in workers:
            worker.end()
        threads.shutdown(cancel_futures=True)


def _run_on_one(idle: SimpleQueue[_Worker], case: Case) -> Result | Failed:
    worker = idle.get()
    try:
        return worker.run(case)
    finally:
        idle.put(worker)


class _Worker:
    """A process that runs one case after the other, and another one after it if it dies."""

    def __init__(self) -> None:
        # Not forked: the parent may hold connections, and a fork would share them.
        self._context = multiprocessing.get_context("spawn")
        self._is_over = False
        self._begin()

    def _begin(self) -> None:
        self._line, theirs = self._context.Pipe()
        self._process = self._context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()

    def run(self, case: Case) -> Result | Failed:
        try:
            self._line.send(case)
            result: Result | Failed = self._line.recv()
        except (EOFError, OSError):
            if not self._is_over:
                self._begin()
            return _DIED
        return result

    def end(self) -> None:
        """End the process, also amid a case, which then has no result."""
        self._is_over = True
        self._process.terminate()
        self._process.join()


def _serve(line: Connection) -> None:
    """Run the cases that come on the line, until the parent ends this process or is gone."""
    # Ctrl-C reaches all processes of the terminal; the parent ends its workers itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(EOFError):
        while True:
            line.send(run_or_fail(line.recv()))


def run_or_fail(case: Case) -> Result | Failed:
    """Simulate one case in this process; one that fails must not cost the others their results."""
    try:
        return run_case(case)
    except (InputError, SchedulingError, OSError) as error:
        return Failed(str(error))
