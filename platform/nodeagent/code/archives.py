"""Archives of working folders: what one may hold, and how it is unpacked.

An archive is a tar, usually packed by gzip, of regular files, folders, and symbolic links that stay inside.
Its maker is not trusted: nothing is written outside of the folder or through a link, and no more than
the bounds allow, in memory as on the disk. These rules are stricter than tarfile's `data` filter, which early
versions of Python 3.11 lack.

Imported by the server too, which refuses at once what no node would unpack.
"""

from __future__ import annotations

import gzip
import os
import posixpath
import shutil
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from nodeagent.process.removing import remove_tree

_GZIP = b"\x1f\x8b"
#: A header that names a file is small; only one that is to fill the memory is not.
_LARGEST_READ_BYTES = 2**20
#: Headers of one file, the long name included.
_HEADER_BYTES = 8 * 1024
_LONGEST_NAME_BYTES = 1024
_DEEPEST = 64
_KINDS = {
    tarfile.LNKTYPE: "a hard link",
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device",
    tarfile.FIFOTYPE: "a pipe",
}


class ArchiveRefused(Exception):
    """The archive is damaged, or holds what it may not; says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The most that one archive may hold: files, folders and links together, and bytes when unpacked."""

    files: int
    unpacked_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What an archive holds: files and links, and their bytes when unpacked."""

    files: int
    unpacked_bytes: int


def contents(file: IO[bytes], bounds: Bounds) -> Contents:
    """Read the whole archive and return what it holds; raise ArchiveRefused."""
    return _walk(file, bounds, None)


def unpack(file: IO[bytes], folder: str, bounds: Bounds) -> Contents:
    """Unpack the archive into an empty folder; raise ArchiveRefused, or OSError of the disk.

    Files belong to the process that unpacks them, and may be read by all and run where they could be.
    """
    return _walk(file, bounds, folder)


def unpack_for_each(file: IO[bytes], folders: Sequence[str], bounds: Bounds) -> None:
    """Unpack the archive into each of several new folders, and close it; raise as `unpack` does."""
    with file:
        for folder in folders:
            # A preparation that was cut short may have left some of it.
            remove_tree(Path(folder))
            os.makedirs(folder, mode=0o700)
            unpack(file, folder, bounds)


def _walk(file: IO[bytes], bounds: Bounds, folder: str | None) -> Contents:
    rules = _Rules(bounds)
    file.seek(0)
    with _opened(file, bounds) as tar:
        for member in tar:
            rules.check(member)
            if folder is not None:
                _write(tar, member, folder)
            # Else it would remember every one of them.
            tar.members = []  # type: ignore[attr-defined]  # it is there, but not in the stubs
    rules.check_links()
    return Contents(files=rules.files, unpacked_bytes=rules.unpacked_bytes)


@contextmanager
def _opened(file: IO[bytes], bounds: Bounds) -> Iterator[tarfile.TarFile]:
    is_packed = file.read(len(_GZIP)) == _GZIP
    file.seek(0)
    most_bytes = bounds.unpacked_bytes + (bounds.files + 2) * _HEADER_BYTES
    stream: Any = gzip.GzipFile(fileobj=file, mode="rb") if is_packed else file
    try:
        with tarfile.open(fileobj=_BoundedReader(stream, most_bytes), mode="r:") as tar:  # type: ignore[call-overload]  # it reads, tells and seeks
            yield tar
    # tarfile reads some numbers of headers unchecked, and calls itself for a header that others follow.
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, ValueError, RecursionError) as error:
        raise ArchiveRefused(f"It is not a whole tar archive: {error}.") from error


class _BoundedReader:
    """As much of a file as tarfile needs, which neither reads nor skips more than it may."""

    def __init__(self, file: IO[bytes], most_bytes: int) -> None:
        self.file = file
        self.most_bytes = most_bytes

    def read(self, size: int) -> bytes:
        if not 0 <= size <= _LARGEST_READ_BYTES:
            raise ArchiveRefused(f"It has a header of {size:,} bytes.")
        self._require(self.file.tell() + size)
        return self.file.read(size)

    def seek(self, place: int) -> int:
        self._require(place)
        return self.file.seek(place)

    def tell(self) -> int:
        return self.file.tell()

    def _require(self, place: int) -> None:
        if place > self.most_bytes + tarfile.RECORDSIZE:
            raise ArchiveRefused(f"Unpacked it is longer than {self.most_bytes:,} bytes.")


class _Rules:
    """Checks the members of an archive one by one, and counts them."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.files = self.unpacked_bytes = 0
        self._folders: set[str] = set()
        #: Names that are taken by files and links, below which there can be nothing.
        self._leaves: set[str] = set()
        self._links: set[str] = set()
        #: Links, and their targets, that leave again what they have entered.
        self._returning: list[tuple[str, str]] = []

    def check(self, member: tarfile.TarInfo) -> None:
        name = member.name = _clean(member.name)
        shown = repr(name[:200])
        if not (member.isdir() or member.issym() or member.type in (tarfile.REGTYPE, tarfile.AREGTYPE)):
            raise ArchiveRefused(f"{shown} is {_KINDS.get(member.type, 'not a plain file')}.")
        if member.issparse() or member.size < 0 or not (name or member.isdir()):
            raise ArchiveRefused(f"{shown} is not a plain file.")
        above = posixpath.dirname(name)
        while above and above not in self._folders:
            self._require_free(above)
            self._folders.add(above)
            above = posixpath.dirname(above)
        if member.isdir():
            self._require_free(name)
            self._folders.add(name)
        else:
            if name in self._folders:
                raise ArchiveRefused(f"{shown} is there twice.")
            self._require_free(name)
            self._leaves.add(name)
            self.files += 1
            self.unpacked_bytes += member.size
        if member.issym():
            _require_inside(member)
            self._links.add(name)
            if any(_left_again(name, member.linkname)):
                self._returning.append((name, member.linkname))
        if len(self._folders) + self.files > self.bounds.files:
            raise ArchiveRefused(f"It holds more than {self.bounds.files:,} files.")
        if self.unpacked_bytes > self.bounds.unpacked_bytes:
            raise ArchiveRefused(f"Its files have more than {self.bounds.unpacked_bytes:,} bytes.")

    def check_links(self) -> None:
        """Refuse `..` behind a link, once all are known: it is above where that leads, not above its name."""
        for name, target in self._returning:
            if not self._links.isdisjoint(_left_again(name, target)):
                raise ArchiveRefused(f"{name[:200]!r} is a link that leads back out of another link.")

    def _require_free(self, name: str) -> None:
        if name in self._leaves:
            raise ArchiveRefused(f"{name[:200]!r} is there twice, or leads through a link or a file.")


