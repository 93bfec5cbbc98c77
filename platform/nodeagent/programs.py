"""The programs that an agent starts: how modules of ours are started, and whether others work here."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

#: Where the package `nodeagent` lies.
CODE_FOLDER = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


def program(module: str) -> str:
    """Return the text for `python -I -c` that runs the module's `main()`.

    Isolated, so that no setting and no folder of any user affects what it imports.
    """
    # The folder comes last, so that nothing in it can stand in for a module of the standard library.
    return f"import sys; sys.path.append({CODE_FOLDER!r}); from {module} import main; main()"


def problem_found(argv: Sequence[str], *, name: str, fails: str, seconds: float) -> str:
    """Run a program once; return why it cannot be relied on, empty if it can.

    `fails`: what it does when it fails.
    """
    try:
        trial = subprocess.run(argv, capture_output=True, text=True, timeout=seconds, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{name} could not be tried: {error}"
    lines = trial.stderr.strip().splitlines()
    return "" if trial.returncode == 0 else f"{name} {fails}: {lines[-1] if lines else ''}"
