"""Removing what attempts leave behind, whatever they made of their folders."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from pathlib import Path


def remove_tree(path: Path) -> None:
    with contextlib.suppress(RecursionError):
        shutil.rmtree(path, ignore_errors=True)
    if path.exists():
        # Nested deeper than Python goes, or closed to its own owner.
        for command in (("chmod", "-R", "u+rwX"), ("rm", "-rf")):
            subprocess.run([*command, path], stderr=subprocess.DEVNULL, check=False)
