"""Serving the jobs of a view in an order, whole gangs only; a gang that does not fit is passed over.

`start_in_order` disturbs no running job. In `serve_in_order` every job has a turn, running ones included: a
gang keeps its place when its turn comes, unless gangs ahead needed it. Both return only changes when no job
has to stop, and cost next to nothing when no job waits.

Counting first finds the gangs that must stop, the losers: those for which no GPUs would be left. A gang that
needs a place gets idle GPUs if it can, else those of losers. Only where these are too fragmented does it
displace other gangs behind it. A displaced gang gets another place, of idle GPUs or those of losers; it
displaces no other in the same round, since that could cascade through the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scheduler.core.building_blocks.policy import View
from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.demand import Demand, amount_of, demand_of, least_gpus, shape_in, sizes_of
from scheduler.core.fitting.holding import Fit, Holding
from scheduler.core.fitting.settle import settle
from scheduler.core.model.plan import Decision, Grant, Locality, Reason
from scheduler.core.model.snapshot import Job, JobId, Memory

#: More losers than this stop first and are considered again in their turn: choosing among them costs more
#: than it gains when nearly all must stop.
MANY = 16

#: Sort key of a job; the last entry is its id, so that no two are equal.
Rank = Callable[[Job], tuple[Any, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of serving an order: the changes, as in a Decision that keeps what runs."""

    grants: tuple[Grant, ...] = ()
    #: The jobs that wait now, in order.
    queue: tuple[JobId, ...] = ()
    #: Those of them that ran before.
    stops: tuple[JobId, ...] = ()
    #: As in a Decision.
    joins: Mapping[JobId, tuple[JobId, ...]] = field(default_factory=dict)
    leaves: Mapping[JobId, str] = field(default_factory=dict)

    def decision(
        self,
        reasons: Mapping[JobId, tuple[Reason, ...]],
        *,
        memory: Memory | None = None,
        wake_at: float | None = None,
    ) -> Decision:
        """Return the policy's decision: jobs that are not named stay; `reasons` are those of the waiting
        jobs.
        """
        return Decision(
            grants=self.grants,
            memory=memory or {},
            reasons=reasons,
            queue=self.queue,
            keep_running=True,
            stops=self.stops,
            joins=self.joins,
            leaves=self.leaves,
            wake_at=wake_at,
        )

    def reasons(self, reason: Reason) -> dict[JobId, tuple[Reason, ...]]:
        """Return the same reason for each waiting job."""
        return dict.fromkeys(self.queue, (reason,))


def settled_outcome(
    view: View, grants: Sequence[Grant], settled: Collection[JobId], line: Iterable[JobId]
) -> Outcome:
    """Return the outcome of placing all jobs again: running jobs that no longer have a place stop.

    `settled`: the jobs that have a place; `line`: all jobs of the view in the order in which they are served.
    """
    granted = {job for grant in grants for job in grant.jobs}
    stops: dict[tuple[JobId, ...], JobId] = {}
    for job, held in view.running.items():
        if job not in settled and granted.isdisjoint(held.jobs):
            stops.setdefault(held.jobs, job)
    return Outcome(
        grants=tuple(grants),
        queue=tuple([job for job in line if job not in settled]),
        stops=tuple(stops.values()),
    )


def anywhere(job: Job) -> Locality:
    """Ask for no locality beyond what the job itself asks for."""
    return Locality.ANY


def waiting_jobs(view: View) -> list[Job]:
    """Return the jobs of the view that hold nothing and are nominated for nothing."""
    return list(view.waiting.values())


def start_in_order(
    waiting: Sequence[Job],
    view: View,
    *,
    strict: bool = False,
    locality_of: Callable[[Job], Locality] = anywhere,
) -> Outcome:
    """Start what fits beside everything that runs; `strict`: nothing behind the first that does not fit."""
    if not waiting:
        return Outcome()
    capacity = view.capacity.fork()
    capacity.keep_all()
    starts = Starts(capacity, locality_of)
    grants: list[Grant] = []
    queue: list[JobId] = []
    for position, job in enumerate(waiting):
        if starts.exhausted or (strict and queue):
            queue += [other.id for other in waiting[position:]]
            break
        started = starts.start(job)
        if started is None:
            queue.append(job.id)
        else:
            grants.append(started[0])
    return Outcome(grants=tuple(grants), queue=tuple(queue))


def start_all(
    waiting: Sequence[Job], view: View, *, locality_of: Callable[[Job], Locality] = anywhere
) -> Outcome | None:
    """Start all of these beside everything that runs; None where one of them does not fit."""
    left = _undisturbed(view.capacity)
    for job in waiting:
        left -= least_gpus(job)
        if left < 0:
            return None
    calm = start_in_order(waiting, view, locality_of=locality_of)
    return None if calm.queue else calm


