"""`manage.py cells`: specifications of cells in files, without a server and mostly without a database."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain as joined
from pathlib import Path
from typing import Any

import msgspec
import yaml

from scheduler.core.cells.chains import Layout
from scheduler.core.cells.compiling import compiled
from scheduler.core.cells.document import from_document, to_document
from scheduler.core.cells.errors import Problem, SpecificationError
from scheduler.core.sim.advice import Advice, AdviceError, Demands, Effort, advise
from scheduler.core.sim.recommending import DAY_SECONDS, Figures, Recommendation, recommendation
from scheduler.simulation.arguments import numbers_of, pairs_of
from scheduler.simulation.division import divided_by_cells
from scheduler.simulation.errors import InputError
from scheduler.simulation.experiment import ROUND_SECONDS
from scheduler.simulation.report.quantities import number, time_unit
from scheduler.simulation.sweep import Case, prepare
from scheduler.simulation.traces.registry import FORMATS
from scheduler.simulation.yaml_files import only_document

#: Finds what else is wrong with a specification, such as nodes that do not exist.
Further = Callable[[Layout], Iterable[Problem]]


def main(arguments: Sequence[str], further: Further | None = None) -> int:
    """Carry out the command line; return the exit code.

    The code is 1 for a specification with mistakes, and 2 for a file that cannot be read.
    """
    order = _parser(further).parse_args(arguments)
    try:
        return int(order.run(order))
    except (InputError, OSError) as error:
        sys.stderr.write(f"cells: {error}\n")
        return 2


def _parser(further: Further | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="manage.py cells", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser(
        "check", help="report what is wrong with a file, or what each virtual cluster gets"
    )
    command.add_argument("file", metavar="FILE", help="YAML or JSON; docs/cells.md describes it")
    command.add_argument(
        "--nodes-from-database",
        action="store_true",
        help="also check that the nodes, their GPUs and the virtual clusters exist",
    )
    command.set_defaults(run=lambda order: check(order.file, further))
    _add_advise(commands)
    return parser


def check(file: str, further: Further | None = None) -> int:
    """Print every problem of the file and return 1, or what each virtual cluster gets and return 0.

    Raises InputError or OSError when the file cannot be read.
    """
    try:
        layout = compiled(from_document(read_document(file)))
    except SpecificationError as error:
        problems: Sequence[Problem] = error.problems
    else:
        problems = tuple(further(layout)) if further is not None else ()
        if not problems:
            _print_shares(layout)
            return 0
    for problem in problems:
        sys.stdout.write(f"{file}: {problem}\n")
    return 1


def read_document(file: str) -> Any:
    """Return the content of a YAML or JSON file; raise InputError with the line when it is neither."""
    try:
        return only_document(file, Path(file).read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: is not YAML: {error}") from None


def _print_shares(layout: Layout) -> None:
    for chain in layout.chains.values():
        levels = ", ".join(
            f"{chain.count(level)} {kind}" for level, kind in reversed([*enumerate(chain.types)])
        )
        sys.stdout.write(f"{chain.name}: {levels}\n")
    for name, virtual in layout.specification.virtual_clusters.items():
        cells = [f"{count} {kind}" for kind, count in virtual.cells.items() if count]
        pinned = [f"{address} as {label}" for label, address in virtual.pinned.items()]
        gpus = " and ".join(f"{count} GPUs of {model}" for model, count in layout.guaranteed(name).items())
        sys.stdout.write(f"{name}: {', '.join(joined(cells, pinned)) or 'no cells'}")
        sys.stdout.write(f": {gpus}\n" if gpus else "\n")


ADVISE_DESCRIPTION = """\
Print which cells each virtual cluster should own so that its jobs wait least. Each assignment that may suit a
virtual cluster is simulated privately with its jobs; docs/adviser.md describes how the best are chosen.
Guarantees by counts count as the largest cells that they fill.
"""


def _add_advise(commands: Any) -> None:
    """Add `cells advise`: which cells each virtual cluster should own, based on the jobs of a trace."""
    parser = commands.add_parser(
        "advise", help="print which cells each virtual cluster should own", description=ADVISE_DESCRIPTION
    )
    parser.add_argument("--cluster", metavar="SPEC|FILE", required=True, help="docs/clusters.md")
    parser.add_argument("--jobs", metavar="FILE", required=True, help="a trace, in the format of --format")
    parser.add_argument("--format", default="allot", choices=sorted(FORMATS), help="default: allot, our own")
    parser.add_argument("--limit", type=int, metavar="N", help="use only the first N jobs of the trace")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="of the format")
    parser.add_argument("--policy", default="", metavar="NAME[:K=V,...]", help="default: the cluster's")
    parser.add_argument("--round-seconds", type=float, default=ROUND_SECONDS, metavar="S")
    parser.add_argument("--days", type=float, metavar="N", help="use only the last N days; default: all")
    parser.add_argument(
        "--budget",
        action="append",
        default=[],
        metavar="MODEL=GPUS",
        help="the most that may be owned in all",
    )
    parser.add_argument("--price", action="append", default=[], metavar="MODEL=X", help="of one GPU-hour")
    parser.add_argument(
        "--minimum",
        action="append",
        default=[],
        metavar="VC:TYPE=CELLS",
        help="cells that it must own, possibly as parts of larger ones",
    )
    parser.add_argument("--keep", action="append", default=[], metavar="VC", help="leave it as it is")
    parser.add_argument(
        "--effort", type=int, metavar="JOBS", help="jobs simulated in all trials; default 300,000"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="all numbers, including the curves")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the advised specification, as YAML")
    parser.set_defaults(run=advise_by_a_trace)


def advise_by_a_trace(order: argparse.Namespace) -> int:
    """Print the advice and return 0; 1 when the demands cannot be met. Raises InputError."""
    demands = _demands(order)
    try:
        found = _advice(order, demands)
    except AdviceError as error:
        for problem in error.problems:
            sys.stdout.write(f"{problem}\n")
        return 1
    said = recommendation(found, demands.price_per_gpu_hour)
    document = to_document(found.specification)
    sys.stdout.write(text_of(said))
    if order.json is not None:
        whole = {**msgspec.to_builtins(said), "jobs": found.jobs, "specification": document}
        order.json.write_bytes(msgspec.json.encode(whole) + b"\n")
    if order.out is not None:
        order.out.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return 0


def _demands(order: argparse.Namespace) -> Demands:
    minimum: dict[str, dict[str, int]] = {}
    for where, count in pairs_of("--minimum", order.minimum).items():
        vc, colon, kind = where.partition(":")
        if not (vc and colon and kind and count.isdecimal()):
            raise InputError(f"--minimum {where}={count}: write VC:TYPE=CELLS")
        minimum.setdefault(vc, {})[kind] = int(count)
    return Demands(
        budget_gpus=_budgets(order.budget),
        price_per_gpu_hour=_prices(order.price),
        minimum=minimum,
        keep=tuple(order.keep),
    )


def _budgets(texts: Sequence[str]) -> Mapping[str, int]:
    budgets = numbers_of("--budget", texts)
    for model, gpus in budgets.items():
        if not (gpus >= 0 and gpus.is_integer()):
            raise InputError(f"--budget {model}={gpus:g}: write MODEL=GPUS, a whole number of them")
    return {model: int(gpus) for model, gpus in budgets.items()}


def _prices(texts: Sequence[str]) -> Mapping[str, float]:
    prices = numbers_of("--price", texts)
    for model, price in prices.items():
        if not 0 <= price < math.inf:
            raise InputError(f"--price {model}={price:g}: a price must be a number of at least 0")
    return prices


def _advice(order: argparse.Namespace, demands: Demands) -> Advice:
    case = Case(
        cluster=order.cluster,
        trace=order.jobs,
        format=order.format,
        limit=order.limit,
        policy=order.policy,
        round_seconds=order.round_seconds,
        options=pairs_of("--option", order.option),
    )
    experiment = prepare(case).experiment
    cluster = experiment.cluster
    base = cluster.cells or divided_by_cells(cluster).cells
    assert base is not None
    arrivals = experiment.workload.arrivals
    last = max((arrival.job.submitted_at for arrival in arrivals), default=0.0)
    since = 0.0 if order.days is None else max(0.0, last - order.days * DAY_SECONDS)
    # Jobs submitted before the window are left out.
    recent = [arrival for arrival in arrivals if arrival.job.submitted_at >= since]
    return advise(
        replace(experiment.facts(), now=since, cells=None),
        base,
        recent,
        demands,
        window_seconds=max(1.0, last - since),
        rules=experiment.rules,
        effort=Effort() if order.effort is None else Effort(simulated_jobs=order.effort),
    )


def text_of(said: Recommendation) -> str:
    """Return the advice as plain text."""
    unit = time_unit(figures.delay_p95_seconds for row in said.rows for figures in (row.today, row.advised))

    def cells(figures: Figures) -> str:
        return ", ".join(f"{count} {kind}" for kind, count in figures.cells.items()) or "none"

    def line(name: str, when: str, figures: Figures) -> list[str]:
        return [
            name,
            when,
            cells(figures),
            str(figures.gpus),
            number(figures.delay_mean_seconds / unit.seconds),
            number(figures.delay_p95_seconds / unit.seconds),
            f"{figures.utilisation:.0%}",
            number(figures.cost_per_day),
        ]

    header = ["", "", "cells", "GPUs", f"mean delay ({unit.symbol})", "p95", "used", "a day"]
    lines = [header]
    for row in said.rows:
        lines += [line(row.virtual_cluster, "today", row.today), line("", "advised", row.advised)]
    widths = [max(len(each[column]) for each in lines) for column in range(len(header))]
    table = [
        "  ".join(
            text.ljust(width) if column < 3 else text.rjust(width)
            for column, (text, width) in enumerate(zip(each, widths, strict=True))
        ).rstrip()
        for each in lines
    ]
    totals = (
        f"In all {said.today.gpus} > {said.advised.gpus} GPUs, mean delay"
        f" {number(said.today.delay_mean_seconds / unit.seconds)} >"
        f" {number(said.advised.delay_mean_seconds / unit.seconds)} {unit.symbol}, used"
        f" {said.today.utilisation:.0%} > {said.advised.utilisation:.0%}."
    )
    whys = [f"{row.virtual_cluster}: {row.why}" for row in said.rows]
    return "\n".join([*table, "", *whys, "", totals, said.assumption]) + "\n"
