"""How an attempt ended, from what its shim wrote and the end of its output."""

from __future__ import annotations

import os
from typing import Any

from nodeagent.folder import AttemptFolder
from nodeagent.machine import Outcome
from nodeagent.process.classify import TAIL_BYTES, Ending, classify

#: What podman and docker exit with when they themselves fail, before anything ran.
ENGINE_FAILED = 125
#: As if SIGKILL had ended it.
KILLED = 137


def read_outcome(folder: AttemptFolder, status: dict[str, Any]) -> Outcome:
    """Return the outcome, given the final status."""
    failed: dict[str, Any] = {}
    for replica in status.get("replicas", []):
        if replica["rank"] == status.get("first_failed"):
            failed = replica
    problem = status.get("problem", "")
    exit_code = failed.get("exit_code") or 0
    last_lines = _tail(folder.log(failed["rank"])) if failed else ""
    if failed.get("is_container") and exit_code == ENGINE_FAILED:
        reason = (last_lines.strip().splitlines() or ["it does not say why"])[-1]
        problem = f"The container could not be started: {reason}"
    category, message = classify(
        Ending(
            reason=status["reason"],
            exit_code=exit_code,
            signal=failed.get("signal", 0),
            was_out_of_memory=failed.get("was_out_of_memory", False),
            kernel_killed_for_memory=status.get("kernel_killed_for_memory", False),
            problem=problem,
            last_lines=last_lines,
        )
    )
    if exit_code == 0 and category not in ("", "stopped"):
        # Whatever its processes said, or nobody knows what: it did not end by itself.
        exit_code = KILLED
    if message and len(status.get("replicas", [])) > 1 and status["reason"] in ("", "replica"):
        message = f"Rank {failed['rank']}: {message}"
    return Outcome(
        exit_code=exit_code if status.get("replicas") else None,
        category=category,
        message=message,
        started_at=status.get("started_at"),
        ended_at=status.get("ended_at"),
        last_lines=last_lines,
    )


def _tail(path: str) -> str:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.path.getsize(path) - TAIL_BYTES))
            return file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
