"""Files that jobs leave in their checkpoint folders: pages of a folder, and each file as a download."""

from __future__ import annotations

import re
from functools import partial
from typing import Any, ClassVar
from urllib.parse import urlencode

from django.http import FileResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.pagination import NewestFirst
from scheduler.jobs.archives.api import ARCHIVE_TYPE
from scheduler.jobs.artefacts import schemas
from scheduler.jobs.artefacts.folders import Entry, entries_of, file_open
from scheduler.jobs.artefacts.naming import named, parts_of, shown
from scheduler.models.jobs import Job
from scheduler.models.selectors.jobs import job_get, job_visible
from scheduler.telemetry.logs.services.reading import note_foreign_read
from scheduler.wiring.rest import checked
from tenants.selectors import viewer
from tenants.times import iso

_REFUSALS = {409: "The server cannot see or read the folder."}
_RANGE = re.compile(r"bytes=(?P<first>[0-9]{0,18})-(?P<last>[0-9]{0,18})")
#: Characters with a special meaning in a header, or in a file name on another system.
_UNSAFE = re.compile(r'[\\/:*?"<>|%]')


class ByName(NewestFirst):
    """Pages of a folder; a cursor is the last name of the page before it."""

    def entries(self, request: Request, job_id: int, parts: list[bytes]) -> list[Entry]:
        size = self._page_size(request)
        after = named(request.query_params.get("cursor", ""), "cursor")
        found = entries_of(job_id, parts, after=after, most=size + 1)
        self.previous = None
        self.next = None
        if len(found) > size:
            query = request.query_params.copy()
            query["cursor"] = shown(found[size - 1].name)
            self.next = f"{request.path}?{urlencode(sorted(query.lists()), doseq=True)}"
        return found[:size]


class JobArtefacts(GenericAPIView[Any]):
    is_heavy = True
    queryset = Job.objects.none()
    pagination_class = ByName
    serializer_class = schemas.Artefact
    refusals: ClassVar = _REFUSALS

    @extend_schema(parameters=[schemas.WhichFolder], responses=schemas.Artefact(many=True))
    def get(self, request: Request, job_id: int) -> Response:
        """List the files of a job's checkpoint folder, or of a folder in it, by name."""
        by = viewer(request)
        job = job_get(by, job_id)
        note_foreign_read(by, job, "artefact.read")
        path = checked(schemas.WhichFolder, request)["path"]
        pages = ByName()
        entries = pages.entries(request, job.id, parts_of(path))
        return pages.get_paginated_response([_represented(path, entry) for entry in entries])


class JobArtefactContent(APIView):
    is_heavy = True
    refusals: ClassVar = _REFUSALS

    @extend_schema(
        parameters=[schemas.WhichFile],
        responses={
            (200, ARCHIVE_TYPE): OpenApiResponse(OpenApiTypes.BINARY),
            (206, ARCHIVE_TYPE): OpenApiResponse(OpenApiTypes.BINARY, description="The requested range."),
        },
    )
    def get(self, request: Request, job_id: int) -> FileResponse:
        """Download a file of a job's checkpoint folder, or a range of it. The length is the file's present
        one.
        """
        by = viewer(request)
        job = job_get(by, job_id)
        note_foreign_read(by, job, "artefact.read")
        parts = parts_of(checked(schemas.WhichFile, request)["path"])
        file = file_open(job.id, parts)
        start, length = _range_of(request, file.size, file.tag)
        file.begin(start, length)
        response = FileResponse(
            file,
            as_attachment=True,
            filename=_UNSAFE.sub("_", shown(parts[-1])),
            content_type=ARCHIVE_TYPE,
            status=200 if length == file.size else 206,
            headers={"Content-Length": str(length), "ETag": file.tag, "Accept-Ranges": "bytes"},
        )
        if response.status_code == 206:
            response.headers["Content-Range"] = f"bytes {start}-{start + length - 1}/{file.size}"
        # Checked again while it is sent (`controlplane.rights`): it goes on while the user may see the job.
        response.may_read = partial(job_visible, job_id=job.id)  # type: ignore[attr-defined]
        return response


def _represented(folder: str, entry: Entry) -> dict[str, Any]:
    name = shown(entry.name)
    return {
        "name": name,
        "path": f"{folder}/{name}" if folder else name,
        "kind": entry.kind,
        "bytes": entry.bytes,
        "modified_at": iso(entry.modified_at),
    }


def _range_of(request: Request, size: int, tag: str) -> tuple[int, int]:
    """Return from where on how many bytes are sent.

    All of them where no range is requested, where it lies beyond the file, or where the file has changed
    since: a server may always send the whole.
    """
    requested = _RANGE.fullmatch(request.headers.get("Range", ""))
    if requested is None or request.headers.get("If-Range", tag) != tag:
        return 0, size
    first, last = requested["first"], requested["last"]
    if not first:
        length = min(int(last or 0), size)
        return (size - length, length) if length else (0, size)
    start, end = int(first), min(int(last) if last else size, size - 1)
    return (start, end - start + 1) if start <= end else (0, size)
