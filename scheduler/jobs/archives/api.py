"""Archives as members upload them, and the code of a job as they download it."""

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from django.http import FileResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from scheduler.jobs.archives.services import archive_store, archive_stored
from scheduler.jobs.archives.storing import archive_path
from scheduler.jobspec.code import DIGEST, DIGEST_EXPECTED, SHA256
from scheduler.models.archives import Archive
from scheduler.models.selectors.jobs import job_get
from tenants.errors import FieldError, Invalid, NotFound
from tenants.models import Role, Scope
from tenants.selectors import tenant_get, viewer
from tenants.times import iso

#: Generated clients read no other type of binary answer.
ARCHIVE_TYPE = "application/octet-stream"


class StoredArchive(serializers.Serializer[Mapping[str, object]]):
    """An uploaded working folder."""

    archive = serializers.CharField(help_text="Digest for a job's code.archive.")
    bytes = serializers.IntegerField()
    files = serializers.IntegerField(help_text="Number of files and links in it.")
    unpacked_bytes = serializers.IntegerField()
    uploaded_by = serializers.CharField()
    uploaded_at = serializers.DateTimeField()


class TenantArchive(APIView):
    scope = Scope.SUBMIT
    #: The handler leaves the body of a PUT where it is until this view reads it, whatever its length.
    streams_put = True
    refusals: ClassVar = {507: "The server has no disk space for it."}

    @extend_schema(responses=StoredArchive)
    def get(self, request: Request, name: str, digest: str) -> Response:
        """Check whether an archive is stored, so that it need not be uploaded again. 404 if it is not."""
        tenant = tenant_get(viewer(request), name)
        archive = archive_stored(tenant.id, _hex_of(digest))
        if archive is None:
            raise NotFound(f"Tenant {tenant.name} has not stored this archive.")
        return Response(_shown(archive))

    @extend_schema(
        request={ARCHIVE_TYPE: OpenApiTypes.BINARY},
        responses={200: StoredArchive, 201: StoredArchive},
    )
    def put(self, request: Request, name: str, digest: str) -> Response:
        """Upload a working folder as a gzip'ed tar, named by its SHA-256. A stored archive is not read
        again."""
        by = viewer(request)
        tenant = tenant_get(by, name)
        by.require(tenant, Role.MEMBER)
        archive, is_new = archive_store(
            viewer=by,
            tenant=tenant,
            digest=_hex_of(digest),
            body=request._request,  # type: ignore[arg-type]  # it can be read
            declared_bytes=_declared_bytes(request),
        )
        return Response(_shown(archive), status=201 if is_new else 200)


class JobCode(APIView):
    is_heavy = True

    @extend_schema(responses={(200, ARCHIVE_TYPE): OpenApiResponse(OpenApiTypes.BINARY)})
    def get(self, request: Request, job_id: int) -> FileResponse:
        """Download the archive with the initial content of a job's working folders. 404 if it has none."""
        job = job_get(viewer(request), job_id)
        if job.archive is None:
            raise NotFound(f"Job {job.id} has no archive.")
        try:
            file = archive_path(job.archive.tenant_id, job.archive.digest).open("rb")
        except FileNotFoundError:
            raise NotFound(f"The archive of job {job.id} was removed, since no job needed it.") from None
        name = f"job-{job.id}-code.tar.gz"
        return FileResponse(file, as_attachment=True, filename=name, content_type=ARCHIVE_TYPE)


def _shown(archive: Archive) -> dict[str, Any]:
    return {
        "archive": SHA256 + archive.digest,
        "bytes": archive.bytes,
        "files": archive.files,
        "unpacked_bytes": archive.unpacked_bytes,
        "uploaded_by": archive.uploaded_by.username,
        "uploaded_at": iso(archive.uploaded_at),
    }


def _hex_of(digest: str) -> str:
    if not re.fullmatch(DIGEST, digest):
        problem = f"{digest[:80]!r} is not a digest"
        raise Invalid.of(FieldError("digest", problem, DIGEST_EXPECTED))
    return digest.removeprefix(SHA256)


def _declared_bytes(request: Request) -> int:
    """Return the length that was declared; 0 for a body that comes in chunks."""
    declared = request.META.get("CONTENT_LENGTH") or "0"
    return int(declared) if declared.isascii() and declared.isdigit() else 0
