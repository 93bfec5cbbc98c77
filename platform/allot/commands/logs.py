"""logs and wait: staying with a job."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from allot.commands.options import JobId, JobIds, OutputOption, connect
from allot.describe import ENDED, change_line, detail, latest_attempt, nodes_of
from allot.errors import WrongUse
from allot.output import Format, WithoutEscapes, print_line, print_objects, say

if TYPE_CHECKING:
    from allot.client import Client
    from allot.following import Note, Stream
    from allot.schema import Job, LogHit

INTERRUPTED = 130
#: With --timeout: what the `timeout` program of the shell also uses.
TIMED_OUT = 124


def logs(
    job_id: JobId,
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Print new output, also after restarts, until the job ends."),
    ] = False,
    attempt: Annotated[
        int | None,
        typer.Option("--attempt", "-a", min=1, help="Number of the attempt.", show_default="the latest"),
    ] = None,
    rank: Annotated[
        int | None,
        typer.Option("--rank", "-r", min=0, help="Rank of the process in the gang.", show_default="0"),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option("--task", "-t", help="Only this task: all its ranks, unless --rank names one."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All ranks, merged by time; task and rank stand before each line.")
    ] = False,
    tail: Annotated[
        int | None,
        typer.Option("--tail", "-n", min=0, help="Print only this many last lines.", show_default="all"),
    ] = None,
    grep: Annotated[
        str | None,
        typer.Option(
            "--grep",
            "-e",
            metavar="PATTERN",
            help="Print only lines that match this regular expression, with line numbers.",
        ),
    ] = None,
    ignore_case: Annotated[
        bool, typer.Option("--ignore-case", "-i", help="With --grep: match upper and lower case alike.")
    ] = False,
    context: Annotated[
        int,
        typer.Option(
            "--context",
            "-C",
            min=0,
            max=20,
            help="With --grep: lines to print before and after each match.",
        ),
    ] = 0,
    download: Annotated[
        Path | None,
        typer.Option(
            "--download",
            metavar="FILE",
            help="Write the output to a file; a zip archive if it has several ranks.",
        ),
    ] = None,
    raw: Annotated[
        bool,
        typer.Option("--raw", help="Print escape sequences to a terminal too. A pipe always gets them."),
    ] = False,
) -> None:
    """Print the output of a job."""
    if everything and (task is not None or rank is not None):
        raise WrongUse("--all means the output of all ranks. Give it without --task and --rank.")
    if download is not None and (follow or tail is not None or grep is not None):
        raise WrongUse("--download writes the whole output. Give it without --follow, --tail and --grep.")
    if grep is not None and (follow or tail is not None):
        raise WrongUse("--grep searches the output that exists now. Give it without --follow and --tail.")
    with connect(patient=follow) as client:
        if download is not None:
            written = client.logs.download(job_id, download, attempt=attempt, task=task, rank=rank)
            say(f"Wrote {written}, {written.stat().st_size:,} bytes.")
            return
        if grep is not None:
            which = {"attempt": attempt, "task": task, "rank": rank}
            if not (everything or task is not None or rank is not None):
                which["rank"] = 0
            raise typer.Exit(print_found(client, job_id, grep, which, not ignore_case, context))
        try:
            show_log(
                client,
                job_id,
                attempt=attempt,
                rank=rank,
                task=task,
                everything=everything,
                follow=follow,
                tail=tail,
                raw=raw,
            )
        except KeyboardInterrupt:
            say_goes_on([job_id])
            raise typer.Exit(INTERRUPTED) from None


def show_log(
    client: Client,
    job_id: int,
    *,
    attempt: int | None = None,
    rank: int | None = None,
    task: str | None = None,
    everything: bool = False,
    follow: bool,
    tail: int | None = None,
    raw: bool = False,
    after_each: Callable[[], None] = lambda: None,
) -> None:
    """Output to stdout, what happens to the job to stderr. `after_each` is called after every piece."""
    from allot.following import MergedStream, Output, RankStream, follow_log

    streams: dict[int, Stream] = {}
    shown: Callable[[str], str] = str if raw or not sys.stdout.isatty() else WithoutEscapes()

    def open_stream(number: int) -> Stream:
        if number not in streams:
            if everything or (task is not None and rank is None):
                streams[number] = MergedStream(client, job_id, number, task, follow=follow)
            else:
                streams[number] = RankStream(client, job_id, number, rank or 0, task)
        return streams[number]

    if tail is not None and (number := attempt or latest_attempt(client.job(job_id))):
        print_tail(open_stream(number), tail, shown)
        if not follow:
            return
    mid_line = False
    for piece in follow_log(client, job_id, attempt=attempt, follow=follow, open_stream=open_stream):
        if isinstance(piece, Output):
            sys.stdout.write(shown(piece.text))
            sys.stdout.flush()
            mid_line = not piece.text.endswith("\n")
        else:
            if isinstance(shown, WithoutEscapes):
                shown.interrupted()
            # Where both go to one terminal, what is said starts on a line of its own.
            say(("\n" if mid_line and sys.stdout.isatty() else "") + note_line(piece))
            mid_line = False
        after_each()


def print_tail(stream: Stream, lines: int, shown: Callable[[str], str]) -> None:
    """Print the last lines of what there is now; the stream goes on behind them."""
    kept: deque[str] = deque(maxlen=lines + 1)
    rest = ""
    while text := (piece := stream.read()).text:
        *whole, rest = (rest + text).split("\n")
        kept.extend(line + "\n" for line in whole)
    if piece.removed:
        say(piece.removed)
    last = [*kept, rest] if rest else list(kept)
    sys.stdout.write(shown("".join(last[-lines:] if lines else [])))
    sys.stdout.flush()


def print_found(
    client: Client, job_id: int, pattern: str, which: Mapping[str, Any], match_case: bool, context: int
) -> int:
    """Print the lines that match, as they are found. Returns grep's exit code: 1 when there is none."""
    searched = count = 0
    removed = ""

    def hits() -> Iterator[LogHit]:
        nonlocal searched, count, removed
        answers = client.logs.search(
            job_id, pattern, regex=True, match_case=match_case, context=context, **which
        )
        for answer in answers:
            searched += answer["lines_searched"]
            count += len(answer["hits"])
            removed = answer["removed"]["message"] if answer["removed"] else ""
            yield from answer["hits"]

    for line in hit_lines(hits(), has_names=which["rank"] is None):
        print_line(line)
    if not count:
        say(removed or f"Nothing found in {searched:,} lines.")
    return 0 if count else 1


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
    if note.kind == "removed":
        return note.message
    return change_line(job)


