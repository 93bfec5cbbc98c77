"""Step 2, reserve: what each virtual cluster may use this round, by cells or by counts of GPUs.

If a GPU model is divided by cells, a guaranteed view gets its own cells as a private cluster (`binding`). If
it is divided by counts, the view may use any usable GPU that no guaranteed job of another virtual cluster
holds, up to its guarantee. Counts do not guarantee *shapes*: eight GPUs may be spread over eight nodes.
Either way GPUs of opportunistic jobs may be reclaimed. The spare view, which serves the opportunistic jobs of
every virtual cluster, gets what the guaranteed views leave.

The virtual cluster that uses the smallest part of its guarantee goes first. So when failures leave less than
is guaranteed, no virtual cluster gains from its name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from scheduler.core.building_blocks.computing import Compute, of_view, run_inline
from scheduler.core.building_blocks.kept_orders import KeptOrders
from scheduler.core.building_blocks.policy import Dice, View
from scheduler.core.cells.chains import Layout
from scheduler.core.fitting.account import HeldGpus
from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.demand import models_of
from scheduler.core.fitting.holding import Holding
from scheduler.core.fitting.offers import Pending
from scheduler.core.model.snapshot import AllocationId, Job, JobId, Running, VirtualCluster
from scheduler.core.round.admit import Admission
from scheduler.core.round.facts import Facts
from scheduler.core.round.guarantees.binding import Binding

#: The view that serves opportunistic jobs; no virtual cluster may have this name.
SPARE = "spare"


@dataclass(slots=True)
class _Part:
    """A view's jobs, and what they hold or are nominated for."""

    jobs: dict[JobId, Job] = field(default_factory=dict)
    running: dict[JobId, Running] = field(default_factory=dict)
    #: Its jobs that are not running, and those that are elastic.
    waiting: dict[JobId, Job] = field(default_factory=dict)
    elastic: dict[JobId, Job] = field(default_factory=dict)
    pending: Pending = field(default_factory=dict)
    held: HeldGpus = field(default_factory=HeldGpus)
    #: The orders of waiting jobs and of jobs with GPUs, which policies read in every round.
    orders: KeptOrders = field(default_factory=KeptOrders)
    #: The fields in which a job or an allocation is out of order; `running` stands for `pending` too.
    untidy: set[str] = field(default_factory=set)

    def put_job(self, job: Job) -> None:
        before = self.jobs.get(job.id)
        self._put_in("jobs", self.jobs, job)
        running = self.running.get(job.id) if self.running else None
        if running is None:
            self._wait(job)
        elif self.orders.ends is not None and before and before.time_limit_seconds != job.time_limit_seconds:
            self.orders.ends.put(running, self.pending[running.jobs], self.jobs)
        if job.elastic is not None:
            self._put_in("elastic", self.elastic, job)
        elif self.elastic:
            self.elastic.pop(job.id, None)

    def _put_in(self, name: str, known: dict[JobId, Job], job: Job) -> None:
        if job.id not in known and known and next(reversed(known)) > job.id:
            self.untidy.add(name)
        known[job.id] = job

    def tidy_up(self) -> None:
        """Sort jobs and allocations by number, as in a new view: policies take equal ones in this order."""
        if "jobs" in self.untidy:
            self.jobs = dict(sorted(self.jobs.items()))
        if "waiting" in self.untidy:
            self.waiting = dict(sorted(self.waiting.items()))
        if "elastic" in self.untidy:
            self.elastic = dict(sorted(self.elastic.items()))
        if "running" in self.untidy:
            self.pending = dict(sorted(self.pending.items(), key=_allocation))
            self.running = {job: self.running[job] for jobs in self.pending for job in jobs}
        self.untidy.clear()

    def drop_job(self, number: JobId) -> None:
        del self.jobs[number]
        self._wait_no_more(number)
        self.elastic.pop(number, None)

    def _wait(self, job: Job) -> None:
        self._put_in("waiting", self.waiting, job)
        self.orders.put(job)

    def _wait_no_more(self, number: JobId) -> None:
        if self.waiting.pop(number, None) is not None:
            self.orders.drop(number)

    def put(self, running: Running, holding: Holding) -> None:
        if self.pending and _allocation(next(reversed(self.pending.items()))) > running.allocation:
            self.untidy.add("running")
        self.pending[running.jobs] = holding
        if self.orders.ends is not None:
            self.orders.ends.put(running, holding, self.jobs)
        for job in running.jobs:
            self.running[job] = running
            self._wait_no_more(job)
        self.held.add(holding)

    def drop(self, running: Running) -> None:
        self.held.remove(self.pending.pop(running.jobs))
        if self.orders.ends is not None:
            self.orders.ends.drop(running)
        for job in running.jobs:
            del self.running[job]
            if job in self.jobs:
                self._wait(self.jobs[job])


