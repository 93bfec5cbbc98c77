"""Stops replicas where they are, and lets them go on: how, and when (a lease ends, others have their turn).

What is frozen keeps its memory, that of its GPUs included. Signals wait until it goes on, and in control
groups of version 1 even SIGKILL does: code that ends a replica has to thaw it. Imported by the shim, so it
imports nearly nothing.

`Freezer` stops them by their control groups or else by signals.

`Lapse` is what follows the end of a lease: the attempt stands still until the server confirms that it is
still its own. A node cannot know whether the server is down or the node is cut off. A frozen attempt neither
computes nor writes, so both cases are safe: in the first case it goes on where it was, in the second a
successor runs elsewhere and this one is killed as it stands.

`Turns` are those of jobs that share GPUs one at a time: whose it is follows from the wall clock alone. So the
nodes of a gang take turns at the same instants without a word between them, as far as their clocks agree, and
a shim goes on taking turns while its agent is away.
"""

from __future__ import annotations

import contextlib
import os
import signal

from nodeagent.procfs import descendants, is_stopped
from nodeagent.shim.replica import RunningReplica

TYPE_CHECKING = False  # What typing.TYPE_CHECKING is, without loading typing.
if TYPE_CHECKING:
    from typing import Any

#: Passes over the processes: each stops processes of which earlier passes saw only the parent.
MOST_PASSES = 20
#: How long freezing may take, before everything is killed instead.
FREEZE_SECONDS = 1.0
#: Of containers, which their engine freezes.
CONTAINER_FREEZE_SECONDS = 2.0
#: How often the shim checks whether all is frozen: until it is, and afterwards.
LOOK_FIRST_SECONDS = 0.05
LOOK_SECONDS = 1.0


class Freezer:
    """Freezes and thaws all that runs below the shim at once, also what left its replica.

    `is_all` false: only the replicas' control groups, or where they have none all that is below them.
    """

    def __init__(self, replicas: list[RunningReplica], *, is_all: bool = True) -> None:
        self.replicas = replicas
        self.is_all = is_all
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
        # A process of several threads whose first has ended looks dead: so all get the signal at first.
        running = self._signalled()
        for _ in range(MOST_PASSES):
            if not running:
                return
            for pid in running:
                _signal(pid, signal.SIGSTOP)
            running = [pid for pid in self._signalled() if not is_stopped(pid)]

    def is_complete(self) -> bool:
        """Whether nothing can run any more: the kernel and engines take a moment to stop things."""
        return (
            self.is_frozen
            and not self.not_paused
            and all(replica.cgroup.is_frozen() for replica in self.in_groups)
            and all(map(is_stopped, self._signalled()))
        )

    def thaw(self) -> None:
        """Let everything go on; nothing happens to what is not frozen."""
        if not self.is_frozen:
            return
        stopped = self._signalled()
        self.is_frozen = False
        for replica in self._alive():
            if replica.container is not None:
                replica.unpause()
        self.release()
        for pid in stopped:
            _signal(pid, signal.SIGCONT)

    def forget(self) -> None:
        """Leave it to another freezer, which now stops the same processes, when they go on."""
        self.is_frozen = False
        self.in_groups, self.not_paused = [], []

    def release(self) -> None:
        """Thaw control groups only: what was sent SIGKILL in there dies of it, and does nothing else."""
        self.is_frozen = False
        for replica in self.in_groups:
            replica.cgroup.thaw()
        self.in_groups = []

    def _alive(self) -> list[RunningReplica]:
        return [replica for replica in self.replicas if replica.pid and replica.wait_status is None]

    def _signalled(self) -> list[int]:
        """Return the processes that neither a control group nor an engine stops."""
        if not self.is_all:
            own = [replica.pid for replica in self._alive() if replica not in self.in_groups]
            return [pid for top in own for pid in [top, *descendants(top)]]
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


class Lapse:
    """One time of standing still. All times are seconds of the boot clock."""

    def __init__(self, *, deadline: float, complete_by: float, until: float, now: float) -> None:
        #: The deadline of the lease that ended.
        self.deadline = deadline
        #: When everything has to be frozen; None: it is.
        self.complete_by: float | None = complete_by
        #: When it is killed at the latest.
        self.until = until
        self.began_at = now

    def is_over(self, resume: float, now: float, margin_seconds: float) -> bool:
        """Whether a newer lease, which ends at `resume`, names the attempt and lasts a while."""
        return resume > self.deadline and now < resume - margin_seconds

    def must_end(self, now: float) -> bool:
        """Whether it has stood still for as long as it may, or could not be frozen in time."""
        return now >= self.until or (self.complete_by is not None and now >= self.complete_by)

    def looked(self, now: float, *, is_complete: bool) -> None:
        """Take in whether everything was seen to stand still."""
        if is_complete:
            self.complete_by = None
        elif self.complete_by is None:
            # Somebody let a process go on.
            self.complete_by = now + FREEZE_SECONDS

    def look_again_seconds(self, now: float) -> float:
        look_seconds = LOOK_SECONDS if self.complete_by is None else LOOK_FIRST_SECONDS
        return min(look_seconds, self.until - now)


class Turns:
    """The turns of one attempt: number `index` of `count`, each of `seconds`."""

    def __init__(self, index: int, count: int, seconds: float) -> None:
        self.index, self.count, self.seconds = index, count, seconds

    @classmethod
    def read(cls, value: Any) -> Turns | None:
        """Return the turns written down as JSON; None when it is unusable."""
        try:
            turns = cls(int(value["index"]), int(value["count"]), float(value["seconds"]))
        except (KeyError, TypeError, ValueError):
            return None
        return turns if turns.count > 1 and turns.seconds > 0 and 0 <= turns.index < turns.count else None

    def is_on(self, now: float) -> bool:
        """Whether it is this attempt's turn at that instant (Unix seconds)."""
        return int(now // self.seconds) % self.count == self.index

    def changes_at(self, now: float) -> float:
        """Return when a turn ends or begins next, its own or another's (Unix seconds)."""
        return (now // self.seconds + 1) * self.seconds
