"""Where on this machine files lie in memory only: a tmpfs on which secrets of jobs are laid out."""

from __future__ import annotations

import os
import secrets

from nodeagent.folder import AttemptFolder
from nodeagent.shim.secrets import FOLDER_PREFIX, remove_abandoned

#: Looked for in this order; root alone may write into the first.
PLACES = ("/run", "/dev/shm")
MOUNTS = "/proc/self/mounts"


def memory_folder() -> str:
    """Return the first tmpfs that can be written to and passed by all users; "" when there is none."""
    try:
        with open(MOUNTS, encoding="utf-8", errors="replace") as file:
            mounts = {words[1]: words[2] for words in map(str.split, file)}
    except OSError:
        return ""
    usable = (path for path in PLACES if mounts.get(path) == "tmpfs" and os.access(path, os.W_OK | os.X_OK))
    return next(usable, "")


def folder_for_secrets(folder: AttemptFolder) -> str:
    """Return a path at which nothing is yet. Without a tmpfs it is in the attempt's own folder, on a disk."""
    parent = memory_folder() or folder.path
    return os.path.join(parent, f"{FOLDER_PREFIX}{secrets.token_hex(16)}")


def forget_abandoned() -> None:
    """Remove what was left behind by shims that were killed together with their agents."""
    if parent := memory_folder():
        remove_abandoned(parent)