def _clean(name: str) -> str:
    """Return the name without `./` and doubled slashes; it stays inside the folder."""
    if name.startswith("/"):
        raise ArchiveRefused(f"{name[:200]!r} is an absolute path.")
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ArchiveRefused(f"{name[:200]!r} leads out of the folder.")
    if len(os.fsencode(name)) > _LONGEST_NAME_BYTES or len(parts) > _DEEPEST:
        raise ArchiveRefused(f"{name[:200]!r} is too long or too deep a path.")
    if "\0" in name:
        raise ArchiveRefused("A name has a zero byte.")
    return "/".join(parts)


def _require_inside(link: tarfile.TarInfo) -> None:
    target = posixpath.normpath(posixpath.join(posixpath.dirname(link.name), link.linkname))
    if not link.linkname or target.startswith("/") or target.split("/")[0] == "..":
        raise ArchiveRefused(f"{link.name[:200]!r} is a link that leads out of the folder.")
    if len(os.fsencode(link.linkname)) > _LONGEST_NAME_BYTES or link.linkname.count("/") > _DEEPEST:
        raise ArchiveRefused(f"{link.name[:200]!r} is a link to too long or too deep a path.")


def _left_again(name: str, target: str) -> Iterator[str]:
    """Yield the paths that the target of a link enters, and leaves again by `..`; it stays inside."""
    place = name.split("/")[:-1]
    entered: list[str] = []
    for part in target.split("/"):
        if part == "..":
            yield from entered
            entered = []
            place.pop()
        elif part not in ("", "."):
            place.append(part)
            entered.append("/".join(place))


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: str) -> None:
    path = os.path.join(folder, member.name)
    if member.isdir():
        os.makedirs(path, mode=0o755, exist_ok=True)
        return
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    if member.issym():
        os.symlink(member.linkname, path)
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o755 if member.mode & 0o100 else 0o644)
    with open(descriptor, "wb") as target, tar.extractfile(member) or open(os.devnull, "rb") as source:
        shutil.copyfileobj(source, target)
        if target.tell() < member.size:
            raise ArchiveRefused(f"It ends in the middle of {member.name[:200]!r}.")
