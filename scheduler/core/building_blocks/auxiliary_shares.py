"""The division of CPUs and memory, once GPUs have decided which jobs run.

J. Mohan et al., "Looking Beyond GPUs for DNN Scheduling on Multi-Tenant Clusters" (Synergy), OSDI 2022,
section 4, as the published simulator has it (msr-fiddle/synergy): GPUs from the first servers with room.
Deviation: a job that is cut keeps no more than it needs, even where its proportional share is larger. So a
cut always makes room, and the job is not slower.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

#: CPUs, and memory in GB, for each GPU.
PerGpu = tuple[float, float]

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Servers:
    """Equal servers; what one of them has, memory in GB."""

    count: int
    gpus: int
    cpus: float
    memory: float

    @property
    def proportional(self) -> PerGpu:
        return self.cpus / self.gpus, self.memory / self.gpus


@dataclass(frozen=True, slots=True)
class Need:
    """A job's GPUs, and the least amounts for each GPU at which it is fastest."""

    gpus: int
    best: PerGpu


@dataclass(slots=True)
class Share:
    """What a job gets: its GPUs by server, and CPUs and memory for each GPU."""

    parts: dict[int, int]
    per_gpu: PerGpu
    #: Whether it gets its best amounts; else it is at least as fast as with the proportional share.
    is_best: bool


def proportional(servers: Servers, needs: Sequence[Need]) -> list[Share | None]:
    """Give each job whose GPUs fit CPUs and memory in proportion to its GPUs."""
    room = _Room(servers)
    return [room.take(need.gpus, servers.proportional, is_best=False) for need in needs]


def greedy(servers: Servers, needs: Sequence[Need]) -> list[Share | None]:
    """Give each job its best amounts; a job that does not fit with them is skipped, and GPUs may idle."""
    room = _Room(servers)
    return [room.take(need.gpus, need.best, is_best=True) for need in needs]


def tune(servers: Servers, needs: Sequence[Need]) -> list[Share | None]:
    """Give each job whose GPUs fit its best amounts while there is room. Else it gets at most its
    proportional share, and others are cut to theirs for it: first those with the most CPUs for each GPU.
    """
    room, fair = _Room(servers), servers.proportional
    shares: list[Share | None] = []
    on_server: list[list[Share]] = [[] for _ in range(servers.count)]
    for need in needs:
        share = None
        if need.gpus <= room.free_gpus:
            cut = (min(need.best[0], fair[0]), min(need.best[1], fair[1]))
            share = room.take(need.gpus, need.best, is_best=True)
            if share is None and cut != need.best:
                share = room.take(need.gpus, cut, is_best=False)
            if share is None:
                parts = room.parts_by_gpus(need.gpus)
                for server, gpus in parts.items():
                    _cut_others(room, server, (gpus * cut[0], gpus * cut[1]), on_server[server], fair)
                share = Share(parts, cut, cut == need.best)
                room.add(share, 1)
            for server in share.parts:
                on_server[server].append(share)
        shares.append(share)
    return shares


def _cut_others(room: _Room, server: int, desired: PerGpu, holders: list[Share], fair: PerGpu) -> None:
    """Cut jobs that hold more than the proportional share, until there is room."""
    for share in sorted(holders, key=lambda each: (len(each.parts), -each.per_gpu[0], -each.per_gpu[1])):
        if room.has(server, desired):
            return
        cut = (min(share.per_gpu[0], fair[0]), min(share.per_gpu[1], fair[1]))
        if cut != share.per_gpu:
            room.add(share, -1)
            share.per_gpu, share.is_best = cut, False
            room.add(share, 1)


class _Room:
    """What is free on each server, as arrays: a round searches all servers once or twice for each job."""

    def __init__(self, servers: Servers) -> None:
        self._gpus = np.full(servers.count, servers.gpus)
        self._cpus = np.full(servers.count, float(servers.cpus))
        self._memory = np.full(servers.count, float(servers.memory))
        self.free_gpus = servers.gpus * servers.count

    def has(self, server: int, desired: PerGpu) -> bool:
        return bool(
            self._cpus[server] + _ROUNDING >= desired[0] and self._memory[server] + _ROUNDING >= desired[1]
        )

    def take(self, gpus: int, per_gpu: PerGpu, *, is_best: bool) -> Share | None:
        """Take GPUs of the first servers with room; None, without a change, where there is no room."""
        if gpus > self.free_gpus:
            return None
        cpus, memory = per_gpu
        # Each of these has room for at least one GPU, so this many servers suffice.
        have_room = (self._gpus > 0) & (self._cpus + _ROUNDING >= cpus) & (self._memory + _ROUNDING >= memory)
        parts: dict[int, int] = {}
        left = gpus
        for server in np.flatnonzero(have_room)[:gpus].tolist():
            most = min(left, int(self._gpus[server]))
            while not self.has(server, (most * cpus, most * memory)):
                most -= 1
            parts[server] = most
            left -= most
            if not left:
                share = Share(parts, per_gpu, is_best)
                self.add(share, 1)
                return share
        return None

    def parts_by_gpus(self, gpus: int) -> dict[int, int]:
        """Return GPUs by server: all on the first server with that many free, else on those with the fewest
        free.
        """
        if gpus > 1 and (enough := self._gpus >= gpus).any():
            return {int(enough.argmax()): gpus}
        free = np.flatnonzero(self._gpus)
        parts: dict[int, int] = {}
        for server in free[np.argsort(self._gpus[free], kind="stable")][:gpus].tolist():
            parts[server] = min(int(self._gpus[server]), gpus)
            gpus -= parts[server]
            if not gpus:
                break
        return parts

    def add(self, share: Share, sign: int) -> None:
        """Take a share from the servers, or with -1 give it back."""
        for server, gpus in share.parts.items():
            self._gpus[server] -= sign * gpus
            self._cpus[server] -= sign * gpus * share.per_gpu[0]
            self._memory[server] -= sign * gpus * share.per_gpu[1]
            self.free_gpus -= sign * gpus
