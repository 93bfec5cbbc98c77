"""Reading stored output: which ranks there are, what comes next of them, and what was removed.

A *cursor* says for each rank up to which chunk its output is known. Chunks of a rank are numbered without
gaps, so that whatever arrives late is neither missed nor doubled.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate, groupby
from operator import itemgetter
from typing import Any

from django.db import connection
from django.db.models import Func, IntegerField, Sum

from scheduler.models.attempts import Attempt
from scheduler.models.jobs import Job
from scheduler.models.logs import LogChunk, LogRemoval, RemovalCause
from scheduler.models.selectors.jobs import jobs_visible
from tenants.audit.entries import record_read
from tenants.errors import FieldError, Invalid, NotFound
from tenants.selectors import Viewer

#: The sequence before the first.
NONE_SEEN = -1
#: Text of one page, of all ranks together; it has at least one chunk of each rank, however long.
PAGE_BYTES = 2 * 1024 * 1024
_LARGEST = 2**31 - 1
_GIB = 1024**3

#: `found` counts one row more than is wanted, where there is one: then the rank goes on behind this page.
_NEXT = """
SELECT seen.rank, chunk.sequence, chunk.at, chunk.text, chunk.raw, chunk.found
FROM unnest(%(ranks)s::int[], %(sequences)s::int[]) AS seen (rank, sequence)
CROSS JOIN LATERAL (
    SELECT sequence, at, text, raw,
        row_number() OVER following AS place,
        sum(octet_length(text)) OVER following - octet_length(text) AS bytes_before,
        count(*) OVER () AS found
    FROM (
        SELECT sequence, at, text, raw FROM scheduler_logchunk
        WHERE attempt_id = %(attempt)s AND rank = seen.rank AND sequence > seen.sequence
        ORDER BY sequence LIMIT %(limit)s + 1
    ) AS next
    WINDOW following AS (ORDER BY sequence)
) AS chunk
WHERE chunk.place <= %(limit)s AND chunk.bytes_before < %(bytes)s
ORDER BY seen.rank, chunk.sequence
"""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive output of one rank."""

    rank: int
    sequence: int
    at: datetime
    text: str
    #: The bytes, where the text does not represent them.
    raw: bytes | None = None

    @property
    def data(self) -> bytes:
        return self.text.encode() if self.raw is None else bytes(self.raw)


def note_foreign_read(viewer: Viewer, job: Job, action: str = "log.read") -> None:
    """Record that a user reads the output, or a file, of a tenant without being a member."""
    if job.tenant_id not in viewer.roles:
        subject = f"job {job.id} ({job.name})"
        record_read(action, object_kind="job", object_id=job.id, subject=subject, tenant=job.tenant)


def may_watch(viewer: Viewer, job_id: int) -> bool:
    """Whether the viewer may follow what a job writes from now on; a viewer who does counts as its reader."""
    job = jobs_visible(viewer).select_related("tenant").filter(id=job_id).first()
    if job is not None:
        note_foreign_read(viewer, job)
    return job is not None


def tasks_of_ranks(job: Job, attempt: Attempt | None) -> dict[int, str]:
    """Return the task's name of each rank; for an elastic job, of as many ranks as this attempt
    was granted.
    """
    parts = attempt.parts.values_list("replicas", flat=True) if attempt else ()
    placed = {replica["rank"]: replica["task"] for replicas in parts for replica in replicas}
    if placed:
        return dict(sorted(placed.items()))
    named = [task.name for task in job.specification.tasks for _ in range(task.replicas)]
    return dict(enumerate(named))


def chosen_ranks(tasks: Mapping[int, str], task: str | None, rank: int | None) -> list[int]:
    """Return the ranks that are of this task and have this number, all where neither is given.

    Raises Invalid when there is none, naming those that there are.
    """
    names = list(dict.fromkeys(tasks.values()))
    if task is not None and task not in names:
        expected = f"one of {', '.join(names)}"
        raise Invalid(
            f"The job has no task {task[:80]!r}.", [FieldError("task", "There is no such task.", expected)]
        )
    of_task = [number for number, name in tasks.items() if task in (None, name)]
    if rank is None:
        return of_task
    if rank not in of_task:
        where = f"Task {task} has no rank {rank}." if task else f"There is no rank {rank}."
        raise Invalid(where, [FieldError("rank", where, f"one of {_spans(of_task)}")])
    return [rank]


