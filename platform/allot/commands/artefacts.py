"""artefacts: what a job left in its checkpoint folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from allot.commands.options import JobId, OutputOption, connect
from allot.errors import WrongUse
from allot.output import Format, local_time, print_objects, print_table, say

if TYPE_CHECKING:
    from allot.schema import Artefact


def artefacts(
    job_id: JobId,
    path: Annotated[
        str,
        typer.Argument(
            metavar="[PATH]",
            help="A subfolder, such as step-100; with --download, a file. Default: the checkpoint folder.",
        ),
    ] = "",
    download: Annotated[
        Path | None,
        typer.Option("--download", metavar="TO", help="Write the file at PATH to a file, or into a folder."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="Maximum number of names.", min=1)] = 1_000,
    output: OutputOption = Format.table,
) -> None:
    """List the files in a job's checkpoint folder, or download one."""
    if download is not None and not path:
        raise WrongUse("--download writes one file: name it after the job's number.")
    with connect() as client:
        if download is not None:
            written = client.artefacts.download(job_id, path, download)
            say(f"Wrote {written}, {written.stat().st_size:,} bytes.")
            return
        found = list(client.artefacts.of_job(job_id, path, limit=limit + 1))
    has_more, found = len(found) > limit, found[:limit]
    if output is not Format.table:
        print_objects(found, output)
    elif found:
        print_table(("BYTES", "MODIFIED", "NAME"), map(_row, found), right=("BYTES",))
    else:
        say("The folder is empty.")
    if has_more:
        say(f"There is more: these are the first {limit:,} names. --limit shows others.")


def _row(entry: Artefact) -> tuple[str, str, str]:
    size = "-" if entry["bytes"] is None else f"{entry['bytes']:,}"
    mark = {"folder": "/", "file": ""}.get(entry["kind"], f" ({entry['kind']})")
    return size, local_time(entry["modified_at"]), entry["name"] + mark


def register(app: typer.Typer) -> None:
    app.command()(artefacts)
