"""First in, first out: higher priority first, then earlier submission; nothing that runs is disturbed.

With backfill, the first job that does not fit reserves the earliest start that the time limits of the
running jobs allow, and later jobs start now only if that cannot delay it (see `core.building_blocks.backfill`
for the papers and every deviation). A job without a time limit counts with the default of its view.
Without backfill, nothing passes the first job that does not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from scheduler.core.building_blocks.backfill import BackfillReservation
from scheduler.core.building_blocks.policy import View
from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.demand import demand_of, shape_in, sizes_of
from scheduler.core.fitting.holding import Fit, Holding
from scheduler.core.model import wording
from scheduler.core.model.plan import Decision, Grant, Reason, Tier
from scheduler.core.model.snapshot import Job, JobId, Memory, Running


@dataclass(frozen=True, slots=True, kw_only=True)
class Fifo:
    """Order of submission, within priorities."""

    #: Of jobs that are alike the earlier starts first, and those without room change nothing.
    by_arrival: ClassVar[bool] = True
    #: Nobody stops, moves or shares GPUs for one that starts.
    only_starts: ClassVar[bool] = True

    backfill: bool = True
    #: Kinds of jobs that are tried behind the head in one round, so that a long queue costs a bounded time.
    backfill_depth: int = 1_000

    def allocate(self, view: View, memory: Memory) -> Decision:
        """Keep what runs; grant the queue in order, then what fits beside the reservation of its head."""
        line = _Line(view, view.capacity.fork())
        queue = sorted(view.waiting.values(), key=_rank)
        waiting = line.start_in_order(queue)
        reasons: dict[JobId, tuple[Reason, ...]] = {}
        if waiting:
            head, *others = waiting
            reservation = line.reserve_for(head) if self.backfill else None
            refused = (
                others if reservation is None else line.backfill(others, reservation, self.backfill_depth)
            )
            reasons = dict.fromkeys([job.id for job in refused], (_behind(head),))
            reasons[head.id] = (_first(reservation),)
        started = {job for grant in line.grants for job in grant.jobs}
        return Decision(
            grants=tuple(line.grants),
            reasons=reasons,
            queue=tuple([job.id for job in waiting if job.id not in started]),
            keep_running=True,
        )


class _Line:
    """Grants so far, and the capacity that they and what runs leave."""

    def __init__(self, view: View, capacity: Capacity) -> None:
        self.view, self.capacity = view, capacity
        self.grants: list[Grant] = []
        self._started: list[tuple[float, Holding]] = []
        capacity.keep_all()

    def start_in_order(self, queue: Sequence[Job]) -> Sequence[Job]:
        """Start jobs until one does not fit; return that one and all behind it."""
        for position, job in enumerate(queue):
            fit = _find(job, self.capacity)
            if fit is None:
                return queue[position:]
            self._start(job, fit)
        return ()

    def reserve_for(self, head: Job) -> BackfillReservation:
        smallest = demand_of(head, self.capacity.cluster, sizes_of(head)[-1])
        running = self.view.capacity.pending.values()
        ends = [(_end(held.running, self.view), held) for held in running if held.running is not None]
        return BackfillReservation(smallest, self.capacity, ends + self._started)

    def backfill(self, jobs: Sequence[Job], reservation: BackfillReservation, depth: int) -> list[Job]:
        """Start the jobs that fit without delaying the reservation; return those that would delay it."""
        refused: list[Job] = []
        # The capacity only shrinks, so what did not fit, or delayed the reservation, will do so again.
        misfits: set[object] = set()
        breakers: set[object] = set()
        for job in jobs if self._is_anything_left() else ():
            shape = shape_in(self.capacity.cluster, job)
            if shape in misfits:
                continue
            in_time = reservation.outlasts(self._ends_at(job))
            if not in_time and shape in breakers:
                refused.append(job)
                continue
            if depth == 0:
                break
            depth -= 1
            fit = _find(job, self.capacity)
            if fit is None:
                misfits.add(shape)
            elif in_time or reservation.spares(fit):
                self._start(job, fit)
                if not self._is_anything_left():
                    break
            else:
                breakers.add(shape)
                refused.append(job)
        return refused

    def _is_anything_left(self) -> bool:
        capacity = self.capacity
        return capacity.has_open_gpus or any(capacity.offered(model) for model in capacity.models)

    def _start(self, job: Job, fit: Fit) -> None:
        self.capacity.take(fit)
        self.grants.append(Grant(jobs=(job.id,), gpus=fit.holding.gpus))
        self._started.append((self._ends_at(job), fit.holding))

    def _ends_at(self, job: Job) -> float:
        return self.view.now + _limit(job, self.view)


def _find(job: Job, capacity: Capacity) -> Fit | None:
    """Return a place for the job, at the largest size that fits."""
    for size in sizes_of(job):
        fit = capacity.find(demand_of(job, capacity.cluster, size))
        if fit is not None:
            return fit
    return None


def _rank(job: Job) -> tuple[int, float, JobId]:
    return -job.priority, job.submitted_at, job.id


def _limit(job: Job, view: View) -> float:
    limit = job.time_limit_seconds
    return view.default_time_limit_seconds if limit is None else limit


def _end(running: Running, view: View) -> float:
    """Return when an allocation ends at the latest, by the limits of its jobs."""
    end = max(
        [
            (view.now if running.is_nominated else running.since_of(job)) + _limit(view.jobs[job], view)
            for job in running.jobs
        ]
    )
    return end if end > view.now + view.round_seconds else view.now + view.round_seconds


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