def say_goes_on(job_ids: list[int]) -> None:
    """Print after Ctrl-C that only the watching has stopped."""
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
            "--timeout", metavar="SECONDS", min=0, help="Stop waiting after this time, with exit code 124."
        ),
    ] = None,
    output: OutputOption = Format.table,
) -> None:
    """Wait until jobs end, and exit with the job's exit code; with several jobs, with that of the first that
    did not succeed.

    The exit code is 1 for a job that was cancelled or failed without an exit code, and 128 plus the signal's
    number for a job that a signal ended.
    """
    with connect(patient=True) as client:
        jobs = wait_for(client, job_ids, timeout_seconds=timeout_seconds)
    if output is not Format.table:
        print_objects(jobs, output)
    raise typer.Exit(next((code for code in map(exit_code_of, jobs) if code), 0))


def wait_for(client: Client, job_ids: list[int], *, timeout_seconds: float | None = None) -> list[Job]:
    """Print on stderr what happens to the jobs until they have ended; return them in the order given."""
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


def hit_lines(hits: Iterator[LogHit], *, has_names: bool) -> Iterator[str]:
    """Yield `12:text` for each line found and `11-text` for those around it, each once, as grep prints it.

    Before lines that do not follow the last ones stands `--`, where lines around them were asked for.
    """
    shown: tuple[int, int] | None = None
    # Lines after the last hit, which are hits themselves from the next one on.
    later: list[tuple[int, int, str]] = []
    for hit in hits:
        rank, line = hit["rank"], hit["line"]
        name = f"[{hit['task']} {rank}] " if has_names else ""
        for after_rank, number, text in later:
            if (after_rank, number) < (rank, line):
                yield text
                shown = (after_rank, number)
        first = line - len(hit["before"])
        if shown is not None and (hit["before"] or hit["after"]) and (rank, first) > (shown[0], shown[1] + 1):
            yield "--"
        for number, text in enumerate(hit["before"], first):
            if shown is None or (rank, number) > shown:
                yield f"{name}{number}-{text}"
        yield f"{name}{line}:{hit['text']}"
        shown = (rank, line)
        later = [
            (rank, number, f"{name}{number}-{text}") for number, text in enumerate(hit["after"], line + 1)
        ]
    yield from [text for _, _, text in later]


def register(app: typer.Typer) -> None:
    for command in (logs, wait):
        app.command()(command)
