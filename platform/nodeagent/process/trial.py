"""Whether a program that the agent would use works here: found out by running it once."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence


def problem_found(argv: Sequence[str], *, name: str, fails: str, seconds: float) -> str:
    """Run it; return why it can not be relied on, empty if it can. `fails`: what it does when it fails."""
    try:
        trial = subprocess.run(argv, capture_output=True, text=True, timeout=seconds, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{name} could not be tried: {error}"
    lines = trial.stderr.strip().splitlines()
    return "" if trial.returncode == 0 else f"{name} {fails}: {lines[-1] if lines else ''}"
