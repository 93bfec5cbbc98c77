"""Removing what attempts leave behind, whatever they made of their folders."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from functools import partial
from pathlib import Path

from nodeagent.threads import in_own_thread


async def remove(*trees: Path) -> None:
    """Remove folders one after the other: a job may leave a great many files, and reports have to go on."""
    for tree in trees:
        await in_own_thread(f"remove {tree.name}", partial(remove_tree, tree))


def remove_tree(path: Path) -> None:
    with contextlib.suppress(RecursionError):
        shutil.rmtree(path, ignore_errors=True)
    if path.exists():
        # Nested deeper than Python goes, or closed to its own owner.
        for command in (("chmod", "-R", "u+rwX"), ("rm", "-rf")):
            subprocess.run([*command, path], stderr=subprocess.DEVNULL, check=False)
