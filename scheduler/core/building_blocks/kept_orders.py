"""Orders of a view's jobs that policies ask for in every round, updated at the cost of what changed.

A policy finds them in its view (`View.line`, `View.ends`, `View.ranked`). A view cut out of another computes
them from its jobs; a property test compares the kept orders with this plain computation.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from heapq import merge
from itertools import islice
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from scheduler.core.fitting.cluster import Cluster
from scheduler.core.fitting.demand import shape_in
from scheduler.core.fitting.holding import Holding
from scheduler.core.model.snapshot import AllocationId, Job, JobId, Running

#: The highest priority first, then the earliest submission. No two are equal.
Rank = tuple[int, float, JobId]


def rank_of(job: Job) -> Rank:
    return -job.priority, job.submitted_at, job.id


class Row:
    """Jobs in the order of their ranks."""

    __slots__ = ("ranks",)

    def __init__(self, ranks: list[Rank]) -> None:
        self.ranks = ranks

    def put(self, rank: Rank) -> int:
        """Insert a rank; return its position."""
        place = bisect_left(self.ranks, rank)
        self.ranks.insert(place, rank)
        return place

    def drop(self, rank: Rank) -> int:
        """Remove a rank; return the position that it had."""
        place = bisect_left(self.ranks, rank)
        del self.ranks[place]
        return place

    def between(self, first: int, *ends: Rank | None) -> list[JobId]:
        """Return the jobs from a position on that come before each of these ranks; None sets no end."""
        last = min([bisect_left(self.ranks, end) for end in ends if end is not None], default=None)
        return [rank[2] for rank in self.ranks[first:last]]


class WaitingLine:
    """The waiting jobs in one row, and by kinds: jobs of a kind fit equally well and may run equally long."""

    __slots__ = ("_all", "_by_kind", "_cluster", "_kinds", "_known", "changes", "jobs")

    def __init__(self, cluster: Cluster, jobs: Iterable[Job] = ()) -> None:
        ranked = sorted([(rank_of(job), job) for job in jobs], key=_first)
        self._cluster = cluster
        self._known = {job.id: job for _, job in ranked}
        self._all = Row([rank for rank, _ in ranked])
        #: In order.
        self.jobs = list(self._known)
        #: The number of changes, not counting jobs that joined the end.
        self.changes = 0
        #: None: no policy has asked for it.
        self._by_kind: dict[Hashable, Row] | None = None
        self._kinds: dict[JobId, Hashable] = {}

    @property
    def by_kind(self) -> Mapping[Hashable, Row]:
        """The same jobs, a row for each kind."""
        if self._by_kind is None:
            ranks: dict[Hashable, list[Rank]] = {}
            for rank in self._all.ranks:
                kind = self._kinds[rank[2]] = self._kind_of(self._known[rank[2]])
                ranks.setdefault(kind, []).append(rank)
            self._by_kind = {kind: Row(same) for kind, same in ranks.items()}
        return self._by_kind

    def _kind_of(self, job: Job) -> Hashable:
        return shape_in(self._cluster, job), job.priority, job.time_limit_seconds

    def put(self, job: Job) -> None:
        """Add a waiting job, or update one that has changed."""
        before, rank = self._known.get(job.id), rank_of(job)
        kind = None if self._by_kind is None else self._kind_of(job)
        if before is not None and rank_of(before) == rank and self._kinds.get(job.id) == kind:
            self._known[job.id] = job
            self.changes += 1
            return
        self.drop(job.id)
        self._known[job.id] = job
        place = self._all.put(rank)
        if place < len(self.jobs):
            self.changes += 1
        self.jobs.insert(place, job.id)
        if self._by_kind is not None:
            self._kinds[job.id] = kind
            self._by_kind.setdefault(kind, Row([])).put(rank)

    def drop(self, number: JobId) -> None:
        """Forget a job that no longer waits, if it did."""
        job = self._known.pop(number, None)
        if job is None:
            return
        self.changes += 1
        rank = rank_of(job)
        del self.jobs[self._all.drop(rank)]
        if self._by_kind is not None:
            kind = self._kinds.pop(number)
            row = self._by_kind[kind]
            row.drop(rank)
            if not row.ranks:
                del self._by_kind[kind]


#: A policy's own rank of a job; the last entry is the job's id, so that no two are equal.
OwnRank = tuple[Any, ...]

#: Where more than one waiting job in this many changed, all are ranked again.
FEW_CHANGE = 8


class RankedLine:
    """The waiting jobs by a policy's own rank, which depends on nothing but the job and `terms`."""

    __slots__ = ("_changed", "ranked", "ranks", "terms")

    def __init__(self, terms: object) -> None:
        self.terms = terms
        #: In order. A reader must not change it.
        self.ranked: list[tuple[OwnRank, Job]] = []
        self.ranks: dict[JobId, OwnRank] = {}
        #: The jobs that came, changed or went since the last `renew`.
        self._changed: set[JobId] = set()

    @property
    def jobs(self) -> list[Job]:
        return [job for _, job in self.ranked]

    def note(self, number: JobId) -> None:
        """Record that a job came to wait, changed while it waits, or waits no longer."""
        self._changed.add(number)

    def renew(self, waiting: Mapping[JobId, Job], rank: Callable[[Job], OwnRank]) -> None:
        """Rank the jobs that changed; rank all of them the first time."""
        changed, self._changed = self._changed, set()
        if not self.ranked or len(changed) * FEW_CHANGE > len(waiting):
            self.ranks = {number: rank(job) for number, job in waiting.items()}
            self.ranked = sorted([(self.ranks[number], job) for number, job in waiting.items()], key=_first)
            return
        for number in changed:
            before = self.ranks.pop(number, None)
            if before is not None:
                del self.ranked[bisect_left(self.ranked, (before,))]
            job = waiting.get(number)
            if job is not None:
                self.ranks[number] = rank(job)
                insort(self.ranked, (self.ranks[number], job))


