"""Working folders, uploaded by their digest: `client.archives.stored("vision", digest)`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, cast
from urllib.parse import quote

from allot.errors import NotFound

if TYPE_CHECKING:
    from allot.schema import StoredArchive


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


def _path(tenant: str, digest: str) -> str:
    return f"/tenants/{quote(tenant, safe='')}/archives/{quote(digest, safe=':')}"
