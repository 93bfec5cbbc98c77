"""The output of jobs: pages of it, searches, and files."""

from __future__ import annotations

import dataclasses
import io
import zipfile
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, ClassVar

from django.conf import settings
from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from scheduler.core.model.lifecycle import AttemptState
from scheduler.models.attempts import Attempt
from scheduler.models.jobs import Job
from scheduler.models.selectors.attempts import attempt_of
from scheduler.models.selectors.jobs import job_get, job_visible
from scheduler.telemetry.logs import schemas
from scheduler.telemetry.logs.services import reading as log_reading
from scheduler.telemetry.logs.services import search as log_search
from scheduler.telemetry.logs.services.reading import all_chunks, log_is_full
from scheduler.wiring.rest import checked
from tenants.errors import Conflict
from tenants.selectors import viewer
from tenants.times import iso


class JobLogs(APIView):
    @extend_schema(parameters=[schemas.LogQuery], responses=schemas.LogPage)
    def get(self, request: Request, job_id: int) -> Response:
        """Read the output of one rank of an attempt, in numbered chunks."""
        _job, attempt, tasks, query = _query_of(request, job_id, schemas.LogQuery)
        rank = query.get("rank", 0)
        if query.get("task") is not None:
            rank = log_reading.chosen_ranks(tasks, query["task"], query.get("rank"))[0]
        after = query["after"]
        if attempt is not None and "last" in query:
            after = max(after, log_reading.before_last_lines(attempt, rank, query["last"]))
        chunks = log_reading.next_chunks(attempt, {rank: after}, query["limit"]) if attempt else []
        has_more = bool(chunks) and attempt is not None and log_reading.has_more(attempt, chunks[-1])
        limit_bytes = settings.CONFIG.log_bytes_per_attempt
        return Response(
            {
                "attempt": attempt.number if attempt else None,
                "rank": rank,
                "ranks": list(tasks),
                "tasks": list(tasks.values()),
                "chunks": [_chunk(chunk) for chunk in chunks],
                "next_after": chunks[-1].sequence if chunks else after,
                "complete": _is_over(attempt) and not has_more,
                "truncated": attempt is not None and log_is_full(attempt, rank=rank, limit_bytes=limit_bytes),
                "removed": _removed(attempt),
            }
        )


class JobLogsMerged(APIView):
    @extend_schema(parameters=[schemas.MergedQuery], responses=schemas.MergedLogPage)
    def get(self, request: Request, job_id: int) -> Response:
        """Read the output of all ranks, or of a task's, merged by the time at which it was sent."""
        _job, attempt, tasks, query = _query_of(request, job_id, schemas.MergedQuery)
        known = log_reading.cursor_parse(query["after"])
        ranks = log_reading.chosen_ranks(tasks, query.get("task"), None)
        seen = {rank: known.get(rank, log_reading.NONE_SEEN) for rank in ranks}
        chunks = log_reading.next_chunks(attempt, seen, query["limit"]) if attempt else []
        for chunk in chunks:
            seen[chunk.rank] = chunk.sequence
        return Response(
            {
                "attempt": attempt.number if attempt else None,
                "ranks": ranks,
                "chunks": [
                    {"rank": chunk.rank, "task": tasks[chunk.rank], **_chunk(chunk)} for chunk in chunks
                ],
                "next_after": log_reading.cursor_text(seen),
                "complete": _is_over(attempt) and not chunks,
                "removed": _removed(attempt),
            }
        )


class JobLogsSearch(APIView):
    is_heavy = True

    @extend_schema(parameters=[schemas.SearchQuery], responses=schemas.LogSearch)
    def get(self, request: Request, job_id: int) -> Response:
        """Search an attempt's output for lines that contain a text or match a regular expression."""
        _job, attempt, tasks, query = _query_of(request, job_id, schemas.SearchQuery)
        ranks = log_reading.chosen_ranks(tasks, query.get("task"), query.get("rank"))
        after = log_search.Place.parse(query["after"]) if query["after"] else None
        matcher = log_search.matcher_of(query["q"], is_pattern=query["regex"], match_case=query["match_case"])
        found = log_search.SearchOutcome()
        if attempt is not None:
            found = log_search.search(
                attempt, ranks, matcher, context=query["context"], limit=query["limit"], after=after
            )
        return Response(
            {
                "attempt": attempt.number if attempt else None,
                "hits": [{"task": tasks[hit.rank], **dataclasses.asdict(hit)} for hit in found.hits],
                "lines_searched": found.lines_searched,
                "next_after": found.go_on.text() if found.go_on else "",
                "removed": _removed(attempt),
            }
        )


