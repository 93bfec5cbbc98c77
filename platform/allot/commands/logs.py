"""logs and wait: staying with a job."""

from __future__ import annotations

import sys
from collections import deque
from typing import TYPE_CHECKING, Annotated

import typer

from allot.commands.options import JobId, JobIds, OutputOption, connect
from allot.describe import change_line, detail, latest_attempt, nodes_of
from allot.objects import ENDED, Job
from allot.output import Format, print_objects, say

if TYPE_CHECKING:
    from allot.client import Client
    from allot.following import Note

INTERRUPTED = 130
#: With --timeout: what the `timeout` program of the shell also uses.
TIMED_OUT = 124


def logs(
    job_id: JobId,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on as output comes, over restarts, until the job ends.")
    ] = False,
    attempt: Annotated[
        int | None, typer.Option("--attempt", "-a", min=1, help="Which attempt.", show_default="the latest")
    ] = None,
    rank: Annotated[int, typer.Option("--rank", "-r", min=0, help="Which process of the gang.")] = 0,
    tail: Annotated[
        int | None, typer.Option("--tail", "-n", min=0, help="Only the last lines.", show_default="all")
    ] = None,
) -> None:
    """Print what a job wrote."""
    with connect(patient=follow) as client:
        try:
            show_log(client, job_id, attempt=attempt, rank=rank, follow=follow, tail=tail)
        except KeyboardInterrupt:
            say_goes_on([job_id])
            raise typer.Exit(INTERRUPTED) from None


def show_log(
    client: Client,
    job_id: int,
    *,
    attempt: int | None = None,
    rank: int = 0,
    follow: bool,
    tail: int | None = None,
) -> None:
    """Output to stdout, what happens to the job to stderr."""
    from allot.following import Output, follow_log

    seen: dict[int, int] = {}
    if tail is not None and (number := attempt or latest_attempt(client.job(job_id))):
        seen[number] = print_tail(client, job_id, attempt=number, rank=rank, lines=tail)
        if not follow:
            return
    mid_line = False
    for piece in follow_log(client, job_id, attempt=attempt, rank=rank, follow=follow, seen=seen):
        if isinstance(piece, Output):
            sys.stdout.write(piece.text)
            sys.stdout.flush()
            mid_line = not piece.text.endswith("\n")
        else:
            # Where both go to one terminal, what is said starts on a line of its own.
            say(("\n" if mid_line and sys.stdout.isatty() else "") + note_line(piece))
            mid_line = False


def print_tail(client: Client, job_id: int, *, attempt: int, rank: int, lines: int) -> int:
    """Print the last lines of what there is now; return the sequence to go on after."""
    from allot.following import NONE_SEEN, check_rank

    kept: deque[str] = deque(maxlen=lines + 1)
    after, rest = NONE_SEEN, ""
    while (page := client.log_page(job_id, attempt=attempt, rank=rank, after=after))["chunks"]:
        *whole, rest = (rest + "".join(chunk["text"] for chunk in page["chunks"])).split("\n")
        kept.extend(line + "\n" for line in whole)
        after = page["next_after"]
    check_rank(page, job_id)
    shown = [*kept, rest] if rest else list(kept)
    sys.stdout.write("".join(shown[-lines:] if lines else []))
    sys.stdout.flush()
    return after


def note_line(note: Note) -> str:
    job = note.job
    if note.kind == "waiting":
        words = detail(job)
        return f"Job {job['id']} waits{': ' + words if words else ''}"
    if note.kind == "attempt":
        where = nodes_of(job["attempt"]) if job["attempt"] else ""
        return f"Attempt {note.attempt}{' on ' + where if where else ''}"
    if note.kind == "truncated":
        return f"The output of attempt {note.attempt} was too long; the server dropped a part of it."
    return change_line(job)


def say_goes_on(job_ids: list[int]) -> None:
    """After Ctrl-C: that it only stopped the watching."""
    ids = " ".join(str(job_id) for job_id in job_ids)
    if len(job_ids) == 1:
        say(f"\nJob {ids} goes on. See it with `allot logs -f {ids}`, stop it with `allot cancel {ids}`.")
    else:
        say(f"\nThe jobs go on. Wait again with `allot wait {ids}`, stop them with `allot cancel {ids}`.")


def wait(
    job_ids: JobIds,
    timeout_seconds: Annotated[
        float | None,
        typer.Option(
            "--timeout", metavar="SECONDS", min=0, help="Give up after so long, with exit code 124."
        ),
    ] = None,
    output: OutputOption = Format.table,
) -> None:
    """Wait until jobs end. The exit code is the job's; of several, that of the first that did not succeed.

    A job that was cancelled, or failed without an exit code of its own, counts as 1; one that a signal
    ended counts as 128 plus its number.
    """
    with connect(patient=True) as client:
        jobs = wait_for(client, job_ids, timeout_seconds=timeout_seconds)
    if output is not Format.table:
        print_objects(jobs, output)
    raise typer.Exit(next((code for code in map(exit_code_of, jobs) if code), 0))


def wait_for(client: Client, job_ids: list[int], *, timeout_seconds: float | None = None) -> list[Job]:
    """Say on stderr what happens to the jobs until they have ended; return them in the order given."""
    from allot.following import watch

    latest: dict[int, Job] = {}
    try:
        for job in watch(client, job_ids, timeout_seconds=timeout_seconds):
            latest[job["id"]] = job
            say(change_line(job))
    except TimeoutError:
        open_ids = [job_id for job_id, job in latest.items() if job["state"] not in ENDED]
        say(f"allot: not ended within {timeout_seconds:g} seconds: {' '.join(map(str, open_ids))}.")
        raise typer.Exit(TIMED_OUT) from None
    except KeyboardInterrupt:
        say_goes_on(job_ids)
        raise typer.Exit(INTERRUPTED) from None
    return [latest[job_id] for job_id in dict.fromkeys(job_ids)]


def exit_code_of(job: Job) -> int:
    """What the shell gets: the job's own exit code where there is one."""
    if job["state"] == "succeeded":
        return 0
    code = job["exit_code"]
    if job["state"] == "cancelled" or not code:
        return 1
    return 128 - code if code < 0 else min(code, 255)


def register(app: typer.Typer) -> None:
    for command in (logs, wait):
        app.command()(command)
