"""Checks of the node itself: the folders that jobs write to, its clock, whether jobs can be kept apart."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

from nodeagent.messages import Finding, Verdict

GIBIBYTE = 2**30
#: Parts of the inodes of a file system that counts them.
FAILED_INODES, WARNING_INODES = 0.01, 0.05
#: A warning comes when this many times the least free space is left.
WARNING_TIMES = 5
#: By which the clock may differ from the server's.
WARNING_SECONDS = 5.0


class FolderCheck:
    """A folder that jobs write to: whether it can be written to, and what is free of space and inodes.

    A folder of a network file system whose server is gone makes this hang, which the monitor notices.
    """

    every_seconds = 30.0
    patience_seconds = 20.0

    def __init__(self, name: str, folder: str, node: str, least_free_bytes: int | None) -> None:
        self.name, self.folder = name, folder
        self.least_free_bytes = least_free_bytes
        # Nodes share the folder of checkpoints.
        self.file = os.path.join(folder, f".health-{node}")

    def look(self) -> tuple[Finding, ...]:
        verdict, message = self._judged()
        return (Finding(name=self.name, verdict=verdict, message=message),)

    def _judged(self) -> tuple[Verdict, str]:
        try:
            os.makedirs(self.folder, mode=0o711, exist_ok=True)  # As the first job would.
            facts = os.statvfs(self.folder)
            if facts.f_flag & os.ST_RDONLY:
                return "failed", f"{self.folder} is read-only."
            size, free = facts.f_blocks * facts.f_frsize, facts.f_bavail * facts.f_frsize
            least = min(GIBIBYTE, size // 50) if self.least_free_bytes is None else self.least_free_bytes
            inodes = facts.f_favail / facts.f_files if facts.f_files else 1.0
            left = f"{_gibibytes(free)} of {_gibibytes(size)}, {inodes:.0%} of the inodes are free."
            # Before anything is written: a full disk would refuse that, and not say why it matters.
            if free < least or inodes < FAILED_INODES:
                return "failed", f"{self.folder} is full: {left}"
            self._write()
        except OSError as error:
            return "failed", f"{self.folder} cannot be written to: {error.strerror}."
        if free < WARNING_TIMES * least or inodes < WARNING_INODES:
            return "warning", f"{self.folder} is nearly full: {left}"
        return "ok", f"{free / max(size, 1):.0%} of {_gibibytes(size)} are free."

    def _write(self) -> None:
        """Write a file to the disk, and delete it. Raises OSError."""
        descriptor = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, b"allotment\n")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
            with contextlib.suppress(OSError):
                os.unlink(self.file)


def _gibibytes(count: int) -> str:
    return f"{count / GIBIBYTE:.1f} GiB"


class ClockCheck:
    """The node's clock beside the server's.

    Never fails: leases are counted by a clock that is never set, so only times that are shown are wrong.
    """

    name = "clock"
    every_seconds = 30.0
    patience_seconds = 20.0

    def __init__(self, ahead_seconds: Callable[[], float | None]) -> None:
        """`ahead_seconds`: how far the server's clock is ahead; None while there was no answer."""
        self.ahead_seconds = ahead_seconds

    def look(self) -> tuple[Finding, ...]:
        ahead = self.ahead_seconds()
        if ahead is None or abs(ahead) < WARNING_SECONDS:
            return (Finding(name=self.name, verdict="ok"),)
        relation = "ahead of" if ahead > 0 else "behind"
        message = f"The clock is {abs(ahead):.0f} s {relation} the server's."
        return (Finding(name=self.name, verdict="warning", message=message),)


class IsolationCheck:
    """Whether jobs can be kept apart here, without which none starts.

    Tells what the runtime found out when it began; nothing of that changes while it lives.
    """

    name = "isolation"
    every_seconds = 3600.0
    patience_seconds = 20.0

    def __init__(self, problem: str) -> None:
        """`problem`: why no job starts here; "" when they do."""
        self.problem = problem

    def look(self) -> tuple[Finding, ...]:
        return (Finding(name=self.name, verdict="failed" if self.problem else "ok", message=self.problem),)
