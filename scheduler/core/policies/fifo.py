"""First in, first out: higher priority first, then earlier submission; nothing that runs is disturbed.

With backfill, the first job that does not fit reserves the earliest start that the time limits of the
running jobs allow, and later jobs start now only if that cannot delay it (see `core.building_blocks.backfill`
for the papers and every deviation). A job without a time limit counts with the default of its view.
Without backfill, nothing passes the first job that does not fit.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace, merge
from math import inf
from typing import ClassVar, NamedTuple

from scheduler.core.building_blocks.backfill import BackfillReservation
from scheduler.core.building_blocks.kept_orders import Ends, Rank, Row, WaitingLine, rank_of
from scheduler.core.building_blocks.policy import View
from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.demand import demand_of, shape_in, sizes_of
from scheduler.core.fitting.holding import Fit, Holding
from scheduler.core.model import wording
from scheduler.core.model.plan import Decision, Grant, Reason, Tier
from scheduler.core.model.snapshot import Job, JobId, Memory

#: A stalled queue of fewer jobs is tried again in each round: that costs less than to keep what was found.
LONG_QUEUE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Fifo:
    """Order of submission, within priorities."""

    #: Among jobs that are alike the earlier starts first; jobs without room change nothing.
    by_arrival: ClassVar[bool] = True
    #: No job stops, moves or shares GPUs for one that starts.
    only_starts: ClassVar[bool] = True

    backfill: bool = True
    #: Kinds of jobs that are tried behind the head in one round, so that a long queue costs a bounded time.
    backfill_depth: int = 1_000

    def allocate(self, view: View, memory: Memory) -> Decision:
        """Keep what runs; grant the queue in order, then what fits beside the reservation of its head."""
        if not view.waiting:
            return Decision(grants=(), keep_running=True, stands_until=inf)
        if self.backfill:
            return self._backfilled(view)
        line = _Line(view)
        waiting = view.line.jobs[line.start_in_order(view.line.jobs) :]
        reasons = {}
        if waiting:
            reasons = dict.fromkeys(waiting[1:], (_behind(view.jobs[waiting[0]]),))
            reasons[waiting[0]] = (_first(None),)
        grants = tuple(line.grants)
        return Decision(
            grants=grants, reasons=reasons, queue=tuple(waiting), keep_running=True, stands_until=inf
        )

    def _backfilled(self, view: View) -> Decision:
        """Return the decision with backfill.

        If the last round could start nothing, and jobs have only joined the end of the queue since, only
        those are tried: the rest would be decided as before (decision 0099).
        """
        terms = _Terms.of(self, view) if len(view.line.jobs) >= LONG_QUEUE else None
        stalled = view.orders.stalled
        view.orders.stalled = None
        if isinstance(stalled, _Stalled) and terms == stalled.terms and view.now < stalled.stands_until:
            line, head, reservation = stalled.line, stalled.head, stalled.reservation
            line.view, waiting = view, view.line.jobs.copy()
        else:
            line = _Line(view, self.backfill_depth)
            queue = view.line.jobs
            waiting = queue[line.start_in_order(queue) :]
            if not waiting:
                return Decision(grants=tuple(line.grants), keep_running=True, stands_until=inf)
            head = view.jobs[waiting[0]]
            reservation, line.seen = line.reserve_for(head), rank_of(head)
        # Without an event, what is known of the running jobs changes only then.
        wake_at = view.ends.next_after(view.now)
        stands_until = _stands_until(view, reservation, wake_at)
        started = len(line.grants)
        refused = line.backfill(reservation)
        for grant in line.grants[started:]:
            waiting.remove(grant.jobs[0])
        if terms is not None and not line.grants and line.end is None:
            line.seen = rank_of(view.jobs[waiting[-1]])
            view.orders.stalled = _Stalled(terms, line, head, reservation, stands_until)
        reasons: dict[JobId, tuple[Reason, ...]] = dict.fromkeys(refused, (_behind(head),))
        reasons[head.id] = (_first(reservation),)
        return Decision(
            grants=tuple(line.grants),
            reasons=reasons,
            queue=tuple(waiting),
            keep_running=True,
            wake_at=wake_at,
            stands_until=stands_until,
        )


def _stands_until(view: View, reservation: BackfillReservation, next_end: float | None) -> float:
    """Return until when time alone changes nothing, should no job start now.

    Until the next expected end, the same jobs have outlived their limits and the others end in the same
    order, unless some have yet to begin. The reservation of the head then stands, except within a round of
    its start. A job behind the head that would end in time did not fit, and will not. A job that delays the
    head still will.
    """
    if view.ends.has_promised:
        return view.now
    ends = inf if next_end is None else next_end
    return ends if reservation.starts_at is None else min(ends, reservation.starts_at - view.round_seconds)


class _Terms(NamedTuple):
    """What a round's decision depends on: between rounds of equal terms, only later jobs joined the queue."""

    policy: Fifo
    line: WaitingLine
    ends: Ends
    #: Change counters of `line` and `ends`.
    changes: tuple[int, int]
    capacity: object
    default_limit_seconds: float
    round_seconds: float

    @classmethod
    def of(cls, policy: Fifo, view: View) -> _Terms | None:
        capacity, line, ends = view.capacity.terms(), view.line, view.ends
        if capacity is None:
            return None
        changes = line.changes, ends.changes
        limit = view.default_time_limit_seconds
        return cls(policy, line, ends, changes, capacity, limit, view.round_seconds)


class _Stalled(NamedTuple):
    """The result of a round that could start nothing; time alone does not change it before `stands_until`."""

    terms: _Terms
    line: _Line
    head: Job
    reservation: BackfillReservation
    stands_until: float


