"""The command line of `manage.py simulate`, and the cases that it asks for."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from scheduler.simulation.errors import InputError
from scheduler.simulation.experiment import DEFAULT_POLICY, ROUND_SECONDS, VIEW_BUDGET_SECONDS
from scheduler.simulation.gavel.run import ROUND_SECONDS as GAVEL_SECONDS
from scheduler.simulation.modes import given_options, refuse_unused
from scheduler.simulation.sweep import Case, expand
from scheduler.simulation.traces.registry import FORMATS

EPILOG = """\
Examples:
  manage.py simulate --trace jobs.csv --format philly --cluster p100=2496:8 --policy fifo --policy tiresias \\
      --report report
  manage.py simulate --trace jobs.csv --format allot --cluster lab.yaml --placer delay:relax_after_seconds=600
  manage.py simulate --scenario story.yaml
docs/simulator.md describes every option; docs/policies.md and docs/placers.md list the choices.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What the command line asks for."""

    cases: tuple[Case, ...]
    scenario: Path | None = None
    json: Path | None = None
    report: Path | None = None
    export: Path | None = None
    ledger: Path | None = None
    jobs_in_json: bool = False
    processes: int = 1
    quiet: bool = False


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="manage.py simulate",
        description="Run a trace, a generated workload or a scenario through the scheduler in virtual time.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = made.add_argument_group("workload and cluster")
    what.add_argument("--trace", metavar="FILE", default="", help="the jobs, in the format of --format")
    what.add_argument("--format", default="allot", choices=sorted(FORMATS), help="default: allot, our own")
    what.add_argument(
        "--generate",
        metavar="FILE",
        default="",
        help="parameters of the generator, instead of a trace; for Gavel's own generator gavel:jobs=N,...",
    )
    what.add_argument("--scenario", metavar="FILE", help="a file of timed events; prints every decision")
    what.add_argument(
        "--cluster", metavar="SPEC|FILE", default="", help="v100=36,p100=36:4, or a YAML or CSV file"
    )
    what.add_argument(
        "--cells", action="store_true", help="turn every guarantee into the largest cells that it fills"
    )
    what.add_argument(
        "--throughputs", metavar="FILE", default="", help="measured rates by application and model"
    )
    what.add_argument("--limit", type=int, metavar="N", help="use only the first N jobs")
    what.add_argument(
        "--window", metavar="A:B", help="measure only jobs A to B-1, and end with the last of them"
    )
    what.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option of reading the trace, such as estimate_error=0.5",
    )
    what.add_argument(
        "--strict",
        action="store_true",
        help="stop instead of leaving out wrong rows, rows without GPUs or jobs that can never run",
    )
    how = made.add_argument_group("scheduling")
    how.add_argument(
        "--policy",
        action="append",
        metavar="NAME[:K=V,...]",
        help="repeat to compare; default fifo; package.module:Class[:K=V,...] for one that is not installed",
    )
    how.add_argument(
        "--placer", default="", metavar="NAME[:K=V,...]", help="default: the cluster's, or else consolidate"
    )
    how.add_argument(
        "--round-seconds",
        type=float,
        metavar="S",
        help=f"default {ROUND_SECONDS:g}, for Gavel's rounds {GAVEL_SECONDS:g}; 0 for a round at every event",
    )
    how.add_argument(
        "--rounds",
        default="",
        metavar="gavel[:K=V,...]",
        help="the rounds of Gavel's published simulator instead of ours",
    )
    how.add_argument(
        "--view-budget",
        type=float,
        default=VIEW_BUDGET_SECONDS,
        metavar="S",
        help="end a run whose policy and placer take longer for a view in one round; "
        f"default {VIEW_BUDGET_SECONDS:g}",
    )
    how.add_argument("--seed", action="append", type=int, metavar="N", help="repeat to sweep; default 0")
    world = made.add_argument_group("simulated world")
    world.add_argument(
        "--cost",
        action="append",
        default=[],
        metavar="NAME[@KIND][@GPUS]=S",
        help="start_seconds, checkpoint_seconds, restore_seconds, migration_seconds, of all jobs, of a kind, "
        "or of gangs of at least GPUS GPUs; interval_seconds; event_seconds",
    )
    world.add_argument(
        "--failure",
        action="append",
        default=[],
        metavar="NAME=X",
        help="probability, mean_seconds, retries, backoff_seconds",
    )
    world.add_argument(
        "--locality",
        type=float,
        default=1.0,
        metavar="X",
        help="speed kept for each node beyond the fewest, where no table knows; default 1",
    )
    world.add_argument(
        "--steps",
        action="store_true",
        help="jobs report their steps, from which run times are measured, whatever was declared",
    )
    world.add_argument(
        "--goodput",
        choices=("measured", "true"),
        default="measured",
        help="what the scheduler knows about how jobs with a profile scale: what they have measured so far "
        "(default), or the truth",
    )
    world.add_argument(
        "--interference",
        type=float,
        default=0.0,
        metavar="X",
        help="part of its speed that a gang over several nodes loses beside another such gang; default 0",
    )
    world.add_argument(
        "--autoscaling",
        action="append",
        default=[],
        metavar="NAME=X",
        help="nodes come and go by utility: min_nodes, max_nodes, low_utility, high_utility, every_seconds",
    )
    world.add_argument(
        "--no-moves",
        dest="moves",
        action="store_false",
        help="a running job keeps its GPUs or is preempted, as in most published simulators",
    )
    sweep = made.add_argument_group("many runs")
    sweep.add_argument(
        "--sweep",
        action="append",
        default=[],
        metavar="AXIS=V1,V2",
        help="round_seconds, locality, interference, limit, placer, cluster, trace, cells=no,yes, "
        "steps=no,yes, moves=no,yes, autoscaling=no,yes, costs.NAME, failures.NAME, autoscaling.NAME",
    )
    sweep.add_argument(
        "--processes",
        type=int,
        default=1,
        metavar="N",
        help="runs at a time on this machine; 0: one per core",
    )
    sweep.add_argument(
        "--celery", action="store_true", help="spread the runs over the platform's Celery workers"
    )
    out = made.add_argument_group("output")
    out.add_argument("--report", type=Path, metavar="DIR", help="write a page, figures and the numbers")
    out.add_argument("--json", type=Path, metavar="FILE", help="write only the numbers")
    out.add_argument(
        "--private",
        action="store_true",
        help="also simulate each virtual cluster's private cluster, and list jobs that waited longer here",
    )
    out.add_argument("--jobs", action="store_true", help="add every job's record to the JSON")
    out.add_argument(
        "--export", type=Path, metavar="FILE", help="write the workload in our own format, and stop"
    )
    out.add_argument(
        "--ledger",
        type=Path,
        metavar="FILE",
        help="write what was bid, won, paid and traded, as CSV; only for one run",
    )
    out.add_argument("--quiet", action="store_true", help="no progress bar")
    return made


def understand(arguments: Sequence[str]) -> Order:
    """Return what a command line asks for; raise InputError for what is impossible."""
    reader = parser()
    given = reader.parse_args(arguments)
    options = given_options(reader, list(arguments))
    if not given.cluster and not given.scenario and not given.export:
        raise InputError("there is no cluster: give --cluster v100=16:8, or a file")
    refuse_unused(given, options)
    if given.processes < 0:
        raise InputError(f"--processes is {given.processes}; it must be at least 1, or 0 for one per core")
    case = Case(
        cluster=given.cluster,
        trace=given.trace,
        format=given.format,
        generator=given.generate,
        placer=given.placer,
        throughputs=given.throughputs,
        round_seconds=given.round_seconds,
        rounds=given.rounds,
        limit=given.limit,
        strict=given.strict,
        view_budget_seconds=given.view_budget,
        window=_window(given.window),
        options=pairs_of("--option", given.option),
        costs=numbers_of("--cost", given.cost),
        failures=numbers_of("--failure", given.failure),
        locality=given.locality,
        steps=given.steps,
        moves=given.moves,
        goodput=given.goodput,
        interference=given.interference,
        autoscaling=numbers_of("--autoscaling", given.autoscaling),
        cells=given.cells,
        private=given.private,
    )
    if given.report is not None and find_spec("matplotlib") is None:
        raise InputError("--report draws with matplotlib: install allotment-server[simulator]")
    axes = {name: values.split(",") for name, values in pairs_of("--sweep", given.sweep).items()}
    # A scenario's file may set what the command line leaves open.
    policies = given.policy or ["" if given.scenario else DEFAULT_POLICY]
    cases = tuple(expand(case, policies, given.seed or [0], axes))
    if given.ledger and len(cases) > 1:
        raise InputError("--ledger is for one run on this machine: give one policy, one seed and no sweep")
    return Order(
        cases=cases,
        scenario=None if given.scenario is None else Path(given.scenario),
        json=given.json,
        report=given.report,
        export=given.export,
        ledger=given.ledger,
        jobs_in_json=given.jobs,
        processes=given.processes or os.cpu_count() or 1,
        quiet=given.quiet,
    )


def pairs_of(option: str, texts: Iterable[str]) -> dict[str, str]:
    """Return what an option gives to each name; raise InputError for a text that is not NAME=VALUE, and for a
    name given twice.
    """
    values: dict[str, str] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if not name or not value:
            raise InputError(f"{option} {text}: write NAME=VALUE")
        if name in values:
            raise InputError(f"{option} {name} is given twice")
        values[name] = value
    return values


def numbers_of(option: str, texts: Iterable[str]) -> dict[str, float]:
    """Return the same as numbers; raise InputError for a value that is not one."""
    numbers: dict[str, float] = {}
    for name, text in pairs_of(option, texts).items():
        try:
            numbers[name] = float(text)
        except ValueError:
            raise InputError(f"{option} {name}: {text!r} is not a number") from None
    return numbers


def _window(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    first, colon, end = text.partition(":")
    if not (colon and first.isdigit() and end.isdigit()):
        raise InputError(f"--window {text}: write the first index and the end, such as 4000:5000")
    return int(first), int(end)
