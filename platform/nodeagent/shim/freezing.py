"""Stops replicas where they are, and lets them go on, by their control groups or else by signals.

What is frozen keeps its memory, that of its GPUs included. Signals wait until it goes on, and in control
groups of version 1 even SIGKILL does: whoever ends a replica has to thaw it. Imported by the shim, so it
imports nearly nothing.
"""

from __future__ import annotations

import contextlib
import os
import signal

from nodeagent.procfs import descendants, is_stopped
from nodeagent.shim.replica import RunningReplica

#: Passes over the processes: each stops what those before it saw no more of than its parent.
MOST_PASSES = 20


class Freezer:
    """Freezes and thaws all that runs below the shim at once, also what left its replica."""

    def __init__(self, replicas: list[RunningReplica]) -> None:
        self.replicas = replicas
        self.is_frozen = False
        #: Replicas whose control group stops them, and containers that their engine did not stop.
        self.in_groups: list[RunningReplica] = []
        self.not_paused: list[RunningReplica] = []

    def freeze(self) -> None:
        """Stop everything; once more stops what was not stopped, or came since."""
        containers = [replica for replica in self._alive() if replica.container is not None]
        others = [replica for replica in self._alive() if replica.container is None]
        self.not_paused = [
            replica for replica in (self.not_paused if self.is_frozen else containers) if not replica.pause()
        ]
        self.is_frozen = True
        self.in_groups = [replica for replica in others if replica.cgroup.freeze()]
        # A process of several threads whose first has ended looks dead: so all are told at first.
        running = self._told_by_signals()
        for _ in range(MOST_PASSES):
            if not running:
                return
            for pid in running:
                _signal(pid, signal.SIGSTOP)
            running = [pid for pid in self._told_by_signals() if not is_stopped(pid)]

    def is_complete(self) -> bool:
        """Whether nothing can run any more: the kernel and engines take a moment to stop things."""
        return (
            self.is_frozen
            and not self.not_paused
            and all(replica.cgroup.is_frozen() for replica in self.in_groups)
            and all(map(is_stopped, self._told_by_signals()))
        )

    def thaw(self) -> None:
        """Let everything go on; nothing happens to what is not frozen."""
        if not self.is_frozen:
            return
        stopped = self._told_by_signals()
        self.is_frozen = False
        for replica in self._alive():
            if replica.container is not None:
                replica.unpause()
        self.release()
        for pid in stopped:
            _signal(pid, signal.SIGCONT)

    def release(self) -> None:
        """Thaw control groups only: what was sent SIGKILL in there dies of it, and does nothing else."""
        self.is_frozen = False
        for replica in self.in_groups:
            replica.cgroup.thaw()
        self.in_groups = []

    def _alive(self) -> list[RunningReplica]:
        return [replica for replica in self.replicas if replica.pid and replica.wait_status is None]

    def _told_by_signals(self) -> list[int]:
        """Return the processes that neither a control group nor an engine stops."""
        pids = descendants(os.getpid())
        if any(replica.container is not None for replica in self.replicas):
            # What an engine left running below the shim is its own, and removes the container.
            own = [replica.pid for replica in self._alive() if replica.container is None]
            pids = [pid for top in own for pid in [top, *descendants(top)]]
        held = {pid for replica in self.in_groups for pid in replica.cgroup.members()}
        return [pid for pid in pids if pid not in held]


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