class _Entry(NamedTuple):
    """The latest end of an allocation; for one that has yet to begin, in seconds after its start."""

    at: float
    #: Among equal ends the older allocation comes first.
    allocation: AllocationId
    holding: Holding


class Ends:
    """The holdings of a view in the order of their latest ends, by the time limits of their jobs."""

    __slots__ = ("_default_limit", "_entries", "_held", "_promised", "changes")

    def __init__(
        self, default_limit_seconds: float, holdings: Iterable[Holding], jobs: Mapping[JobId, Job]
    ) -> None:
        self._default_limit = default_limit_seconds
        #: The number of allocations that came, went or changed their end.
        self.changes = 0
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
        """Add an allocation or a nomination, or update the time limits of a known one."""
        self.drop(running)
        self.changes += 1
        entry = self._enter(running, holding, jobs)
        if not running.is_nominated:
            insort(self._held, entry)

    def _enter(self, running: Running, holding: Holding, jobs: Mapping[JobId, Job]) -> _Entry:
        """Record it everywhere except in the order of running allocations."""
        at = max([self._end_of(jobs[job], running) for job in running.jobs])
        entry = self._entries[running.jobs] = _Entry(at, running.allocation, holding)
        if running.is_nominated:
            self._promised[running.allocation] = entry
        return entry

    def drop(self, running: Running) -> None:
        """Forget an allocation that has ended, if it was known."""
        entry = self._entries.pop(running.jobs, None)
        self.changes += entry is not None
        if entry is not None and self._promised.pop(entry.allocation, None) is None:
            del self._held[bisect_left(self._held, entry)]

    def _end_of(self, job: Job, running: Running) -> float:
        limit = self._default_limit if job.time_limit_seconds is None else job.time_limit_seconds
        return limit if running.is_nominated else running.since_of(job.id) + limit

    def in_order(self, now: float) -> Iterator[tuple[float, Holding]]:
        """Yield the ends in order, with the holdings; those that should have ended by now all end now."""
        late = bisect_right(self._held, now, key=_at)
        for _, _, holding in islice(self._held, late):
            yield now, holding
        promised = [
            _Entry(now + limit, number, holding) for limit, number, holding in self._promised.values()
        ]
        for at, _, holding in merge(islice(self._held, late, None), sorted(promised)):
            yield at, holding

    @property
    def has_promised(self) -> bool:
        """Whether an allocation has yet to begin, so that its end moves with the clock."""
        return bool(self._promised)

    def next_after(self, now: float) -> float | None:
        """Return when the next allocation should end; None: all should have ended."""
        late = bisect_right(self._held, now, key=_at)
        return self._held[late].at if late < len(self._held) else None


_at = attrgetter("at")
_first = itemgetter(0)


class KeptOrders:
    """The orders of one view, each kept up to date from when a policy first asks for it."""

    __slots__ = ("ends", "line", "ranked", "stalled")

    def __init__(self) -> None:
        #: None, here and below: no policy has asked for it yet, so it costs nothing.
        self.line: WaitingLine | None = None
        self.ends: Ends | None = None
        self.ranked: RankedLine | None = None
        #: The view's policy's own record of its last round, if nothing could start in it; only the policy
        #: reads it.
        self.stalled: object = None

    def put(self, job: Job) -> None:
        """Record that a job waits, or changed while it waits."""
        if self.line is not None:
            self.line.put(job)
        if self.ranked is not None:
            self.ranked.note(job.id)

    def drop(self, number: JobId) -> None:
        """Record that a job waits no longer."""
        if self.line is not None:
            self.line.drop(number)
        if self.ranked is not None:
            self.ranked.note(number)
