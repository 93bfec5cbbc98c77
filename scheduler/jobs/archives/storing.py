"""The files of archives: one for each, below a folder for each tenant, whole or not there at all."""

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import IO

from django.conf import settings

from nodeagent.code.archives import ArchiveRefused, Bounds, Contents, contents
from scheduler.jobspec.code import SHA256
from tenants.errors import FieldError, Invalid, NoSpace, TooLarge

PIECE_BYTES = 64 * 1024
#: The database may be on the same disk.
LEAST_FREE_BYTES = 2**30
_UNFINISHED = "unfinished-"
#: An upload that takes longer than this counts as cut off.
UPLOAD_SECONDS = 1_800.0


def archive_path(tenant_id: int, digest: str) -> Path:
    folder: Path = settings.CONFIG.archives
    return folder / str(tenant_id) / digest


class Upload:
    """An archive on its way into its place. Whatever happens, no other file of it is left."""

    def __init__(self, digest: str, declared_bytes: int) -> None:
        self.digest = digest
        self.most_bytes: int = settings.CONFIG.archive_bytes
        if declared_bytes > self.most_bytes:
            raise self._too_large()
        folder: Path = settings.CONFIG.archives
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if shutil.disk_usage(folder).free < LEAST_FREE_BYTES + declared_bytes:
                raise NoSpace("The server's disk is nearly full. Tell an operator; nothing was stored.")
            self.file: IO[bytes] = tempfile.NamedTemporaryFile(dir=folder, prefix=_UNFINISHED, delete=False)  # noqa: SIM115 - it is a context manager itself
        except OSError as error:
            raise _no_space(error) from error

    def __enter__(self) -> "Upload":
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()
        Path(self.file.name).unlink(missing_ok=True)

    def receive(self, body: IO[bytes]) -> tuple[int, Contents]:
        """Write the upload to the disk; return its size and what it holds.

        Raises TooLarge, NoSpace, and Invalid where it was cut off, is not what its digest says, or holds what
        would not be unpacked anywhere.
        """
        found, size, until = hashlib.sha256(), 0, time.monotonic() + UPLOAD_SECONDS
        while piece := _next_piece(body):
            size += len(piece)
            if size > self.most_bytes:
                raise self._too_large()
            if time.monotonic() > until:
                raise Invalid(f"The archive did not arrive within {UPLOAD_SECONDS:g} s; upload it again.")
            found.update(piece)
            written(self.file, piece)
        if found.hexdigest() != self.digest:
            problem = f"what arrived is {SHA256}{found.hexdigest()}"
            raise Invalid.of(FieldError("digest", problem, "the SHA-256 of the bytes that are sent"))
        config = settings.CONFIG
        bounds = Bounds(files=config.archive_files, unpacked_bytes=config.archive_unpacked_bytes)
        try:
            return size, contents(self.file, bounds)
        except ArchiveRefused as error:
            expected = "a gzip'ed tar of plain files, folders and links that stay inside"
            raise Invalid.of(FieldError("body", str(error).rstrip("."), expected)) from error

    def keep(self, path: Path) -> None:
        """Move it to its place, where it survives a loss of power."""
        try:
            self.file.flush()
            os.fsync(self.file.fileno())
            path.parent.mkdir(mode=0o700, exist_ok=True)
            os.rename(self.file.name, path)
        except OSError as error:
            raise _no_space(error) from error

    def _too_large(self) -> TooLarge:
        return TooLarge(
            f"The archive is larger than the {self.most_bytes:,} bytes that this server accepts"
            " (ALLOT_ARCHIVE_BYTES). Leave out files with .allotignore."
        )


def _next_piece(body: IO[bytes]) -> bytes:
    try:
        return body.read(PIECE_BYTES)
    except OSError as error:
        expected = "the whole archive; nothing was stored"
        raise Invalid.of(FieldError("body", f"was cut off: {error}", expected)) from error


def written(file: IO[bytes], piece: bytes) -> None:
    """Write all of a piece; raise NoSpace."""
    try:
        file.write(piece)
        file.flush()
    except OSError as error:
        raise _no_space(error) from error


def remove_strays(known: Collection[Path]) -> None:
    """Remove files that are not archives: of uploads that were cut off with the server, and without a row."""
    folder: Path = settings.CONFIG.archives
    before = time.time() - 2 * UPLOAD_SECONDS
    for path in [*folder.glob(f"{_UNFINISHED}*"), *folder.glob("[0-9]*/*")]:
        with suppress(FileNotFoundError):
            if path not in known and path.stat().st_mtime < before:
                path.unlink()


def _no_space(error: OSError) -> NoSpace:
    return NoSpace(
        f"The server cannot store the archive: {error.strerror}. Tell an operator; nothing was stored."
    )
