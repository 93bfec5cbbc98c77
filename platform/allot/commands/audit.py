"""audit: who changed, read or was refused what, and from where."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from allot.commands.options import OutputOption, connect
from allot.errors import WrongUse
from allot.output import Format, local_time, print_line, print_objects, print_table
from allot.times import instant

if TYPE_CHECKING:
    from allot.client import Client
    from allot.schema import AuditEntry

#: Between two looks of --follow.
LOOK_AGAIN_SECONDS = 2.0
COLUMNS = ("ENTRY", "AT", "FROM", "ACTION", "WHAT")


def audit(
    who: Annotated[
        str | None, typer.Option(help="Only actions of this user, node or token (by its key).")
    ] = None,
    action: Annotated[
        str | None,
        typer.Option(help="Only this action, or actions that begin with this text: node., user.sign-in."),
    ] = None,
    object_kind: Annotated[
        str | None,
        typer.Option("--object", help='Only actions on this kind of object: job, "virtual cluster".'),
    ] = None,
    subject: Annotated[
        str | None, typer.Option(help="Only actions on the object with this name or id.")
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="Only entries of this tenant.")] = None,
    address: Annotated[
        str | None, typer.Option(help="Only requests from this address or network, such as 10.1.0.0/16.")
    ] = None,
    refused: Annotated[bool, typer.Option("--refused", help="Only refused requests.")] = False,
    since: Annotated[
        str | None, typer.Option(help="Only entries since this time: 2h (ago), or 2026-12-01T18:00.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="Maximum number of entries.", min=1)] = 50,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Print new entries as they are written, until Ctrl-C.")
    ] = False,
    export: Annotated[
        bool, typer.Option("--export", help="Print all entries as JSON lines, oldest first.")
    ] = False,
    after: Annotated[
        int, typer.Option(help="With --export: start after the entry with this number.", min=0)
    ] = 0,
    output: OutputOption = Format.table,
) -> None:
    """Show the audit log, newest entry last. Operators see all entries, admins those of their tenants."""
    filters: dict[str, Any] = {
        "who": who,
        "action": action,
        "object": object_kind,
        "subject": subject,
        "tenant": tenant,
        "address": address,
        "outcome": "refused" if refused else None,
        "since": _past(since).isoformat() if since else None,
    }
    if follow and output is not Format.table:
        raise WrongUse("--follow prints a table, or with --export JSON lines.")
    with connect(patient=follow) as client:
        if export:
            _export(client, filters, after, follow)
            return
        entries = list(client.audit.entries(filters, limit))[::-1]
        if output is not Format.table:
            print_objects(entries, output)
        else:
            print_table(COLUMNS, map(_row, entries), right=["ENTRY"])
        if follow:
            _follow(client, filters, entries[-1]["id"] if entries else 0)


def _past(text: str) -> datetime:
    """The instant that is written, or that long ago."""
    now = datetime.now().astimezone()
    moment = instant(text, "--since", after=now)
    return moment if moment <= now else now - (moment - now)


def _export(client: Client, filters: dict[str, Any], last: int, follow: bool) -> None:
    """Print lines of JSON; with `follow` until it is interrupted."""
    while True:
        for line in client.audit.lines(filters, last):
            print_line(line)
            last = json.loads(line)["id"]
        sys.stdout.flush()
        if not follow:
            return
        client.sleep(LOOK_AGAIN_SECONDS)


def _follow(client: Client, filters: dict[str, Any], last: int) -> None:
    """Print entries as they come, until it is interrupted."""
    while True:
        client.sleep(LOOK_AGAIN_SECONDS)
        for entry in client.audit.after(filters, last):
            print_line("  ".join(map(str, _row(entry))))
            last = entry["id"]
        sys.stdout.flush()


def _row(entry: AuditEntry) -> list[object]:
    return [entry["id"], local_time(entry["at"]), entry["address"] or "-", entry["action"], entry["sentence"]]


def register(app: typer.Typer) -> None:
    app.command()(audit)
