"""vc: virtual clusters and their cells: list, show, cells, check, apply, propose (more in `advice`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from allot.commands.cluster import vcs
from allot.commands.options import OutputOption, QuietOption, connect
from allot.describe import problem_lines
from allot.errors import AllotError, FieldProblem
from allot.output import Format, plural, print_line, print_objects, print_table, say
from allot.specfiles import read_document

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allot.client import Client
    from allot.schema import CellEffect, CellNode, CellsCheck, ChainCells, OwnedCells, VirtualClusterHoldings

group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the virtual cluster.", show_default=False)]
File = Annotated[
    str, typer.Argument(metavar="FILE", help="A specification in YAML or JSON; - reads standard input.")
]
COUNTS = ("GPUS", "FREE", "USED", "EXTRA", "BAD")


@group.command(name="list")
def list_all(output: OutputOption = Format.table, quiet: QuietOption = False) -> None:
    """List virtual clusters; the same as `allot vcs`."""
    vcs(None, output, quiet)


@group.command()
def show(name: Name, output: OutputOption = Format.table) -> None:
    """Show a virtual cluster and the cells that it owns."""
    vcs(name, output, False)
    if output is Format.table:
        with connect() as client:
            found = client.cells_of(name)
        if found["cells"]:
            print_line("")
            _print_owned(found["cells"])


@group.command()
def cells(
    name: Annotated[
        str | None, typer.Argument(help="Only cells of this virtual cluster, and where they are now.")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="ADDRESS",
            help="Only what is inside the cell with this address, such as rack-1/node-3.",
        ),
    ] = None,
    depth: Annotated[int, typer.Option("--depth", "-d", min=1, max=16, help="Number of levels to show.")] = 2,
    output: OutputOption = Format.table,
) -> None:
    """Show the tree of cells and how their GPUs are used, or the cells of one virtual cluster.

    EXTRA counts GPUs that opportunistic jobs use, BAD those that cannot be used.
    """
    with connect() as client:
        if name is not None:
            _print_of(client.cells_of(name), output)
            return
        found = [cell for top in client.cell_tree(at=at) for cell in _with_inside(client, top, depth - 1)]
        if output is not Format.table:
            print_objects(found, output)
        elif found:
            _print_tree(found)
            for chain in client.cells()["chains"]:
                _warn_of_doomed(chain["cells"])
        else:
            say("The cluster is not divided by cells. `allot vc propose` prints a first specification.")


def _with_inside(client: Client, cell: CellNode, levels: int) -> list[CellNode]:
    inside = client.cell_tree(at=cell["address"]) if levels and cell["children"] else []
    return [cell, *(each for child in inside for each in _with_inside(client, child, levels - 1))]


def _print_tree(found: list[CellNode]) -> None:
    shallowest = min(cell["address"].count("/") for cell in found)
    rows = [
        [
            # Blanks at the begin of a cell of the table would be cut off.
            "· " * (cell["address"].count("/") - shallowest) + _label(cell, shallowest),
            cell["type"],
            *(cell["gpus"], cell["free"], cell["used"], cell["opportunistic"], cell["bad"]),
            cell["state"].upper(),
            (cell["virtual_cluster"] or "-") + (f" (pinned: {cell['pinned']})" if cell["pinned"] else ""),
        ]
        for cell in found
    ]
    print_table(["CELL", "TYPE", *COUNTS, "STATE", "VC"], rows, right=COUNTS)


def _label(cell: CellNode, shallowest: int) -> str:
    """The whole address of the topmost cells shown, the last step of those inside."""
    address = cell["address"]
    return address if address.count("/") == shallowest else address.rsplit("/", 1)[1]


def _print_of(found: VirtualClusterHoldings, output: Format) -> None:
    if output is not Format.table:
        print_objects(found, output)
    elif found["cells"]:
        _print_owned(found["cells"])
    else:
        say(f"Virtual cluster {found['virtual_cluster']} owns no cells.")


def _print_owned(owned: list[OwnedCells]) -> None:
    rows = [
        [
            f"{line['type']} ({line['name']})" if line["pinned"] else line["type"],
            line["chain"],
            *(line["gpus"], line["owned"], line["bound"], line["free"], line["doomed"]),
            ", ".join(line["addresses"]) or "-",
        ]
        for line in owned
    ]
    columns = ["CELLS OF TYPE", "CHAIN", "GPUS EACH", "OWNED", "BOUND", "FREE", "DOOMED", "NOW AT"]
    print_table(columns, rows, right=columns[2:7])


def _warn_of_doomed(levels: list[ChainCells]) -> None:
    for level in levels:
        if level["doomed"]:
            promised = plural(level["doomed"], f"promised {level['type']}")
            say(f"{promised} now have only broken hardware left.")


@group.command()
def check(file: File, output: OutputOption = Format.table) -> None:
    """Check a cell specification: show its errors, or what it would change. For operators."""
    document = _read(file)
    with connect() as client:
        checked = client.check_cells(document)
    if output is not Format.table:
        print_objects(checked, output)
    if not checked["valid"]:
        raise _refused(checked)
    if output is Format.table:
        _print_effects(checked)


@group.command()
def apply(
    file: File,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask before jobs lose their guarantee.")
    ] = False,
) -> None:
    """Divide the cluster into the cells of a specification. For operators.

    Asks before jobs lose their guarantee. Such jobs go on as opportunistic jobs: guaranteed jobs can reclaim
    their GPUs.
    """
    document = _read(file)
    with connect() as client:
        before = client.cells()["version"]
        checked = client.check_cells(document)
        if not checked["valid"]:
            raise _refused(checked)
        _print_effects(checked)
        lapsing = sum(effect["lapsing"] for effect in checked["effects"])
        if lapsing and not yes:
            typer.confirm(
                f"Let the guarantee of {plural(lapsing, 'running job')} lapse?", abort=True, err=True
            )
        done = client.set_cells(document, version=before)
    print_line(f"The cells are in force as version {done['version']}.")


@group.command()
def propose(output: Annotated[Format, typer.Option("--output", "-o")] = Format.yaml) -> None:
    """Print a first cell specification, made from today's hardware and guarantees. For operators.

    `allot vc propose > cells.yaml`
    """
    with connect() as client:
        proposed = client.propose_cells()
    print_objects(proposed, Format.yaml if output is Format.table else output)


def _read(file: str) -> dict[str, Any]:
    return read_document(file, "a specification of cells, such as `allot vc propose` prints")


def _refused(checked: CellsCheck) -> AllotError:
    problems = [FieldProblem(**problem) for problem in checked["problems"]]
    mistakes = plural(len(problems), "mistake")
    return AllotError("\n".join(problem_lines("", f"The specification has {mistakes}:", problems)))


def _print_effects(checked: CellsCheck) -> None:
    rows = [
        [name, ",".join(f"{model}:{gpus}" for model, gpus in guaranteed.items()) or "-"]
        for name, guaranteed in checked["guaranteed"].items()
    ]
    print_table(["VC", "GUARANTEED"], rows)
    for line in lapsing_lines(checked["effects"]):
        say(line)


def lapsing_lines(effects: list[CellEffect]) -> Iterator[str]:
    """Yield which virtual clusters' running jobs would lose their guarantee."""
    for effect in effects:
        if effect["lapsing"]:
            named = ", ".join(map(str, effect["jobs"]))
            more = "" if len(effect["jobs"]) == effect["lapsing"] else ", ..."
            jobs = f"{plural(effect['running'], 'running job')} of {effect['virtual_cluster']}"
            yield f"{effect['lapsing']} of {jobs} would lose the guarantee and run on without: {named}{more}."


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="vc", help="Show and manage virtual clusters and their cells.")
