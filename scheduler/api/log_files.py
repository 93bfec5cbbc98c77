"""Output as files, sent piece by piece: no more than a page of it is in memory."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from django.http import StreamingHttpResponse

from scheduler.models import Attempt
from scheduler.selectors import job_visible
from scheduler.services.logs.reading import all_chunks


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
    # Looked at again while it is sent (`controlplane.rights`): whoever may see the job may go on.
    response.may_read = partial(job_visible, job_id=attempt.job_id)  # type: ignore[attr-defined]
    return response


def _text(attempt: Attempt, rank: int) -> Iterator[bytes]:
    for page in all_chunks(attempt, rank):
        yield "".join(chunk.text for chunk in page).encode()


def _zip(folder: str, attempt: Attempt, tasks: Mapping[int, str]) -> Iterator[bytes]:
    written = _Written()
    # The fastest compression: it is here to save a network, and takes the server's time.
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for rank, task in tasks.items():
            with archive.open(f"{folder}/{task}-rank-{rank}.log", "w", force_zip64=True) as file:
                for piece in _text(attempt, rank):
                    file.write(piece)
                    yield written.take()
    yield written.take()


class _Written:
    """Takes what a ZipFile writes, which can not go back, until it is sent."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def write(self, data: Any) -> int:
        self.pieces.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        pass

    def take(self) -> bytes:
        taken = b"".join(self.pieces)
        self.pieces.clear()
        return taken
