"""ledger: what was bid, won, paid, traded and lent."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from allot.commands.options import OutputOption, ParquetOption, connect
from allot.errors import WrongUse
from allot.output import Format, local_time, print_line, print_objects, print_table, say

if TYPE_CHECKING:
    from allot.client import Client
    from allot.schema import Line

#: Between two looks of --follow.
LOOK_AGAIN_SECONDS = 2.0
COLUMNS = ("LINE", "AT", "ROUND", "VIEW", "KIND", "PARTY", "WITH", "GETS", "GIVES", "PRICE", "WHAT")


def ledger(
    kind: Annotated[
        str | None, typer.Option(help="Only lines of this kind, such as trade, win or offer.")
    ] = None,
    vc: Annotated[
        str | None, typer.Option(help="Only lines of this virtual cluster. `market` and `spare` work too.")
    ] = None,
    tenant: Annotated[
        str | None,
        typer.Option(
            help="Only lines with this tenant on one side; in the market, with this virtual cluster."
        ),
    ] = None,
    job: Annotated[int | None, typer.Option(help="Only lines that name this job.", min=0)] = None,
    round_number: Annotated[
        int | None, typer.Option("--round", help="Only lines of this scheduling round.", min=0)
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="Maximum number of lines.", min=1)] = 50,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Print new lines as they are written, until Ctrl-C.")
    ] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print all lines as CSV, oldest first.")] = False,
    parquet: ParquetOption = None,
    replay: Annotated[
        int | None,
        typer.Option(
            "--replay",
            metavar="LINE",
            help="Recompute the round of this line from its stored facts, and compare.",
        ),
    ] = None,
    output: OutputOption = Format.table,
) -> None:
    """Show the ledger, newest line last: bids, wins, payments, trades and loans.

    You see the lines that concern your tenants. Other tenants are not named.
    """
    filters: dict[str, Any] = {"kind": kind, "view": vc, "party": tenant, "job": job, "round": round_number}
    if csv and parquet:
        raise WrongUse("Give one of --csv and --parquet.")
    if follow and (csv or parquet or output is not Format.table):
        raise WrongUse("--follow prints a table.")
    with connect(patient=follow) as client:
        if replay is not None:
            _replay(client, replay, output)
        elif parquet:
            say(f"Wrote {client.exports.parquet('ledger', parquet, **filters)}.")
        elif csv:
            sys.stdout.write(client.exports.csv("ledger", **filters))
        else:
            lines = list(client.ledger(limit=limit, **filters))[::-1]
            _print(lines, output)
            if follow:
                _follow(client, filters, lines[-1]["id"] if lines else 0)


def _print(lines: list[Line], output: Format) -> None:
    if output is not Format.table:
        print_objects(lines, output)
    else:
        print_table(COLUMNS, map(_row, lines), right=["LINE", "ROUND", "PRICE"])


def _follow(client: Client, filters: dict[str, Any], last: int) -> None:
    """Print lines as they come, until it is interrupted."""
    while True:
        client.sleep(LOOK_AGAIN_SECONDS)
        for line in new_lines(client.ledger(**filters), last):
            print_line("  ".join(map(str, _row(line))))
            last = line["id"]
        sys.stdout.flush()


def new_lines(newest_first: Iterable[Line], last: int) -> list[Line]:
    """Return what came after a line, the oldest first."""
    found = []
    for line in newest_first:
        if line["id"] <= last:
            break
        found.append(line)
    return found[::-1]


def _row(line: Line) -> list[object]:
    return [
        line["id"],
        local_time(line["at"]),
        line["round_number"] if line["round_number"] is not None else "-",
        line["view"],
        line["kind"],
        line["party"] or "-",
        line["counterparty"] or "-",
        gpus_words(line["gpus"]),
        gpus_words(line["given"]),
        "-" if line["price"] is None else f"{line['price']:.4g}",
        line["message"] or line["person"] or "-",
    ]


def gpus_words(gpus: dict[str, float]) -> str:
    """`2 V100,0.5 K80`, or `-`."""
    return ",".join(f"{count:.4g} {model}" for model, count in sorted(gpus.items()) if count) or "-"


def _replay(client: Client, line_id: int, output: Format) -> None:
    done = client.replay_line(line_id)
    if output is not Format.table:
        print_objects(done, output)
    elif done["same"]:
        took = f"{done['seconds']:.2g} s"
        print_line(f"Round {done['round_number']} gives line {line_id} again, exactly ({took}).")
    else:
        said = done["line"]["message"] if done["line"] else "nothing at its place"
        say(f"Round {done['round_number']} decides differently now: {said}")
    if not done["same"]:
        raise typer.Exit(1)


def register(app: typer.Typer) -> None:
    app.command()(ledger)
