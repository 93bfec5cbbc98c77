"""Stops replicas where they are, and lets them go on, by their control groups or else by signals.

What is frozen keeps its memory, that of its GPUs included. Signals wait until it goes on, and in control
groups of version 1 even SIGKILL does: whoever ends a replica has to thaw it. Imported by the minder, so it
imports nearly nothing.
"""

from __future__ import annotations

import contextlib
import os
import signal

from nodeagent.minding.replica import RunningReplica
from nodeagent.procfs import descendants, is_stopped

#: Passes over the processes: each stops what those before it saw no more of than its parent.
MOST_PASSES = 20


class Freezer:
    """Freezes and thaws the replicas of one attempt, all at once."""

    def __init__(self, replicas: list[RunningReplica]) -> None:
        self.replicas = replicas
        self.is_frozen = False

    def freeze(self) -> None:
        self.is_frozen = True
        for replica in self._alive():
            if not (replica.pause() or replica.cgroup.freeze()):
                _stop_all(replica.pid)

    def thaw(self) -> None:
        """Let everything go on; nothing happens to what is not frozen."""
        if not self.is_frozen:
            return
        self.is_frozen = False
        for replica in self._alive():
            if not (replica.unpause() or replica.cgroup.thaw()):
                for pid in [replica.pid, *descendants(replica.pid)]:
                    _signal(pid, signal.SIGCONT)

    def _alive(self) -> list[RunningReplica]:
        return [replica for replica in self.replicas if replica.pid and replica.wait_status is None]


def _stop_all(root: int) -> None:
    """SIGSTOP to a process and all below it, also those that were forked meanwhile; parents first."""
    for _ in range(MOST_PASSES):
        running = [pid for pid in [root, *descendants(root)] if not is_stopped(pid)]
        if not running:
            return
        for pid in running:
            _signal(pid, signal.SIGSTOP)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
