"""admin maintenance: announce, change and cancel maintenance windows. For operators."""

from __future__ import annotations

from typing import Annotated

import typer

from allot.commands.admin.asking import YesOption, changes_of, confirm, print_json
from allot.commands.maintenance import maintenance, window_words
from allot.commands.options import JsonOption, connect
from allot.output import Format, parse_time, print_line
from allot.times import instant

group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Window = Annotated[int, typer.Argument(metavar="ID", help="Number of the window.", show_default=False, min=1)]
Reason = Annotated[str, typer.Option("--reason", "-m", help="What is done; all users can read it.")]
Racks = Annotated[
    list[str] | None,
    typer.Option("--rack", help="All nodes that are in this rack now; may be repeated."),
]
_START = "When it starts: 36h (from now), or 2026-12-01T18:00."
_END = "When it ends: 2026-12-01T22:00, or a duration after its start, such as 4h."


@group.command(name="list")
def list_windows(as_json: JsonOption = False) -> None:
    """List all maintenance windows; the same as `allot maintenance --all`."""
    maintenance(True, Format.json if as_json else Format.table)


@group.command()
def add(
    reason: Reason,
    start: Annotated[str, typer.Option("--start", metavar="WHEN", help=_START)],
    end: Annotated[str, typer.Option("--end", metavar="WHEN", help=_END)],
    nodes: Annotated[
        list[str] | None, typer.Argument(metavar="[NODE]...", help="Names of the nodes.", show_default=False)
    ] = None,
    racks: Racks = None,
    as_json: JsonOption = False,
) -> None:
    """Announce a maintenance window. Until its start, its nodes accept only jobs that will end by then."""
    begins = instant(start, "--start")
    wanted = {
        "reason": reason,
        "starts_at": begins.isoformat(),
        "ends_at": instant(end, "--end", after=begins).isoformat(),
        "nodes": nodes or [],
        "racks": racks or [],
    }
    with connect() as client:
        made = client.administration.announce_window(wanted)
    if as_json:
        print_json(made)
    else:
        print_line(window_words(made))


@group.command()
def change(
    window: Window,
    reason: Annotated[str | None, typer.Option("--reason", "-m", help="What is done.")] = None,
    start: Annotated[str | None, typer.Option("--start", metavar="WHEN", help=_START)] = None,
    end: Annotated[str | None, typer.Option("--end", metavar="WHEN", help=_END)] = None,
    nodes: Annotated[
        list[str] | None,
        typer.Option(
            "--node", help="Node of the window; all nodes given replace the present ones. May be repeated."
        ),
    ] = None,
    racks: Racks = None,
    as_json: JsonOption = False,
) -> None:
    """Change a maintenance window. After its start only its reason and its end can change."""
    with connect() as client:
        after = None
        if end is not None and start is None:
            after = parse_time(client.administration.window(window)["starts_at"])
        begins = None if start is None else instant(start, "--start")
        ends = None if end is None else instant(end, "--end", after=begins or after)
        changes = changes_of(
            {
                "reason": reason,
                "starts_at": begins and begins.isoformat(),
                "ends_at": ends and ends.isoformat(),
                "nodes": nodes or None,
                "racks": racks or None,
            },
            "--reason, --start, --end, --node or --rack",
        )
        changed = client.administration.change_window(window, changes)
    if as_json:
        print_json(changed)
    else:
        print_line(window_words(changed))


@group.command()
def cancel(window: Window, yes: YesOption = False) -> None:
    """Cancel a maintenance window, or end it early: its nodes accept jobs again."""
    confirm(f"Cancel maintenance window {window}?", yes=yes)
    with connect() as client:
        client.administration.cancel_window(window)
    print_line(f"maintenance window {window} is cancelled")