def _allocation(pending: tuple[tuple[JobId, ...], Holding]) -> AllocationId:
    running = pending[1].running
    assert running is not None
    return running.allocation


class Reservation:
    """Makes the views from what is left of the cluster."""

    def __init__(self, facts: Facts, admission: Admission, binding: Binding | None) -> None:
        self._facts, self._admission, self._binding = facts, admission, binding
        #: How policies compute.
        self.compute: Compute = run_inline
        self._parts: defaultdict[str, _Part] = defaultdict(_Part)
        self._view_of_job: dict[JobId, str] = {}
        self._view_of_allocation: dict[AllocationId, tuple[str, Running]] = {}
        #: Allocations whose jobs belong to several views, so that no view decides about them.
        self.orphaned: set[AllocationId] = set()

    def refresh(self, jobs: Collection[JobId], allocations: Collection[AllocationId]) -> None:
        """Update the jobs and allocations that changed or were admitted again."""
        facts, admitted = self._facts, self._admission.admitted
        moved = set(allocations)
        for number in sorted(jobs):
            job, running, view = admitted.get(number), facts.current.get(number), None
            # A job without GPUs is served beside the views (`without_gpus`).
            if job is not None and number not in facts.without_gpus:
                if running is not None and running.opportunistic_gpus:
                    job = _capped(job, running)
                view = self._view_for(job, running)
                if facts.layout is not None and view != SPARE:
                    job = self._outside_cells(job, facts.layout)
            before = self._view_of_job.pop(number, None)
            if before is not None and before != view:
                self._parts[before].drop_job(number)
            if job is not None and view is not None:
                self._view_of_job[number] = view
                self._parts[view].put_job(job)
            if before != view and number in facts.current:
                moved.add(facts.current[number].allocation)
        for allocation in sorted(moved):
            self._leave(allocation)
            self.orphaned.discard(allocation)
            if allocation in facts.running:
                self._join(facts.running[allocation])

    def _outside_cells(self, job: Job, layout: Layout) -> Job:
        """Return a guaranteed job as its view sees it.

        Cells consist of GPUs, so a gang with replicas without GPUs is limited to models divided by counts.
        """
        if all([task.gpus for task in job.tasks]):
            return job
        models = [model for model in models_of(job, self._facts.cluster) if model not in layout.gpu_models]
        return replace(job, gpu_models=tuple(models))

    def _view_for(self, job: Job, running: Running | None) -> str:
        """Return the view that decides about a job; while its guarantee has lapsed, it is the spare view."""
        holds = (
            job.id not in self._admission.outgrown if running is None else self._facts.is_guaranteed(running)
        )
        return job.virtual_cluster if job.guaranteed and holds else SPARE

    def _leave(self, allocation: AllocationId) -> None:
        if allocation not in self._view_of_allocation:
            return
        view, running = self._view_of_allocation.pop(allocation)
        self._parts[view].drop(running)

    def _join(self, running: Running) -> None:
        """Add the allocation to a view if all its jobs belong to the view and may be considered."""
        if self._facts.without_gpus and self._facts.without_gpus.keys() & running.jobs:
            if not running.stopping and not self._admission.admitted.keys() & running.jobs:
                self.orphaned.add(running.allocation)
            return
        views = {self._view_of_job.get(job) for job in running.jobs}
        view = views.pop()
        if view is None or views or not self._facts.is_live(running):
            if not running.stopping:
                self.orphaned.add(running.allocation)
            return
        holding, running = self._facts.holdings[running.allocation], running.base
        if self._binding is not None and view != SPARE:
            running, holding = self._binding.seen(running) or (running, holding)
        self._view_of_allocation[running.allocation] = view, running
        self._parts[view].put(running, holding)

    def order(self) -> Iterator[VirtualCluster]:
        """Yield the virtual clusters, those that use the smallest part of their guarantee first."""

        def use(vc: VirtualCluster) -> tuple[float, str]:
            gpus = sum(self._parts[vc.name].held.by_model.values())
            return gpus / max(sum(vc.guaranteed.values()), 1), vc.name

        yield from sorted(self._facts.virtual_clusters.values(), key=use)

    def guaranteed(self, vc: VirtualCluster, cluster: Capacity, lapsed: Mapping[Holding, int]) -> View:
        """Return the view of a virtual cluster's guaranteed jobs; `lapsed` has its lapsed holdings."""
        limits = {model: vc.guaranteed.get(model, 0) for model in cluster.models}
        pending, held, common = self._still_there(vc.name, cluster)
        if self._binding is not None:
            cluster = self._binding.offered(vc.name, cluster)
        return View(
            name=vc.name,
            guaranteed=True,
            members=vc.members,
            default_time_limit_seconds=vc.default_time_limit_seconds,
            capacity=cluster.narrowed(limits, pending, held, lapsed, may_evict=True),
            **common,
        )

    def spare(self, cluster: Capacity) -> View:
        """Return the view of the opportunistic jobs of every virtual cluster."""
        pending, held, common = self._still_there(SPARE, cluster)
        capacity = cluster.narrowed(None, pending, held, may_evict=False)
        return View(name=SPARE, guaranteed=False, members=(), capacity=capacity, **common)

    def _still_there(self, name: str, cluster: Capacity) -> tuple[Pending, HeldGpus, dict[str, Any]]:
        """Return the holdings of the view's jobs that no earlier view reclaimed, and the view's fields."""
        part, frame = self._parts[name], self._facts.frame
        part.tidy_up()
        pending: Pending = part.pending
        held = part.held
        running: Mapping[JobId, Running] = part.running
        waiting: Mapping[JobId, Job] = part.waiting
        orders = part.orders
        if cluster.dropped and not cluster.dropped.isdisjoint(pending.values()):
            pending = {jobs: each for jobs, each in pending.items() if each not in cluster.dropped}
            running = {job: running[job] for jobs in pending for job in jobs}
            waiting = {job: known for job, known in part.jobs.items() if job not in running}
            orders = KeptOrders()
            held = HeldGpus.by(pending.values())
        return (
            pending,
            held,
            {
                "now": frame.now,
                "round_seconds": frame.round_seconds,
                "jobs": part.jobs,
                "running": running,
                "waiting": waiting,
                "elastic": part.elastic,
                "orders": orders,
                "prices": frame.prices,
                "pair_speeds": frame.pair_speeds,
                "group_speeds": frame.group_speeds,
                "interference": frame.interference,
                "workload": frame.workload,
                "sharing": self._facts.sharing,
                "compute": of_view(self.compute, name),
                "dice": Dice(f"{frame.round_number}:{name}"),
            },
        )


def _capped(job: Job, running: Running) -> Job:
    """Return a job with GPUs beyond its guarantee as its view sees it: no larger than its guaranteed part.

    Otherwise the view would restart it for GPUs that it already has.
    """
    gpus = len(running.base.gpus)
    return job if job.elastic is None else replace(job, elastic=(min(job.elastic[0], gpus), gpus))