def serve_in_order(
    view: View, rank: Rank, *, terms: object = None, locality_of: Callable[[Job], Locality] = anywhere
) -> Outcome:
    """Serve all jobs of the view by rank, the lowest first; running jobs may have to stop for others.

    Where the rank of a waiting job depends on the job and on `terms` alone, it is kept from round to round.
    """
    if not view.waiting:
        return Outcome()
    if terms is None:
        ranked = sorted([(rank(job), job) for job in view.waiting.values()])
    else:
        ranked = view.ranked(rank, terms).ranked
    calm = start_all([job for _, job in ranked], view, locality_of=locality_of)
    if calm is not None:
        return calm
    ranked = ranked + [(rank(view.jobs[job]), view.jobs[job]) for job in view.running]
    ranked.sort()
    return serve_ranked([job for _, job in ranked], view, locality_of=locality_of)


def serve_ranked(
    order: Sequence[Job], view: View, *, locality_of: Callable[[Job], Locality] = anywhere
) -> Outcome:
    """Serve all jobs of the view in the order given, taking GPUs from jobs behind where needed.

    Pinned jobs come before all others, since no other can have their GPUs.
    """
    pinned = {job for unit in view.capacity.pinned for job in unit}
    if pinned:
        order = sorted(order, key=lambda job: job.id not in pinned)
    losers, may_start = _by_count(order, view)
    if not losers and not may_start:
        return Outcome(queue=tuple([job.id for job in order if job.id not in view.running]))
    turns = _Turns(order, view, locality_of, losers)
    for position, job in enumerate(order):
        if turns.starts.exhausted:
            turns.pass_over(order[position:])
            break
        turns.serve(job)
    return turns.outcome()


def _by_count(order: Sequence[Job], view: View) -> tuple[set[tuple[JobId, ...]], bool]:
    """Return the running gangs for which counting leaves no GPUs, and whether any job may start."""
    capacity, running = view.capacity, view.running
    left: dict[str, float] = {model: capacity.offered(model) for model in capacity.models}
    most, may_start = max(left.values(), default=0), False
    is_full = most <= 0 and not capacity.has_open_gpus
    gpus: float
    losers: set[tuple[JobId, ...]] = set()
    counted: set[tuple[JobId, ...]] = set()
    for job in order:
        held = running.get(job.id)
        if held is None:
            # Thousands may wait behind the last GPU.
            if is_full:
                continue
            if job.has_parts and capacity.has_open_gpus:
                may_start = True
                continue
            if most <= 0 or (gpus := least_gpus(job)) > most:
                continue
            gpus = amount_of(job, int(gpus))
            found = next((name for name in job.gpu_models or left if left.get(name, 0) >= gpus), None)
            if found is None:
                continue
            model, may_start = found, True
        else:
            if held.jobs in counted:
                continue
            counted.add(held.jobs)
            model, gpus = held.gpu_model, amount_of(job, capacity.pending[held.jobs].gpus)
            if left.get(model, 0) < gpus:
                losers.add(held.jobs)
                continue
        left[model] -= gpus
        most = max(left.values())
        is_full = most <= 0 and not capacity.has_open_gpus
    return losers, may_start


def _undisturbed(capacity: Capacity) -> int:
    """Return the most GPUs that are available without stopping a job of this view."""
    own: dict[str, int] = {}
    for holding in capacity.pending.values():
        own[holding.model] = own.get(holding.model, 0) + holding.gpus
    return sum([max(0, capacity.offered(model) - own.get(model, 0)) for model in capacity.models])


