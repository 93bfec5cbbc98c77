"""Elastic gangs on fewer GPUs than they may have grow into idle GPUs that no other job can use.

As grow-shrink in W. Xiao et al., "Gandiva", OSDI 2018, section 3: only idle GPUs are taken. Later jobs
shrink the gangs again: to their own size as soon as a waiting job then fits, and further by the policy's
order. A gang that starts gets idle GPUs at once. Running gangs grow in the next round that grants nothing
else. A gang that grows is checkpointed and started again, so a gang that started a moment ago does not grow.

Under a policy that never preempts, waiting jobs do not keep a gang from growing where none of them fits into
the idle GPUs. But then gangs grow only beyond their own size, since only that part is taken back for a
waiting job.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.service import INSTANT_SECONDS
from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.demand import all_sizes_of, demand_of, demand_of_grant, shape_in, sizes_of
from scheduler.core.fitting.holding import Holding
from scheduler.core.fitting.settle import settle
from scheduler.core.model.plan import Decision, Grant
from scheduler.core.model.snapshot import Job, Running

#: A gang that was started less than this ago is left as it is.
SETTLED_SECONDS = 60.0
#: The most waiting jobs that are tried on the GPUs that gangs grew into.
TRIED = 100


def with_growth(view: View, decision: Decision, *, beside_waiting: bool = False) -> Decision:
    """Return the decision with gangs that grow, if it leaves running jobs alone, or that shrink for waiting
    jobs.

    `beside_waiting`: gangs grow although jobs wait, if none of these fits. If the policy might soon make room
    for one, gangs would be resized all the time.
    """
    if not view.elastic or not decision.keep_running or decision.stops:
        return decision
    placed = {job for grant in decision.grants for job in grant.jobs}.union(*decision.joins.values())
    waiting = [job for job in view.waiting.values() if job.id not in placed]
    smaller = _taking_back(view, decision) if waiting else decision
    if smaller is not decision or (waiting and not beside_waiting):
        return smaller
    return _growing(view, decision, waiting)


def _taking_back(view: View, decision: Decision) -> Decision:
    """Shrink gangs to their own size, the latest jobs' first, until the first waiting job that can fit does.
    The policy starts it in the next round.
    """
    granted = {job for grant in decision.grants for job in grant.jobs}
    grown = [
        job
        for job in view.elastic.values()
        if job.id in view.running and job.id not in granted and _is_grown(view, job, view.running[job.id])
    ]
    waiting = [view.jobs[job] for job in decision.queue if job not in granted and job not in view.running]
    if not grown or not waiting:
        return decision
    grown.sort(key=lambda job: (job.submitted_at, job.id), reverse=True)
    capacity = view.capacity.fork()
    capacity.keep_all(but=[*granted, *(job.id for job in grown)])
    for grant in decision.grants:
        settle(grant, view.jobs, capacity)
    everyone = capacity.fork()
    for job in grown:
        _take_back(view, job, everyone)
    first = next((job for job in waiting[:TRIED] if _fits(job, everyone)), None)
    grants: list[Grant] = []
    if first is not None:
        for position, job in enumerate(grown):
            grants += _take_back(view, job, capacity)
            rest = capacity.fork()
            for other in grown[position + 1 :]:
                if (holding := rest.pending.get(view.running[other.id].jobs)) is not None:
                    rest.keep(holding)
            if _fits(first, rest):
                break
    return replace(decision, grants=(*decision.grants, *grants))


def _is_grown(view: View, job: Job, running: Running) -> bool:
    alone = job.elastic is not None and running.jobs == (job.id,) and running.phase == "held"
    return alone and running.jobs not in view.capacity.pinned and len(running.gpus) > job.gpus


def _take_back(view: View, job: Job, capacity: Capacity) -> list[Grant]:
    """Settle a gang at its own size, on its GPU model; return its grant, none where it stays as it is."""
    held = view.running[job.id]
    if held.jobs not in capacity.pending:
        # It has made room for a grant already.
        return []
    grant = Grant(jobs=held.jobs, gpus=sizes_of(job)[0], gpu_model=held.gpu_model)
    if settle(grant, view.jobs, capacity) is not None:
        return [grant]
    capacity.keep(capacity.pending[held.jobs])
    return []


def _fits(job: Job, capacity: Capacity) -> bool:
    """Whether a waiting job fits at one of its sizes without disturbing another."""
    fits = (capacity.find(demand_of(job, capacity.cluster, size)) for size in sizes_of(job))
    return any(fit is not None and not fit.victims for fit in fits)


def _growing(view: View, decision: Decision, waiting: Sequence[Job]) -> Decision:
    """Return the decision with idle GPUs given to gangs: starting ones first, then running ones."""
    granted = {job for grant in decision.grants for job in grant.jobs}
    small = [
        job
        for job in view.elastic.values()
        if job.id in view.running and not granted and _is_small(job, view.running[job.id])
    ]
    starts = [position for position, grant in enumerate(decision.grants) if _may_start_larger(view, grant)]
    if not small and not starts:
        return decision
    capacity, grants, wakes = view.capacity.fork(), list(decision.grants), []
    capacity.keep_all(but=granted)
    begun: dict[int, Holding] = {}
    for position, grant in enumerate(grants):
        if position not in starts:
            settle(grant, view.jobs, capacity)
        elif (fit := capacity.find(demand_of_grant(grant, view.jobs, capacity.cluster))) is not None:
            capacity.take(fit)
            begun[position] = fit.holding
    if waiting and any([_fits(job, capacity) for job in _of_each_shape(waiting, capacity)]):
        return decision
    for position, holding in begun.items():
        job = view.jobs[grants[position].jobs[0]]
        gpus = _larger(job, holding, capacity, is_wanted=bool(waiting))
        if gpus is not None:
            grants[position] = replace(grants[position], gpus=gpus, gpu_model=holding.model)
    for job in sorted(small, key=lambda job: (-job.priority, job.submitted_at, job.id)):
        running = view.running[job.id]
        holding, settled_at = view.capacity.pending[running.jobs], running.since + SETTLED_SECONDS
        if view.now < settled_at - INSTANT_SECONDS:
            wakes.append(settled_at)
        elif (gpus := _larger(job, holding, capacity, is_wanted=bool(waiting))) is not None:
            grants.append(Grant(jobs=running.jobs, gpus=gpus, gpu_model=running.gpu_model))
    wakes += [] if decision.wake_at is None else [decision.wake_at]
    return replace(decision, grants=tuple(grants), wake_at=min(wakes, default=None))


def _may_start_larger(view: View, grant: Grant) -> bool:
    """Whether a grant starts a gang that could have more GPUs."""
    job = view.jobs[grant.jobs[0]]
    alone = len(grant.jobs) == 1 and job.elastic is not None and job.id not in view.running
    return alone and not grant.nodes and job.elastic is not None and grant.gpus < job.elastic[1]


def _of_each_shape(jobs: Sequence[Job], capacity: Capacity) -> list[Job]:
    """Return one of each set of jobs that fit or do not fit alike, among the first `TRIED`."""
    return list({shape_in(capacity.cluster, job): job for job in jobs[:TRIED]}.values())


def _is_small(job: Job, running: Running) -> bool:
    if job.elastic is None or running.jobs != (job.id,) or running.phase != "held":
        return False
    return len(running.gpus) < job.elastic[1]


def _larger(job: Job, holding: Holding, capacity: Capacity, *, is_wanted: bool) -> int | None:
    """Settle a gang at the largest size that disturbs no other job; return that size, or None if it stays.

    `is_wanted`: a job waits. Then the gang must have its own size already, or it does not grow.
    """
    now = holding.size
    if is_wanted and now < job.gpus:
        return None
    left = capacity.fork()
    left.drop(holding)
    for gpus in [size for size in reversed(all_sizes_of(job)) if size > now]:
        fit = left.find(demand_of(job, capacity.cluster, gpus, holding.model))
        if fit is not None and not fit.victims:
            capacity.drop(holding)
            capacity.take(fit)
            return gpus
    return None
