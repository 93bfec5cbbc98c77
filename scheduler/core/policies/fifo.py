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
from typing import ClassVar

from scheduler.core.building_blocks.backfill import BackfillReservation
from scheduler.core.building_blocks.kept_orders import Rank, Row, rank_of
from scheduler.core.building_blocks.policy import View
from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.demand import demand_of, shape_in, sizes_of
from scheduler.core.fitting.holding import Fit, Holding
from scheduler.core.model import wording
from scheduler.core.model.plan import Decision, Grant, Reason, Tier
from scheduler.core.model.snapshot import Job, JobId, Memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Fifo:
    """Order of submission, within priorities."""

    #: Of jobs that are alike the earlier starts first, and those without room change nothing.
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
        line = _Line(view, view.capacity.fork())
        queue = view.line.jobs
        ahead = line.start_in_order(queue)
        waiting = queue[ahead:]
        reasons: dict[JobId, tuple[Reason, ...]] = {}
        wake_at, stands_until = None, inf
        if waiting:
            head = view.jobs[waiting[0]]
            reservation = line.reserve_for(head) if self.backfill else None
            refused: Iterable[JobId]
            if reservation is None:
                refused = waiting[1:]
            else:
                # What is known of the running jobs changes then, and at no other instant at which nothing
                # happens.
                wake_at = view.ends.next_after(view.now)
                stands_until = _stands_until(view, reservation, wake_at)
                started = len(line.grants)
                refused = line.backfill(head, reservation, self.backfill_depth)
                for grant in line.grants[started:]:
                    waiting.remove(grant.jobs[0])
            reasons = dict.fromkeys(refused, (_behind(head),))
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

    Until the next end the same jobs have outlived their limits, and the others end in the same order, unless
    some have yet to begin. The head starts then as said, unless it would be said to start within a round. A
    job behind it that would have ended in time did not fit, and will not; what delays the head will do so.
    """
    if view.ends.has_promised:
        return view.now
    ends = inf if next_end is None else next_end
    return ends if reservation.starts_at is None else min(ends, reservation.starts_at - view.round_seconds)


class _Line:
    """Grants so far, and the capacity that they and what runs leave."""

    def __init__(self, view: View, capacity: Capacity) -> None:
        self.view, self.capacity = view, capacity
        self.grants: list[Grant] = []
        self._started: list[tuple[float, Holding]] = []
        capacity.keep_all()

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
        # Of equal ends those that run come first.
        ends = merge(running, sorted(self._started, key=_end), key=_end)
        soonest = self.view.now + self.view.round_seconds
        return BackfillReservation(smallest, self.capacity, ends, soonest=soonest)

    def backfill(self, head: Job, reservation: BackfillReservation, depth: int) -> Iterable[JobId]:
        """Start the jobs behind the head that fit without delaying it; yield those that would delay it.

        Whole kinds of jobs are passed over at once: the capacity only shrinks, so that what did not fit will
        not fit. A job that delayed the reservation where it was found a place may be found another one after
        later starts. It is considered again, so that the next round, should one happen, finds nothing to
        start.
        """
        jobs, started = self.view.jobs, len(self.grants)
        #: By shape that did not fit: the place in line where it did not. By shape that would delay the head:
        #: its rows, and the place of the first.
        misfits: dict[object, Rank] = {}
        breakers: dict[object, list[tuple[Row, int]]] = {}
        line = self._rows_behind(head) if self._is_anything_left() else []
        end: Rank | None = None
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
                breakers[shape].append((row, place))
                heappop(line)
                continue
            if depth == 0:
                end = rank
                break
            depth -= 1
            fit = _find(job, self.capacity)
            if fit is None:
                misfits[shape] = rank
                heappop(line)
            elif in_time or reservation.spares(fit):
                self._start(job, fit)
                place += 1
                if not self._is_anything_left():
                    end = rank
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
            for number in row.between(place, misfits.get(shape), end)
        ]

    def _rows_behind(self, head: Job) -> list[tuple[Rank, int, Row]]:
        """Return a heap of kinds by their first job behind the head: its rank, its place, and its row."""
        line: list[tuple[Rank, int, Row]] = []
        for row in self.view.line.by_kind.values():
            place = bisect_right(row.ranks, rank_of(head))
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
