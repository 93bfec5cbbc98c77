"""How many input workers there should be, by how long the trainer waits and the workers work. Pure.

A worker makes r batches a second, k of them are busy for the part b of their time, and the trainer waits for
the part s of its own. So it gets k·b·r and could use k·b·r / (1 - s), for which k·b / (1 - s) workers do.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

#: The time over which stall and work are measured.
WINDOW_SECONDS = 30.0
#: The shortest time between two measurements that are kept.
SAMPLE_SECONDS = 1.0
#: The stall from which workers are added, and below which one may be removed.
STALL_ADDS, STALL_MAY_REMOVE = 0.05, 0.01
#: Work as a part of the workers' time: the most of those that stay when one is removed, and the least at
#: which there are not enough.
BUSY_MOST = 0.8
#: How long that has to hold. Workers are added soon, for GPUs wait, and removed late.
ADD_AFTER_SECONDS, REMOVE_AFTER_SECONDS = 10.0, 60.0


@dataclass(frozen=True, slots=True)
class Seen:
    """Workers that are connected; what part of the time the trainer waited, and of theirs they worked."""

    workers: int
    stall: float
    busy: float


@dataclass(frozen=True, slots=True)
class Desired:
    """How many workers there should be, and since when (seconds of any clock) it might be more or fewer."""

    workers: int
    stalled_since: float | None = None
    idle_since: float | None = None


def decide(before: Desired, seen: Seen, *, now: float, least: int, most: int) -> Desired:
    """Return how many from now on, within least and most.

    More while the trainer waits for workers that all work: enough by the rates that are measured, at most
    twice as many at a time. One fewer where the rest could do the work and have time left. No more while
    some are still to come.
    """
    desired = min(max(before.workers, least), most)
    if seen.workers < desired:
        return Desired(desired)
    if seen.stall > STALL_ADDS and (seen.busy >= BUSY_MOST or not seen.workers):
        # Some of them may be there unasked; none of them is one too many.
        desired = min(max(desired, seen.workers), most)
        since = now if before.stalled_since is None else before.stalled_since
        if now - since < ADD_AFTER_SECONDS:
            return Desired(desired, stalled_since=since)
        enough = math.ceil(seen.workers * seen.busy / max(1 - seen.stall, 1e-9))
        more = max(seen.workers + 1, min(enough, 2 * seen.workers))
        return Desired(max(least, min(more, most)))
    if seen.stall < STALL_MAY_REMOVE and seen.workers * seen.busy <= BUSY_MOST * (seen.workers - 1):
        since = now if before.idle_since is None else before.idle_since
        if now - since < REMOVE_AFTER_SECONDS:
            return Desired(desired, idle_since=since)
        return Desired(max(least, min(seen.workers - 1, most)))
    return Desired(desired)


@dataclass(frozen=True, slots=True)
class _Totals:
    at: float
    waited: float = 0.0
    worked: float = 0.0
    there: float = 0.0


@dataclass(slots=True)
class Meter:
    """Adds up how long the trainer waited and the workers worked, noted at each change; times in seconds."""

    _totals: _Totals
    _is_waiting: bool = False
    _workers: int = 0
    _busy: int = 0
    _kept: deque[_Totals] = field(default_factory=deque)

    @classmethod
    def started(cls, now: float) -> Meter:
        return cls(_Totals(now), _kept=deque([_Totals(now)]))

    def tell(self, now: float, *, is_waiting: bool, workers: int, busy: int) -> None:
        """Record how it is from now on."""
        before, seconds = self._totals, max(now - self._totals.at, 0.0)
        self._totals = _Totals(
            max(now, before.at),
            before.waited + seconds * self._is_waiting,
            before.worked + seconds * self._busy,
            before.there + seconds * self._workers,
        )
        self._is_waiting, self._workers, self._busy = is_waiting, workers, busy
        if now - self._kept[-1].at >= SAMPLE_SECONDS:
            self._kept.append(self._totals)
            while len(self._kept) > 2 and now - self._kept[1].at >= WINDOW_SECONDS:
                self._kept.popleft()

    @property
    def seen(self) -> Seen:
        """The figures of the last `WINDOW_SECONDS`, up to the last change that was noted."""
        first, last = self._kept[0], self._totals
        seconds, there = last.at - first.at, last.there - first.there
        return Seen(
            self._workers,
            (last.waited - first.waited) / seconds if seconds else 0.0,
            (last.worked - first.worked) / there if there else 0.0,
        )

    @property
    def waited(self) -> float:
        """Seconds that the trainer waited, from the beginning."""
        return self._totals.waited

    def forget(self) -> None:
        """Measure again: what was seen with other workers is not valid for these."""
        self._kept = deque([self._totals])