class Starts:
    """Finds places for gangs that have none, on a capacity that only shrinks."""

    def __init__(self, capacity: Capacity, locality_of: Callable[[Job], Locality]) -> None:
        self.capacity = capacity
        self._locality_of = locality_of
        #: An upper bound of the available GPUs of each model, which is cheaper than a search.
        self._left = {model: capacity.offered(model) for model in capacity.models}
        self._most = max(self._left.values(), default=0)
        self._misfits: set[object] = set()
        #: Running gangs that lose their GPUs before others do.
        self.losers: Collection[tuple[JobId, ...]] = ()

    @property
    def exhausted(self) -> bool:
        """Whether not even one GPU is left, or a part of one."""
        return self._most <= 0 and not self.capacity.has_open_gpus

    def count(self, model: str, gpus: int) -> None:
        """Record that this many GPUs are given out."""
        left = self._left.get(model, 0)
        self._left[model] = left - gpus
        if left >= self._most:
            self._most = max(self._left.values())

    def start(self, job: Job, *, may_displace: bool = True) -> tuple[Grant, Holding] | None:
        """Settle the gang at the largest size that fits, and return what it takes; None when none does."""
        if least_gpus(job) > self._most and not job.has_parts:
            return None
        locality = self._locality_of(job)
        shape = (shape_in(self.capacity.cluster, job), locality)
        if shape in self._misfits:
            return None
        for size in sizes_of(job):
            fit = self._find(demand_of(job, self.capacity.cluster, size, None, locality), may_displace)
            if fit is not None:
                self.capacity.take(fit)
                # Parts are not counted: the number of GPUs that they open is known only after placement.
                self.count(fit.holding.model, 0 if job.has_parts else size)
                return Grant(jobs=(job.id,), gpus=size, locality=locality), fit.holding
        if may_displace:
            self._misfits.add(shape)
        return None

    def _find(self, demand: Demand, may_displace: bool) -> Fit | None:
        """Look for a place where only losers stop, then for one where others do."""
        capacity = self.capacity
        everyone = capacity.pending
        capacity.pending = {jobs: held for jobs, held in everyone.items() if jobs in self.losers}
        fit = capacity.find(demand)
        others = len(everyone) - len(capacity.pending)
        capacity.pending = everyone
        if fit is None and may_displace and others:
            fit = capacity.find(demand)
        return fit


class _Turns:
    """One pass over an order in which running jobs have their turn as well."""

    def __init__(
        self,
        order: Sequence[Job],
        view: View,
        locality_of: Callable[[Job], Locality],
        losers: Collection[tuple[JobId, ...]],
    ) -> None:
        self._view = view
        self._capacity = view.capacity.fork()
        self._rank_pending(order)
        self.starts = Starts(self._capacity, locality_of)
        if len(losers) > MANY:
            for jobs in sorted(losers):
                if len(jobs) == 1:
                    self._capacity.drop(self._capacity.pending[jobs])
        self.starts.losers = losers
        #: Jobs that start or move, in order.
        self._grants: list[Grant] = []
        self._served: set[JobId] = set()
        self._queue: list[JobId] = []

    def serve(self, job: Job) -> None:
        if job.id in self._served:
            return
        running = self._view.running.get(job.id)
        if running is None:
            served = self._start(job)
        elif running.jobs in self._capacity.pending:
            served = self._stay(running.jobs)
        else:
            # Gangs ahead took its place. Jobs that shared GPUs look for a place together, in a later round.
            served = len(running.jobs) == 1 and self._start(job, may_displace=False)
        if served:
            self._served.update((job.id,) if running is None else running.jobs)
        else:
            self._queue.append(job.id)

    def pass_over(self, jobs: Iterable[Job]) -> None:
        """Let jobs wait for which no GPUs are left."""
        self._queue += [job.id for job in jobs if job.id not in self._served]

    def outcome(self) -> Outcome:
        running = self._view.running
        return Outcome(
            grants=tuple(self._grants),
            queue=tuple(self._queue),
            stops=tuple([job for job in self._queue if job in running]),
        )

    def _start(self, job: Job, *, may_displace: bool = True) -> bool:
        started = self.starts.start(job, may_displace=may_displace)
        if started is not None:
            self._grants.append(started[0])
        return started is not None

    def _stay(self, jobs: tuple[JobId, ...]) -> bool:
        """Keep a gang where it is; move it when it may not stay on the model it has."""
        capacity = self._capacity
        holding = capacity.pending[jobs]
        for job in jobs:
            accepted = self._view.jobs[job].gpu_models
            if accepted and holding.model not in accepted:
                return self._move(Grant(jobs=jobs, gpus=holding.size))
        if not capacity.may_stay(holding):
            return False
        capacity.keep(holding)
        self.starts.count(holding.model, 0 if holding.shared else holding.gpus)
        return True

    def _move(self, grant: Grant) -> bool:
        placement = settle(grant, self._view.jobs, self._capacity)
        if placement is not None:
            self.starts.count(placement.gpu_model, grant.gpus)
            self._grants.append(grant)
        return placement is not None

    def _rank_pending(self, order: Sequence[Job]) -> None:
        """Make the jobs that come last in the order the first victims."""
        pending, running = self._capacity.pending, self._view.running
        ranked = {}
        for job in order:
            held = running.get(job.id)
            if held is not None and held.jobs in pending:
                ranked[held.jobs] = pending.pop(held.jobs)
        self._capacity.pending = ranked | pending
