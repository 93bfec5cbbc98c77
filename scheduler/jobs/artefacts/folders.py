"""The checkpoint folders of jobs, read here while jobs write to them.

A job may put anything there, and change it at any instant. So no path is ever handed to the system: each name
is opened below the folder opened before it, and never through a link, so that no link that is put there
meanwhile leads out. Only regular files are opened. Only one page of a folder is kept in memory, and a file is
read up to its length when it was opened.
"""

from __future__ import annotations

import heapq
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import BinaryIO, Literal

from django.conf import settings

from tenants.errors import Conflict, FieldError, Invalid, NotFound

Kind = Literal["file", "folder", "link", "other"]
#: A folder with more names than this is not listed: each page reads all of them.
MOST_NAMES = 200_000

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
#: Neither through a link nor waiting for the other end of a pipe.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_WORDS: dict[Kind, str] = {
    "file": "a file",
    "folder": "a folder",
    "link": "a link, which is not followed",
    "other": "a pipe, a socket or a device",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """What a folder holds under one name."""

    name: bytes
    kind: Kind
    #: None: it is not a file.
    bytes: int | None
    #: None: the job set a time that no calendar has.
    modified_at: datetime | None


def entries_of(job_id: int, parts: Sequence[bytes], *, after: bytes, most: int) -> list[Entry]:
    """Return what the folder holds behind the name `after`, by name, at most `most` entries.

    A job that has left nothing has an empty folder. Raises NotFound, Conflict, and Invalid where it is not a
    folder.
    """
    try:
        with _opened_folder(job_id, parts) as folder:
            chosen = heapq.nsmallest(most, (name for name in _names(folder) if name > after))
            return [entry for name in chosen if (entry := _entry(folder, name)) is not None]
    except NotFound:
        if parts:
            raise
        return []


@dataclass  # Django's handlers put their own `close` in its place.
class OpenFile:
    """A file as it was when it was opened. `tag` differs when the file has changed since."""

    #: Buffered, so that closing waits for reading: they are in different threads.
    file: BinaryIO
    size: int
    tag: str
    #: Bytes that are still to be read.
    left: int

    def begin(self, start: int, length: int) -> None:
        """Read `length` bytes from `start` on."""
        self.file.seek(start)
        self.left = length

    def read(self, most: int) -> bytes:
        """Return the next piece; empty at the end, also where the file has become shorter."""
        piece = self.file.read(min(most, self.left))
        self.left -= len(piece)
        return piece

    def close(self) -> None:
        self.file.close()


def file_open(job_id: int, parts: Sequence[bytes]) -> OpenFile:
    """Open what is below the job's folder. Raises NotFound, Conflict, and Invalid where it is not a file."""
    *folders, name = parts
    with _opened_folder(job_id, folders) as folder:
        # Checked before it is opened, since opening a device may act on it; and after, since the name may
        # have come to mean another file.
        _require("file", os.stat(name, dir_fd=folder, follow_symlinks=False))
        descriptor = _open(name, _FILE, folder)
        try:
            facts = os.fstat(descriptor)
            _require("file", facts)
            if facts.st_nlink > 1 and facts.st_uid != os.fstat(folder).st_uid:
                raise Conflict(
                    "The file has several hard links and another owner, so it may not belong to the job."
                )
        except BaseException:
            os.close(descriptor)
            raise
    tag = f'"{facts.st_ino:x}-{facts.st_mtime_ns:x}-{facts.st_size:x}"'
    return OpenFile(os.fdopen(descriptor, "rb"), facts.st_size, tag, left=facts.st_size)


@contextmanager
def _opened_folder(job_id: int, parts: Sequence[bytes]) -> Iterator[int]:
    """Open a folder of the job's, name by name. Raise the system's errors with words for the user."""
    folder = _opened_root()
    try:
        for name in [str(job_id).encode(), *parts]:
            below = _open(name, _FOLDER | os.O_NOFOLLOW, folder)
            os.close(folder)
            folder = below
        yield folder
    except FileNotFoundError:
        raise NotFound(f"There is no such file or folder among the checkpoints of job {job_id}.") from None
    except PermissionError:
        raise Conflict(
            "The server may not read this: it belongs to the user that the job runs as. An operator can let"
            " the server read it (docs/artefacts.md)."
        ) from None
    except OSError as error:
        raise Conflict(f"This cannot be read now: {error.strerror}. Try again.") from None
    finally:
        os.close(folder)


def _opened_root() -> int:
    root: str = settings.CONFIG.checkpoint_folder
    if not root:
        raise Conflict(
            "The server does not see the checkpoint folder of the nodes. An operator can mount it there and"
            " name it in ALLOT_CHECKPOINT_FOLDER (docs/artefacts.md)."
        )
    try:
        return os.open(root, _FOLDER)
    except OSError as error:
        raise Conflict(
            f"The server cannot open the folder that ALLOT_CHECKPOINT_FOLDER names: {error.strerror}. Tell"
            " an operator."
        ) from None


def _open(name: bytes, flags: int, folder: int) -> int:
    try:
        return os.open(name, flags, dir_fd=folder)
    except OSError:
        expected: Kind = "folder" if flags & os.O_DIRECTORY else "file"
        _require(expected, os.stat(name, dir_fd=folder, follow_symlinks=False))
        raise


def _require(expected: Kind, facts: os.stat_result) -> None:
    kind = _kind(facts)
    if kind != expected:
        raise Invalid.of(FieldError("path", f"leads to {_WORDS[kind]}", _WORDS[expected]))


def _names(folder: int) -> Iterator[bytes]:
    with os.scandir(folder) as found:
        for number, entry in enumerate(found):
            if number == MOST_NAMES:
                raise Conflict(
                    f"The folder holds more than {MOST_NAMES:,} names, which are not listed. A file in it can"
                    " be downloaded by its name."
                )
            yield os.fsencode(entry.name)


def _entry(folder: int, name: bytes) -> Entry | None:
    """Return what is there under the name; None when it was removed meanwhile."""
    try:
        facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    kind = _kind(facts)
    return Entry(name, kind, facts.st_size if kind == "file" else None, _instant(facts.st_mtime))


def _kind(facts: os.stat_result) -> Kind:
    if stat.S_ISREG(facts.st_mode):
        return "file"
    if stat.S_ISDIR(facts.st_mode):
        return "folder"
    return "link" if stat.S_ISLNK(facts.st_mode) else "other"


def _instant(seconds: float) -> datetime | None:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return None
