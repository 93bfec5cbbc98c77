"""Working folders, uploaded by their digest: `client.archives.stored("vision", digest)`; and the files that
jobs leave: `client.artefacts.of_job(12)`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast
from urllib.parse import quote

from allot.errors import NotFound

if TYPE_CHECKING:
    from allot.schema import Artefact, StoredArchive


@dataclass(frozen=True, slots=True, kw_only=True)
class Archives:
    """Archives that a tenant has stored, by digest: `sha256:` and 64 hexadecimal digits."""

    read: Callable[..., Any]
    upload: Callable[[str, IO[bytes], str], Any]

    def stored(self, tenant: str, digest: str) -> StoredArchive | None:
        """Return what is known of an archive; None where it is to be uploaded (again)."""
        try:
            return cast("StoredArchive", self.read(_path(tenant, digest)))
        except NotFound:
            # It may be the tenant that is not there; uploading says which.
            return None

    def store(self, tenant: str, digest: str, archive: IO[bytes]) -> StoredArchive:
        """Upload a gzip'ed tar. Refused where it is too large, or the tenant has no room for it."""
        return cast("StoredArchive", self.upload(_path(tenant, digest), archive, "application/octet-stream"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Artefacts:
    """Files in the checkpoint folders of jobs. A path is as the API writes it: names, separated by /."""

    pages: Callable[..., Iterator[dict[str, Any]]]
    save: Callable[..., Path]

    def of_job(self, job_id: int, path: str = "", *, limit: int | None = None) -> Iterator[Artefact]:
        """What the job's folder, or the one at the path in it, holds, by name."""
        found = self.pages(f"/jobs/{job_id}/artefacts", {"path": path}, limit)
        return cast("Iterator[Artefact]", found)

    def download(self, job_id: int, path: str, target: Path) -> Path:
        """Write a file of the job's to a file, or into a folder under its own name. Returns the file, which
        is whole or not there at all."""
        if target.is_dir():
            # A name that leads elsewhere is not one that the server has.
            target /= path.rpartition("/")[2] or "artefact"
        return self.save(f"/jobs/{job_id}/artefacts/content", {"path": path}, target)


def _path(tenant: str, digest: str) -> str:
    return f"/tenants/{quote(tenant, safe='')}/archives/{quote(digest, safe=':')}"
