"""Where checkpoints are kept: one face, behind it a folder that all nodes see, or an S3-compatible store.

Names are paths with `/`, relative to the job's own place in the store.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import Protocol

from allot.training.files import create_file
from allot.training.naming import MANIFEST


class Store(Protocol):
    """What the keeper of checkpoints needs. Anything that fails for good raises StoreError or OSError."""

    def names(self, prefix: str) -> list[str]:
        """Return all names that begin with `prefix`, which ends in `/`, in order.

        A folder that is empty is named too, with a `/` behind it: a removal that was killed leaves such ones.
        """

    def create(self, name: str, content: bytes) -> bool:
        """Create it unless it is there; return whether this call did. Of any number at once, one does."""

    def read(self, name: str) -> bytes | None:
        """Return its content; None when there is none."""

    def upload(self, source: Path, name: str, sha256: str) -> None:
        """Copy a file from the local folder, where the store is not that folder itself."""

    def download(self, name: str, target: Path) -> bool:
        """Have the file in the local folder; return False when the store has none."""

    def remove(self, name: str) -> None:
        """Remove it, if it is there; all that is below it where it ends in `/`, manifests first."""


class FolderStore:
    """A folder that all nodes see, or any local one where there is one node. It is its own local copy."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def names(self, prefix: str) -> list[str]:
        found = []
        for parent, folders, names in os.walk(self.folder / prefix):
            within = Path(parent).relative_to(self.folder).as_posix()
            if not folders and not names:
                found.append(f"{within}/")
            # Names with a dot are not finished.
            found += [f"{within}/{name}" for name in names if not name.startswith(".")]
        return sorted(found)

    def create(self, name: str, content: bytes) -> bool:
        return create_file(self.folder / name, content)

    def read(self, name: str) -> bytes | None:
        try:
            return (self.folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def upload(self, source: Path, name: str, sha256: str) -> None:
        assert source == self.folder / name

    def download(self, name: str, target: Path) -> bool:
        return target.exists()

    def remove(self, name: str) -> None:
        path = self.folder / name
        if name.endswith("/"):
            remove_folder(path)
        else:
            path.unlink(missing_ok=True)
        # The start's folder, after its last checkpoint.
        with contextlib.suppress(OSError):
            path.parent.rmdir()


def remove_folder(folder: Path) -> None:
    """Remove a folder, manifests first: what is half removed does not count."""
    for parent, _, names in os.walk(folder):
        if MANIFEST in names:
            Path(parent, MANIFEST).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
