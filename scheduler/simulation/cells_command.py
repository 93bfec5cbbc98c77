"""`manage.py cells`: specifications of cells in files, without a server, and mostly without a database."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import chain as joined
from pathlib import Path
from typing import Any

import yaml

from scheduler.core.cells.chains import Layout
from scheduler.core.cells.compiling import compiled
from scheduler.core.cells.document import from_document
from scheduler.core.cells.errors import Problem, SpecificationError
from scheduler.simulation import advise_command
from scheduler.simulation.errors import InputError

#: Finds what else is wrong with a specification, such as nodes that do not exist.
Further = Callable[[Layout], Iterable[Problem]]


def main(arguments: Sequence[str], further: Further | None = None) -> int:
    """Do what the command line says; return the exit code: 1 for a specification with mistakes, 2 for a
    file that can not be read."""
    order = _parser(further).parse_args(arguments)
    try:
        return int(order.run(order))
    except (InputError, OSError) as error:
        sys.stderr.write(f"cells: {error}\n")
        return 2


def _parser(further: Further | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="manage.py cells", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser("check", help="say what is wrong with a file, or what everybody gets")
    command.add_argument("file", metavar="FILE", help="YAML or JSON; docs/cells.md describes it")
    command.add_argument(
        "--nodes-from-database",
        action="store_true",
        help="also check that the nodes, their GPUs and the virtual clusters exist",
    )
    command.set_defaults(run=lambda order: check(order.file, further))
    advise_command.add_parser(commands)
    return parser


def check(file: str, further: Further | None = None) -> int:
    """Print every problem of the file and return 1, or what each virtual cluster gets and return 0.

    Raises InputError or OSError when the file can not be read.
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
    """Return what a YAML or JSON file holds; raise InputError with the line when it is neither."""
    try:
        return yaml.safe_load(Path(file).read_text(encoding="utf-8"))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise InputError(f"{file}:{line}: is not YAML: {error.problem}") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
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
