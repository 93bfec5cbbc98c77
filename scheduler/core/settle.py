"""Settling grants on a capacity: where the jobs are if they can stay there, else where there is room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scheduler.core.capacity import Capacity
from scheduler.core.demand import demand_of_grant, shape_of
from scheduler.core.plan import Grant, Placement
from scheduler.core.snapshot import Job, JobId


def settle(grant: Grant, jobs: Mapping[JobId, Job], capacity: Capacity) -> Placement | None:
    """Use up the capacity for one grant and return its place, or None when it does not fit whole."""
    holding = capacity.pending.get(grant.jobs)
    if holding is not None and _may_stay(grant, jobs, holding.gpus, holding.model):
        if holding.gpus > capacity.room(holding.model):
            return None
        capacity.keep(holding)
        assert holding.running is not None
        return Placement(gpu_model=holding.model, replicas=holding.running.replicas)
    demand = demand_of_grant(grant, jobs, capacity.cluster)
    if holding is None:
        fit = capacity.find(demand)
    else:
        without = capacity.fork()
        without.drop(holding)
        fit = without.find(demand)
        if fit is not None:
            capacity.drop(holding)
    if fit is None:
        return None
    capacity.take(fit)
    return fit.placement


def _may_stay(grant: Grant, jobs: Mapping[JobId, Job], gpus: int, model: str) -> bool:
    if grant.gpus != gpus or grant.gpu_model not in (None, model):
        return False
    return all(not jobs[job].gpu_models or model in jobs[job].gpu_models for job in grant.jobs)


def settle_all(
    grants: Sequence[Grant], jobs: Mapping[JobId, Job], capacity: Capacity
) -> dict[int, Placement]:
    """Settle grants in their order; return the places by position, leaving out what does not fit.

    A job that has its place already is passed over, so a grant may be followed by its own fallbacks.
    """
    capacity.rank(grants)
    placements: dict[int, Placement] = {}
    settled: set[JobId] = set()
    misfits: set[object] = set()
    for position, grant in enumerate(grants):
        if not settled.isdisjoint(grant.jobs):
            continue
        # Capacity only shrinks here, so what did not fit before will not fit again.
        shape = _shape(grant, jobs) if grant.jobs not in capacity.pending else None
        if shape is not None and shape in misfits:
            continue
        placement = settle(grant, jobs, capacity)
        if placement is not None:
            placements[position] = placement
            settled.update(grant.jobs)
        elif shape is not None:
            misfits.add(shape)
    return placements


def _shape(grant: Grant, jobs: Mapping[JobId, Job]) -> object:
    """Return what decides whether a grant fits: equal shapes ask for the same."""
    return tuple([shape_of(jobs[job]) for job in grant.jobs]), grant.gpus, grant.gpu_model, grant.locality
