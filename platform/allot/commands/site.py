"""export, apply: a whole site as one file, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from allot.commands.admin.asking import confirm
from allot.commands.options import JsonOption, connect
from allot.commands.vc import lapsing_lines
from allot.errors import FieldProblem
from allot.output import Format, plural, print_line, print_objects, say
from allot.specfiles import read_document

if TYPE_CHECKING:
    from allot.client import Client
    from allot.site.present import Present


def export(as_json: JsonOption = False) -> None:
    """Print users, tenants, nodes, virtual clusters and cells as one file, without secrets. For operators.

    `allot export > site.yaml` writes a file that `allot apply -f site.yaml` accepts.
    """
    from allot.site.present import present

    with connect() as client:
        print_objects(present(client).document(), Format.json if as_json else Format.yaml)


def apply(
    file: Annotated[
        str,
        typer.Option("--file", "-f", metavar="FILE", help="File in YAML or JSON; - reads standard input."),
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Make the changes without asking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the changes.")] = False,
) -> None:
    """Apply a file that describes the site: show the changes, ask, and make them. For operators.

    What the file does not name stays as it is. A list in the file is complete: members and quota lines that
    are not in it are removed. Applying the same file again changes nothing.
    """
    from allot.site.carrying_out import carry_out
    from allot.site.document import check_form, refuse
    from allot.site.present import present
    from allot.site.steps import problems_with_names, steps

    document = read_document(file, "a site, such as `allot export` prints")
    check_form(document)
    asked = {tenant["name"] for tenant in document.get("tenants", ()) if "invitations" in tenant}
    with connect() as client:
        now = present(client, invitations_of=asked.__contains__)
        refuse(problems_with_names(document, now))
        if "cells" in document:
            document["cells"] = _written_out(client, document, now)
        planned = steps(document, now)
        if not planned:
            say("No changes.")
            return
        for step in planned:
            for line in step.lines:
                print_line(line)
        if dry_run:
            say(f"{plural(len(planned), 'change')}; none was made.")
            return
        confirm(f"Make {plural(len(planned), 'change')}?", yes=yes)
        for step, handed_over in carry_out(planned, client):
            say(f"done: {step.where}")
            if handed_over:
                print_line(handed_over)
    say(f"{plural(len(planned), 'change')} made.")


def _written_out(client: Client, document: dict[str, Any], now: Present) -> dict[str, Any]:
    """Return the cells of the file as the server writes them out, and say whose guarantees would lapse."""
    if document["cells"] == now.cells:
        return dict(now.cells)
    from allot.site.document import refuse

    checked = client.check_cells(document["cells"])
    made_before = {
        f"virtual_clusters.{vc['name']}"
        for vc in document.get("virtual_clusters", ())
        if vc["name"] not in now.virtual_clusters
    }
    refuse(
        [
            FieldProblem(f"cells.{one['field']}", one["problem"], one["expected"])
            for one in checked["problems"]
            if one["field"] not in made_before
        ]
    )
    for line in lapsing_lines(checked["effects"]):
        say(line)
    return dict(checked["specification"] or {})


def register(app: typer.Typer) -> None:
    app.command()(apply)
    app.command()(export)