def next_chunks(
    attempt: Attempt, seen: Mapping[int, int], limit: int, most_bytes: int = PAGE_BYTES
) -> list[Chunk]:
    """Return what follows of the ranks in `seen`, by the time it was sent; empty when there is nothing more.

    `seen` has the newest known sequence of each wanted rank. If there is more of a rank than fits, what the
    others wrote after it waits for the next page.
    """
    given: dict[str, Any] = {
        "attempt": attempt.id,
        "ranks": list(seen),
        "sequences": list(seen.values()),
        "limit": limit,
        "bytes": max(1, most_bytes // max(1, len(seen))),
    }
    with connection.cursor() as cursor:
        cursor.execute(_NEXT, given)
        rows = cursor.fetchall()
    by_rank: list[list[tuple[datetime, Chunk]]] = []
    horizons = []
    for _, found in groupby(rows, key=lambda row: row[0]):
        rank_rows = list(found)
        chunks = [Chunk(*row[:5]) for row in rank_rows]
        # Each rank keeps its own order, also where the clock of its node was set back.
        times = accumulate((chunk.at for chunk in chunks), max)
        by_rank.append(list(zip(times, chunks, strict=True)))
        if len(rank_rows) < rank_rows[-1][5]:
            horizons.append(by_rank[-1][-1][0])
    merged = heapq.merge(*by_rank, key=itemgetter(0))
    return [chunk for at, chunk in merged if not horizons or at <= min(horizons)]


def has_more(attempt: Attempt, last: Chunk) -> bool:
    """Whether something is stored of this rank behind the chunk."""
    return LogChunk.objects.filter(attempt=attempt, rank=last.rank, sequence__gt=last.sequence).exists()


def before_last_lines(attempt: Attempt, rank: int, lines: int) -> int:
    """Return the sequence before the chunk in which the last `lines` lines begin.

    Chunks without an end of a line count as one, so that a bar of progress costs no more than lines do.
    """
    chunks = LogChunk.objects.filter(attempt=attempt, rank=rank).order_by("-sequence")
    found = 0
    for sequence, text in chunks.values_list("sequence", "text")[: lines + 1].iterator(chunk_size=10):
        found += max(1, text.count("\n"))
        # The first of them may have begun in the chunk before.
        if found > lines:
            return int(sequence) - 1
    return NONE_SEEN


def all_chunks(attempt: Attempt, rank: int, after: int = NONE_SEEN) -> Iterator[list[Chunk]]:
    """Yield the output of one rank page by page, as much as there is by then."""
    while page := next_chunks(attempt, {rank: after}, limit=1_000):
        yield page
        after = page[-1].sequence


def cursor_text(seen: Mapping[int, int]) -> str:
    return ",".join(f"{rank}:{sequence}" for rank, sequence in seen.items() if sequence != NONE_SEEN)


def cursor_parse(text: str) -> dict[int, int]:
    """Return what `cursor_text` wrote down; raise Invalid for anything else."""
    try:
        pairs = [pair.split(":") for pair in text.split(",") if pair]
        seen = {int(rank): int(sequence) for rank, sequence in pairs}
    except ValueError:
        seen = {NONE_SEEN: NONE_SEEN}
    if any(not 0 <= number <= _LARGEST for pair in seen.items() for number in pair):
        raise Invalid(
            "This is not a position in the output.",
            [
                FieldError(
                    "after", "It is not a position in the output.", "`next_after` of an answer, as it is"
                )
            ],
        )
    return seen


def removal_of(attempt: Attempt | None) -> LogRemoval | None:
    return LogRemoval.objects.filter(attempt=attempt).select_related("attempt").first() if attempt else None


def removal_text(removal: LogRemoval) -> str:
    """Return a sentence that states when and why the output was removed."""
    kept = {
        RemovalCause.AGE: f"output is kept for {removal.limit} days after an attempt's end",
        RemovalCause.PLATFORM_BYTES: f"the platform keeps {_size(removal.limit)} of output, the newest",
        RemovalCause.TENANT_BYTES: f"{_size(removal.limit)} of output is kept of each tenant, the newest",
    }[RemovalCause(removal.cause)]
    return (
        f"The output of attempt {removal.attempt.number}, {_size(removal.bytes)}, was removed on "
        f"{removal.at:%Y-%m-%d}: {kept}."
    )


def check_not_removed(attempt: Attempt) -> None:
    """Raise NotFound when the output of the attempt was removed."""
    if removal := removal_of(attempt):
        raise NotFound(removal_text(removal))


def _size(count: int) -> str:
    for unit, size in (("GiB", _GIB), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} bytes"


def _spans(numbers: Sequence[int]) -> str:
    """Return ascending numbers for people: `0 to 3, 6`."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(str(first) if first == last else f"{first} to {last}" for first, last in spans)


def log_is_full(attempt: Attempt, *, rank: int, limit_bytes: int) -> bool:
    """Whether as much of this rank's output is kept as ever will be."""
    size = Func("text", function="octet_length", output_field=IntegerField())
    stored = LogChunk.objects.filter(attempt=attempt, rank=rank).aggregate(bytes=Sum(size))["bytes"]
    # The last line, which says that the rest was dropped, comes beyond the limit.
    return (stored or 0) > limit_bytes
