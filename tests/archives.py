"""Archives of working folders, right and wrong ones, for tests of the client, the server and the node."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterable, Mapping


def tar_of(files: Mapping[str, bytes | str], *, more: Iterable[tarfile.TarInfo] = ()) -> bytes:
    """Return a gzip'ed tar with these files, and then members without content."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz", format=tarfile.PAX_FORMAT) as tar:
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            tar.addfile(member(name, size=len(data)), io.BytesIO(data))
        for one in more:
            tar.addfile(one)
    return target.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "", *, size: int = 0) -> tarfile.TarInfo:
    one = tarfile.TarInfo(name)
    one.type, one.linkname, one.size, one.mode = kind, target, size, 0o644
    return one


def digest_of(archive: bytes) -> str:
    """Return how a specification names it."""
    return f"sha256:{hashlib.sha256(archive).hexdigest()}"
