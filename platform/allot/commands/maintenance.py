"""maintenance: when nodes close for maintenance, and whose jobs are there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from allot.commands.options import OutputOption, connect
from allot.output import Format, local_time, plural, print_objects, print_table, say

if TYPE_CHECKING:
    from allot.schema import MaintenanceWindow

ACTIVE = ("announced", "draining", "open")
_NAMED = 3


def maintenance(
    every: Annotated[bool, typer.Option("--all", "-a", help="Include past and cancelled windows.")] = False,
    output: OutputOption = Format.table,
) -> None:
    """List maintenance windows: when nodes accept no jobs, why, and the jobs there that you may see."""
    with connect() as client:
        found = client.administration.windows(states=() if every else ACTIVE)
    if output is not Format.table:
        print_objects(found, output)
        return
    if not found:
        say("No maintenance windows.")
        return
    columns = ["ID", "STATE", "STARTS", "ENDS", "NODES", "JOBS", "REASON"]
    print_table(columns, [_row(window) for window in found], right=("ID",))


def _row(window: MaintenanceWindow) -> list[object]:
    nodes, jobs = window["nodes"], [str(job["id"]) for job in window["jobs"]]
    return [
        window["id"],
        window["state"].upper(),
        local_time(window["starts_at"]),
        local_time(window["ends_at"]),
        _some(nodes, len(nodes)),
        _some(jobs, window["job_count"]) or "-",
        window["reason"],
    ]


def _some(names: list[str], count: int) -> str:
    more = f" +{count - _NAMED}" if count > _NAMED else ""
    return f"{' '.join(names[:_NAMED])}{more}"


def window_words(window: MaintenanceWindow) -> str:
    """One line of a window that was made or changed."""
    when = f"{local_time(window['starts_at'])} to {local_time(window['ends_at'])}"
    where = f"{plural(len(window['nodes']), 'node')}, {plural(window['job_count'], 'job')} there"
    return f"maintenance window {window['id']}: {when}, {where}"


def register(app: typer.Typer) -> None:
    app.command()(maintenance)