class _Line:
    """Grants so far, and the capacity that they and what runs leave."""

    def __init__(self, view: View, depth: int = 0) -> None:
        self.view, self.capacity = view, view.capacity.fork()
        #: Kinds of jobs that may still be tried behind the head, also by a round that continues this line.
        self._depth = depth
        self.grants: list[Grant] = []
        self._started: list[tuple[float, Holding]] = []
        #: The last job that was considered.
        self.seen: Rank
        #: The first job that was not considered; None: all were.
        self.end: Rank | None = None
        #: By shape that did not fit: the place in line where it did not. By shape that would delay the head:
        #: its rows, and the place of the first.
        self._misfits: dict[object, Rank] = {}
        self._breakers: dict[object, list[tuple[Row, int]]] = {}
        self.capacity.keep_all()

    def start_in_order(self, queue: Sequence[JobId]) -> int:
        """Start jobs until one does not fit; return how many were started."""
        for position, number in enumerate(queue):
            job = self.view.jobs[number]
            fit = _find(job, self.capacity)
            if fit is None:
                return position
            self._start(job, fit)
        return len(queue)

    def reserve_for(self, head: Job) -> BackfillReservation:
        smallest = demand_of(head, self.capacity.cluster, sizes_of(head)[-1])
        running = self.view.ends.in_order(self.view.now)
        # Among equal ends, running jobs come first.
        ends = merge(running, sorted(self._started, key=_end), key=_end)
        soonest = self.view.now + self.view.round_seconds
        return BackfillReservation(smallest, self.capacity, ends, soonest=soonest)

    def backfill(self, reservation: BackfillReservation) -> Iterable[JobId]:
        """Start the jobs after the last one seen that fit without delaying the head; yield those that would
        delay it.

        Whole kinds of jobs are skipped at once: the capacity only shrinks, so what did not fit will not fit.
        A job that would have delayed the reservation at the place found may get another place after later
        starts. It is considered again, so that a following round finds nothing to start.
        """
        jobs, started = self.view.jobs, len(self.grants)
        misfits, breakers = self._misfits, self._breakers
        line = self._rows_behind(self.seen) if self._is_anything_left() else []
        while line or len(self.grants) > started:
            if not line:
                started = len(self.grants)
                line = [(row.ranks[place], place, row) for rows in breakers.values() for row, place in rows]
                heapify(line)
                breakers.clear()
                continue
            rank, place, row = line[0]
            job = jobs[rank[2]]
            shape = shape_in(self.capacity.cluster, job)
            if shape in misfits:
                heappop(line)
                continue
            in_time = reservation.outlasts(self._ends_at(job))
            if not in_time and shape in breakers:
                if not any([row is known for known, _ in breakers[shape]]):
                    breakers[shape].append((row, place))
                heappop(line)
                continue
            if self._depth == 0:
                self.end = rank
                break
            self._depth -= 1
            fit = _find(job, self.capacity)
            if fit is None:
                misfits[shape] = rank
                heappop(line)
            elif in_time or reservation.spares(fit):
                self._start(job, fit)
                place += 1
                if not self._is_anything_left():
                    self.end = rank
                    break
                if place < len(row.ranks):
                    heapreplace(line, (row.ranks[place], place, row))
                else:
                    heappop(line)
            else:
                breakers[shape] = [(row, place)]
                heappop(line)
        return [
            number
            for shape, rows in breakers.items()
            for row, place in rows
            for number in row.between(place, misfits.get(shape), self.end)
        ]

    def _rows_behind(self, seen: Rank) -> list[tuple[Rank, int, Row]]:
        """Return a heap of kinds by their first job after `seen`: its rank, its place, and its row."""
        line: list[tuple[Rank, int, Row]] = []
        for row in self.view.line.by_kind.values():
            place = bisect_right(row.ranks, seen)
            if place < len(row.ranks):
                line.append((row.ranks[place], place, row))
        heapify(line)
        return line

    def _is_anything_left(self) -> bool:
        capacity = self.capacity
        return capacity.has_open_gpus or any(capacity.offered(model) for model in capacity.models)

    def _start(self, job: Job, fit: Fit) -> None:
        self.capacity.take(fit)
        self.grants.append(Grant(jobs=(job.id,), gpus=fit.holding.gpus))
        self._started.append((self._ends_at(job), fit.holding))

    def _ends_at(self, job: Job) -> float:
        return self.view.now + self.view.limit_of(job)


def _find(job: Job, capacity: Capacity) -> Fit | None:
    """Return a place for the job, at the largest size that fits."""
    for size in sizes_of(job):
        fit = capacity.find(demand_of(job, capacity.cluster, size))
        if fit is not None:
            return fit
    return None


def _end(pair: tuple[float, Holding]) -> float:
    return pair[0]


def _first(reservation: BackfillReservation | None) -> Reason:
    if reservation is None or reservation.starts_at is None:
        return Reason(code="first_in_line", tier=Tier.ORDER, message="It is first in line.")
    return Reason(
        code="first_in_line",
        tier=Tier.ORDER,
        message="It is first in line. By the time limits of the jobs that run, it starts by"
        f" {wording.instant(reservation.starts_at)}; nothing may start now that would delay it.",
        blocking={"starts_by": reservation.starts_at},
    )


def _behind(head: Job) -> Reason:
    needs = wording.gpus(head.gpus, head.gpu_models)
    return Reason(
        code="behind_head",
        tier=Tier.ORDER,
        message=f"Job {head.id} is ahead and needs {needs}; starting this one could delay it.",
        blocking={"jobs": [head.id]},
        hint="A shorter time limit lets it start sooner, if it then ends before that job can start.",
    )
