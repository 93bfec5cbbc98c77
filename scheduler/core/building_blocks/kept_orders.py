"""Orders of a view's jobs that a policy asks for in every round, each kept at the cost of what changed.

A policy finds them in its view (`View.line`, `View.ends`). A view that was cut out of another makes them
from its jobs: that is the plain computation, with which a property test compares what is kept.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Hashable, Iterable, Iterator, Mapping
from heapq import merge
from itertools import islice
from operator import attrgetter, itemgetter
from typing import NamedTuple

from scheduler.core.fitting.demand import shape_of
from scheduler.core.fitting.holding import Holding
from scheduler.core.model.snapshot import AllocationId, Job, JobId, Running

#: The highest priority first, then the earliest submission. No two are equal.
Rank = tuple[int, float, JobId]


def rank_of(job: Job) -> Rank:
    return -job.priority, job.submitted_at, job.id


class Row:
    """Jobs in the order of their ranks."""

    __slots__ = ("jobs", "ranks")

    def __init__(self) -> None:
        self.ranks: list[Rank] = []
        #: Position by position.
        self.jobs: list[JobId] = []

    def put(self, rank: Rank) -> None:
        place = bisect_left(self.ranks, rank)
        self.ranks.insert(place, rank)
        self.jobs.insert(place, rank[2])

    def append(self, rank: Rank) -> None:
        """Put one that comes after all others."""
        self.ranks.append(rank)
        self.jobs.append(rank[2])

    def drop(self, rank: Rank) -> None:
        place = bisect_left(self.ranks, rank)
        del self.ranks[place], self.jobs[place]

    def between(self, first: int, *ends: Rank | None) -> list[JobId]:
        """Return the jobs from a position on that come before each of these ranks; None sets no end."""
        last = min([bisect_left(self.ranks, end) for end in ends if end is not None], default=None)
        return self.jobs[first:last]


class WaitingLine:
    """The waiting jobs, in one row and by kinds: jobs of a kind fit equally well and may run equally long."""

    __slots__ = ("_known", "all", "kinds")

    def __init__(self, jobs: Iterable[Job] = ()) -> None:
        self.all = Row()
        self.kinds: dict[Hashable, Row] = {}
        self._known: dict[JobId, tuple[Rank, Hashable]] = {}
        for rank, job in sorted([(rank_of(job), job) for job in jobs], key=_first):
            kind = _kind_of(job)
            self._known[job.id] = rank, kind
            for row in (self.all, self._row_of(kind)):
                row.append(rank)

    def put(self, job: Job) -> None:
        """Take in a waiting job, or what has changed of it."""
        rank, kind = rank_of(job), _kind_of(job)
        if self._known.get(job.id) == (rank, kind):
            return
        self.drop(job.id)
        self._known[job.id] = rank, kind
        for row in (self.all, self._row_of(kind)):
            row.put(rank)

    def _row_of(self, kind: Hashable) -> Row:
        if kind not in self.kinds:
            self.kinds[kind] = Row()
        return self.kinds[kind]

    def drop(self, job: JobId) -> None:
        """Forget a job that no longer waits, if it did."""
        known = self._known.pop(job, None)
        if known is None:
            return
        rank, kind = known
        self.all.drop(rank)
        row = self.kinds[kind]
        row.drop(rank)
        if not row.jobs:
            del self.kinds[kind]


def _kind_of(job: Job) -> Hashable:
    return shape_of(job), job.priority, job.time_limit_seconds


class _Entry(NamedTuple):
    """When an allocation ends at the latest; one that is only promised: by seconds after it begins."""

    at: float
    #: The older comes first where ends are equal.
    allocation: AllocationId
    holding: Holding


class Ends:
    """The holdings of a view by when they end at the latest, by the time limits of their jobs."""

    __slots__ = ("_default_limit", "_entries", "_held", "_promised")

    def __init__(
        self, default_limit_seconds: float, holdings: Iterable[Holding], jobs: Mapping[JobId, Job]
    ) -> None:
        self._default_limit = default_limit_seconds
        self._held: list[_Entry] = []
        self._promised: dict[AllocationId, _Entry] = {}
        self._entries: dict[tuple[JobId, ...], _Entry] = {}
        for holding in holdings:
            if holding.running is not None:
                entry = self._enter(holding.running, holding, jobs)
                if not holding.running.is_nominated:
                    self._held.append(entry)
        self._held.sort()

    def put(self, running: Running, holding: Holding, jobs: Mapping[JobId, Job]) -> None:
        """Take in an allocation or a nomination, or new time limits of a known one."""
        self.drop(running)
        entry = self._enter(running, holding, jobs)
        if not running.is_nominated:
            insort(self._held, entry)

    def _enter(self, running: Running, holding: Holding, jobs: Mapping[JobId, Job]) -> _Entry:
        """Note it everywhere but in the order of those that run."""
        first, *others = running.jobs
        at = self._end_of(jobs[first], running)
        for job in others:
            at = max(at, self._end_of(jobs[job], running))
        entry = self._entries[running.jobs] = _Entry(at, running.allocation, holding)
        if running.is_nominated:
            self._promised[running.allocation] = entry
        return entry

    def drop(self, running: Running) -> None:
        """Forget an allocation that has ended, if it was known."""
        entry = self._entries.pop(running.jobs, None)
        if entry is not None and self._promised.pop(entry.allocation, None) is None:
            del self._held[bisect_left(self._held, entry)]

    def _end_of(self, job: Job, running: Running) -> float:
        limit = self._default_limit if job.time_limit_seconds is None else job.time_limit_seconds
        return limit if running.is_nominated else running.since_of(job.id) + limit

    def in_order(self, now: float) -> Iterator[tuple[float, Holding]]:
        """Yield when each ends, the first first; those that should have ended by now all end now."""
        late = bisect_right(self._held, now, key=_at)
        yield from [(now, holding) for _, _, holding in self._held[:late]]
        promised = [
            _Entry(now + limit, number, holding) for limit, number, holding in self._promised.values()
        ]
        for at, _, holding in merge(islice(self._held, late, None), sorted(promised)):
            yield at, holding

    @property
    def has_promised(self) -> bool:
        """Whether one has yet to begin, so that it ends the later, the more time passes."""
        return bool(self._promised)

    def next_after(self, now: float) -> float | None:
        """Return when the next one should end; None: all should have ended."""
        late = bisect_right(self._held, now, key=_at)
        return self._held[late].at if late < len(self._held) else None


_at = attrgetter("at")
_first = itemgetter(0)


class KeptOrders:
    """The orders of one view that were asked for, and are kept from then on with the view's jobs."""

    __slots__ = ("ends", "line")

    def __init__(self) -> None:
        #: None: no policy has asked yet, and nothing is spent on it.
        self.line: WaitingLine | None = None
        self.ends: Ends | None = None
