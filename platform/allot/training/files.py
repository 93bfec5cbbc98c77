"""Files that are whole or absent, and durable once they are there."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
from pathlib import Path

READ_BYTES = 1024 * 1024
#: What file systems without hard links answer.
NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}


def sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(READ_BYTES):
            digest.update(piece)
    return digest.hexdigest()


def sync(path: Path) -> None:
    """Make a file's content, or a folder's entries, outlive a loss of power."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    for parent, _, names in os.walk(folder):
        for name in names:
            sync(Path(parent, name))
        sync(Path(parent))


def aside(path: Path) -> Path:
    """Return a name beside `path` that no other process uses, on any machine, and that no listing shows."""
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}")


def write_file(path: Path, content: bytes) -> None:
    """Write a new file and make it durable."""
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def create_file(path: Path, content: bytes) -> bool:
    """Create the file with its whole content, if there is none; return whether this call did.

    Among any number of processes that try at once, on any machines that share the folder, one does.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    written = aside(path)
    try:
        write_file(written, content)
        try:
            os.link(written, path)
        except FileExistsError:
            # Over NFS an answer that got lost makes the client ask again, and then it is there: by us.
            return written.stat().st_nlink > 1
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            return _create_without_link(path, content)
        sync(path.parent)
        return True
    finally:
        written.unlink(missing_ok=True)


def _create_without_link(path: Path, content: bytes) -> bool:
    try:
        write_file(path, content)
    except FileExistsError:
        return False
    return True


def move_into_place(folder: Path, place: Path) -> None:
    """Give a finished folder its name, durably. Fails where the name is taken."""
    sync_tree(folder)
    place.parent.mkdir(parents=True, exist_ok=True)
    folder.rename(place)
    # The folder above may be new as well.
    sync(place.parent)
    sync(place.parent.parent)
