"""Watching jobs until they end, and reading their output as it comes.

Output is that of one rank, or of several with names before lines.

Both poll. Output chunks are numbered, so asking for what comes `after` the last one loses and repeats
nothing, whatever happens to the connection or the server in between.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from allot.client import Client
from allot.describe import ENDED, latest_attempt
from allot.errors import WrongUse

if TYPE_CHECKING:
    from allot.schema import Job, LogPage, MergedLogPage


#: The sequence before the first.
NONE_SEEN = -1


@dataclass(frozen=True, slots=True)
class Piece:
    """What came next. `complete`: the attempt has ended and there was no more; `removed` says why not."""

    text: str
    complete: bool
    truncated: bool = False
    removed: str = ""


class Stream(Protocol):
    """Remembers how far it has read."""

    def read(self) -> Piece:
        """Return what follows; an empty text when there is nothing new."""


class RankStream:
    """The output of one rank, as it is."""

    def __init__(self, client: Client, job_id: int, attempt: int, rank: int, task: str | None = None) -> None:
        self._client = client
        self._job_id = job_id
        self._which = {"attempt": attempt, "task": task, "rank": rank}
        self._after = NONE_SEEN

    def read(self) -> Piece:
        page = self._client.logs.page(self._job_id, after=self._after, **self._which)  # type: ignore[arg-type]
        _check_rank(page, self._job_id)
        self._after = page["next_after"]
        text = "".join(chunk["text"] for chunk in page["chunks"])
        # A server from before retention does not speak of it.
        removed = page.get("removed")
        return Piece(text, page["complete"], page["truncated"], removed["message"] if removed else "")


class MergedStream:
    """The output of all ranks, or of those of a task, line by line in the order in which it came.

    If a line has not ended, `follow` waits for the rest.
    """

    def __init__(self, client: Client, job_id: int, attempt: int, task: str | None, *, follow: bool) -> None:
        self._client = client
        self._job_id = job_id
        self._attempt = attempt
        self._task = task
        self._follow = follow
        self._after = ""
        #: By rank: its name, and the line that has not ended.
        self._unended: dict[int, tuple[str, str]] = {}

    def read(self) -> Piece:
        while True:
            page = self._client.logs.merged(
                self._job_id, attempt=self._attempt, task=self._task, after=self._after
            )
            self._after = page["next_after"]
            text = self._lines(page)
            # Chunks may have brought no end of a line.
            if text or not page["chunks"]:
                removed = page["removed"]
                return Piece(text, page["complete"], removed=removed["message"] if removed else "")

    def _lines(self, page: MergedLogPage) -> str:
        has_names = len(page["ranks"]) > 1
        shown = []
        for chunk in page["chunks"]:
            rank = chunk["rank"]
            name = f"[{chunk['task']} {rank}] " if has_names else ""
            *lines, rest = (self._unended.pop(rank, ("", ""))[1] + chunk["text"]).split("\n")
            shown += [f"{name}{line}\n" for line in lines]
            if rest:
                self._unended[rank] = (name, rest)
        if page["complete"] or not (page["chunks"] or self._follow):
            shown += [f"{name}{line}\n" for name, line in self._unended.values()]
            self._unended.clear()
        return "".join(shown)


def _check_rank(page: LogPage, job_id: int) -> None:
    """Raise WrongUse when the job has no such rank: it would never come."""
    if page["rank"] not in page["ranks"]:
        raise WrongUse(
            f"Job {job_id} has no rank {page['rank']}. Expected a number from 0 to {max(page['ranks'])}."
        )


SHORTEST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 2.0
#: The last output of a busy node can arrive after the news that the attempt has ended.
LATE_OUTPUT_SECONDS = 1.0


class Pace:
    """Asks often while things happen and less often while nothing does."""

    def __init__(self, sleep: Callable[[float], None]) -> None:
        self._sleep = sleep
        self._pause = SHORTEST_PAUSE_SECONDS

    def quicken(self) -> None:
        self._pause = SHORTEST_PAUSE_SECONDS

    def wait(self, *, at_most: float = LONGEST_PAUSE_SECONDS) -> None:
        self._sleep(min(self._pause, at_most))
        self._pause = min(self._pause * 1.4, LONGEST_PAUSE_SECONDS)


def watch(client: Client, job_ids: Sequence[int], *, timeout_seconds: float | None = None) -> Iterator[Job]:
    """Yield each job now and whenever its phase or attempt changes, until all have ended.

    Raises TimeoutError when that takes longer than `timeout_seconds`.
    """
    deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    seen: dict[int, tuple[str, str, int]] = {}
    open_ids = list(dict.fromkeys(job_ids))
    pace = Pace(client.sleep)
    while True:
        for job_id in list(open_ids):
            job = client.job(job_id)
            looks = (job["state"], job["phase"], latest_attempt(job))
            if seen.get(job_id) != looks:
                seen[job_id] = looks
                pace.quicken()
                yield job
            if job["state"] in ENDED:
                open_ids.remove(job_id)
        if not open_ids:
            return
        left = LONGEST_PAUSE_SECONDS if deadline is None else deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        pace.wait(at_most=left)


@dataclass(frozen=True, slots=True)
class Output:
    """A piece of what the job wrote."""

    text: str


@dataclass(frozen=True, slots=True)
class Note:
    """Something about the job while its output is followed."""

    kind: Literal["waiting", "attempt", "truncated", "removed", "ended"]
    job: Job
    attempt: int | None
    message: str = ""


def follow_log(
    client: Client,
    job_id: int,
    *,
    attempt: int | None = None,
    follow: bool = True,
    open_stream: Callable[[int], Stream] | None = None,
) -> Iterator[Output | Note]:
    """Yield the output of rank 0, or what the streams read that `open_stream` makes for an attempt's number.

    Without `follow`: what there is of the given attempt, else of the latest. With `follow`: also what
    comes, going on to the next attempt when the job is preempted or retried, until the job ends. A given
    `attempt` is followed to its own end only.
    """
    opened = open_stream or (lambda number: RankStream(client, job_id, number, 0))
    if attempt is not None:
        yield from _one_attempt(client, job_id, attempt, opened(attempt), follow=follow)
        return
    job = client.job(job_id)
    if not follow:
        if number := latest_attempt(job):
            yield from _one_attempt(client, job_id, number, opened(number), follow=False)
        else:
            yield Note("ended" if job["state"] in ENDED else "waiting", job, None)
        return
    shown = max(0, latest_attempt(job) - 1)
    while True:
        for note in _next_attempt(client, job, after=shown):
            yield note
            job = note.job
        if latest_attempt(job) <= shown:
            return
        shown = latest_attempt(job)
        yield from _one_attempt(client, job_id, shown, opened(shown), follow=True)
        job = client.job(job_id)


def _next_attempt(client: Client, job: Job, *, after: int) -> Iterator[Note]:
    """Wait until the job has an attempt with a number greater than `after` or has ended.

    Yields notes whose `job` is the latest that was seen.
    """
    pace = Pace(client.sleep)
    told = False
    while job["state"] not in ENDED and latest_attempt(job) <= after:
        # Until a round has considered the job there is nothing to report.
        if not told and job["state"] == "queued" and (job["reasons"] or job["held"]):
            told = True
            yield Note("waiting", job, after or None)
        pace.wait()
        job = client.job(job["id"])
    if latest_attempt(job) > after:
        yield Note("attempt", job, latest_attempt(job))
    else:
        yield Note("ended", job, after or None)


def _one_attempt(
    client: Client, job_id: int, number: int, stream: Stream, *, follow: bool
) -> Iterator[Output | Note]:
    pace = Pace(client.sleep)
    was_live = truncated = False
    quiet_since: float | None = None
    while True:
        piece = stream.read()
        if piece.removed:
            yield Note("removed", client.job(job_id), number, piece.removed)
            return
        if piece.truncated and not truncated:
            truncated = True
            yield Note("truncated", client.job(job_id), number)
        if piece.text:
            yield Output(piece.text)
            pace.quicken()
            quiet_since = None
            continue
        if not follow or (piece.complete and not was_live):
            return
        if piece.complete:
            quiet_since = quiet_since or time.monotonic()
            if time.monotonic() - quiet_since >= LATE_OUTPUT_SECONDS:
                return
        else:
            was_live = True
        pace.wait(at_most=LATE_OUTPUT_SECONDS)