class JobLogsDownload(APIView):
    is_heavy = True
    refusals: ClassVar = {409: "The job has not started yet, or its output was removed."}

    @extend_schema(
        parameters=[schemas.DownloadQuery],
        responses={
            (200, "text/plain"): OpenApiResponse(OpenApiTypes.STR),
            (200, "application/zip"): OpenApiResponse(OpenApiTypes.BINARY),
        },
    )
    def get(self, request: Request, job_id: int) -> StreamingHttpResponse:
        """Download the complete output of an attempt: one rank as text, several ranks as a zip archive."""
        job, attempt, tasks, query = _query_of(request, job_id, schemas.DownloadQuery)
        ranks = log_reading.chosen_ranks(tasks, query.get("task"), query.get("rank"))
        if attempt is None:
            raise Conflict(f"Job {job.id} has not started yet, so there is no output.")
        log_reading.check_not_removed(attempt)
        name = f"job-{job.id}-attempt-{attempt.number}"
        if len(ranks) == 1:
            return text_file(f"{name}-rank-{ranks[0]}.log", attempt, ranks[0])
        return zip_file(name, attempt, {rank: tasks[rank] for rank in ranks})


def _query_of(
    request: Request, job_id: int, kind: type[schemas.WhichOutput]
) -> tuple[Job, Attempt | None, dict[int, str], dict[str, Any]]:
    """Return the job, the attempt, the task of each of its ranks, and the checked query."""
    by = viewer(request)
    job = job_get(by, job_id)
    log_reading.note_foreign_read(by, job)
    query = checked(kind, request)
    attempt = attempt_of(job, query.get("attempt"))
    return job, attempt, log_reading.tasks_of_ranks(job, attempt), query


def _is_over(attempt: Attempt | None) -> bool:
    return attempt is not None and attempt.state == AttemptState.ENDED


def _chunk(chunk: log_reading.Chunk) -> dict[str, Any]:
    return {"sequence": chunk.sequence, "at": iso(chunk.at), "text": chunk.text}


def _removed(attempt: Attempt | None) -> dict[str, Any] | None:
    removal = log_reading.removal_of(attempt)
    if removal is None:
        return None
    return {
        "at": iso(removal.at),
        "bytes": removal.bytes,
        "message": log_reading.removal_text(removal),
    }


def text_file(name: str, attempt: Attempt, rank: int) -> StreamingHttpResponse:
    """Answer with the output of one rank."""
    return _file(name, "text/plain; charset=utf-8", attempt, _text(attempt, rank))


def zip_file(name: str, attempt: Attempt, tasks: Mapping[int, str]) -> StreamingHttpResponse:
    """Answer with a folder in which each of the ranks has a file."""
    return _file(f"{name}.zip", "application/zip", attempt, _zip(name, attempt, tasks))


def _file(name: str, content_type: str, attempt: Attempt, pieces: Iterator[bytes]) -> StreamingHttpResponse:
    response = StreamingHttpResponse(
        pieces,
        content_type=content_type,
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )
    # Checked again while it is sent (`controlplane.rights`): the download goes on while the user may see the
    # job.
    response.may_read = partial(job_visible, job_id=attempt.job_id)  # type: ignore[attr-defined]
    return response


def _text(attempt: Attempt, rank: int) -> Iterator[bytes]:
    for page in all_chunks(attempt, rank):
        yield b"".join(chunk.data for chunk in page)


def _zip(folder: str, attempt: Attempt, tasks: Mapping[int, str]) -> Iterator[bytes]:
    written = _ZipPieces()
    # The fastest compression: it is here to save a network, and takes the server's time.
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for rank, task in tasks.items():
            with archive.open(f"{folder}/{task}-rank-{rank}.log", "w", force_zip64=True) as file:
                for piece in _text(attempt, rank):
                    file.write(piece)
                    yield written.take()
    yield written.take()


class _ZipPieces(io.RawIOBase):
    """Collects what a ZipFile writes, without seeking back, until it is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.pieces.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        taken = b"".join(self.pieces)
        self.pieces.clear()
        return taken
