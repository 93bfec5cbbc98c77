"""Settles grants on a capacity: in place if the jobs can stay there, else where there is room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.demand import demand_of_grant, shape_in
from scheduler.core.fitting.holding import Fit, Holding
from scheduler.core.model.plan import Grant, Locality, Placement
from scheduler.core.model.snapshot import Job, JobId


def settle(grant: Grant, jobs: Mapping[JobId, Job], capacity: Capacity) -> Placement | None:
    """Take one grant's GPUs from the capacity and return its placement, or None when it does not fit whole.

    A job stays in place if it may. A job that is spread wider than its grant asks moves if that disturbs no
    job, and stays otherwise.
    """
    holding = capacity.pending.get(grant.jobs)
    if holding is not None and grant.jobs in capacity.pinned:
        return _kept(holding, capacity)
    if grant.nodes:
        return _settle_on_nodes(grant, jobs, capacity, holding)
    if holding is None:
        fit = capacity.find(demand_of_grant(grant, jobs, capacity.cluster))
    elif not _may_stay(grant, jobs, holding.size, holding.model):
        fit = _find_elsewhere(grant, jobs, holding, capacity)
    elif not capacity.may_stay(holding):
        return None
    else:
        fit = None
        if _is_wider(grant, holding, capacity):
            fit = _find_elsewhere(grant, jobs, holding, capacity)
        if fit is None or fit.victims:
            return _kept(holding, capacity)
    if fit is None:
        return None
    if holding is not None:
        capacity.drop(holding)
    capacity.take(fit)
    return fit.placement


def _settle_on_nodes(
    grant: Grant, jobs: Mapping[JobId, Job], capacity: Capacity, holding: Holding | None
) -> Placement | None:
    """Settle a grant that names its nodes; a gang keeps its GPUs on those nodes."""
    assert grant.gpu_model is not None
    numbers = capacity.cluster.numbers_by_id(grant.gpu_model)
    nodes = [numbers[node] for node, replicas in grant.nodes for _ in range(replicas)]
    demand = demand_of_grant(grant, jobs, capacity.cluster)
    if holding is not None and holding.model == grant.gpu_model and holding.gpus == grant.gpus:
        there = {part.node: part.mask.bit_count() for part in holding.parts}
        each = demand.needs[0].gpus
        if there == {numbers[node]: replicas * each for node, replicas in grant.nodes}:
            return _kept(holding, capacity) if capacity.may_stay(holding) else None
    without, own = capacity, dict[int, int]()
    if holding is not None:
        without = capacity.fork()
        without.drop(holding)
        own = {part.node: part.mask for part in holding.parts if holding.model == grant.gpu_model}
    fit = without.find_on(demand, grant.gpu_model, nodes, own)
    if fit is None:
        return None
    if holding is not None:
        capacity.drop(holding)
    capacity.take(fit)
    return fit.placement


def _kept(holding: Holding, capacity: Capacity) -> Placement:
    capacity.keep(holding)
    assert holding.running is not None
    running = holding.running
    return Placement(gpu_model=holding.model, replicas=running.replicas, nodes=running.nodes)


def _find_elsewhere(
    grant: Grant, jobs: Mapping[JobId, Job], holding: Holding, capacity: Capacity
) -> Fit | None:
    """Return a place for a gang, counting its present place as free."""
    without = capacity.fork()
    without.drop(holding)
    return without.find(demand_of_grant(grant, jobs, capacity.cluster))


def _is_wider(grant: Grant, holding: Holding, capacity: Capacity) -> bool:
    """Whether a gang is spread over several nodes, or racks, although its grant asks for one."""
    if grant.locality is Locality.ANY or len(holding.parts) == 1:
        return False
    if grant.locality is Locality.NODE:
        return True
    nodes = capacity.cluster.fleets[holding.model].nodes
    return len({nodes[part.node].path for part in holding.parts}) > 1


def _may_stay(grant: Grant, jobs: Mapping[JobId, Job], gpus: int, model: str) -> bool:
    if grant.gpus != gpus or grant.gpu_model not in (None, model):
        return False
    return all(not jobs[job].gpu_models or model in jobs[job].gpu_models for job in grant.jobs)


def settle_all(
    grants: Sequence[Grant], jobs: Mapping[JobId, Job], capacity: Capacity
) -> dict[int, Placement]:
    """Settle grants in their order; return the placements by position, leaving out grants that do not fit.

    A job that already has a placement is skipped, so a grant may be followed by its own fallbacks.
    """
    if capacity.pending:
        capacity.rank(grants)
    placements: dict[int, Placement] = {}
    settled: set[JobId] = set()
    misfits: set[object] = set()
    for position, grant in enumerate(grants):
        if not settled.isdisjoint(grant.jobs):
            continue
        # Capacity only shrinks here, so what did not fit before will not fit again.
        is_new = grant.jobs not in capacity.pending
        if misfits and is_new and _shape(grant, jobs, capacity) in misfits:
            continue
        placement = settle(grant, jobs, capacity)
        if placement is not None:
            placements[position] = placement
            settled.update(grant.jobs)
        elif is_new:
            misfits.add(_shape(grant, jobs, capacity))
    return placements


def _shape(grant: Grant, jobs: Mapping[JobId, Job], capacity: Capacity) -> object:
    """Return what decides whether a grant fits: equal shapes ask for the same."""
    shapes = tuple([shape_in(capacity.cluster, jobs[job]) for job in grant.jobs])
    return shapes, grant.gpus, grant.gpu_model, grant.locality, grant.nodes
