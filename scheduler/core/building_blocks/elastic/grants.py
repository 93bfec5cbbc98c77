"""Turns a policy's decisions about elastic gangs into grants: what is unchanged stays in place.

A grant names its nodes, and falls back on any place for as many GPUs, then on what the gang has now, or on
the fewest that it starts with. So a gang does not lose what it has if its planned place is not available:
CPUs and memory, which pools do not count, may be short.
"""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.core.building_blocks.elastic.arrangement import Row
from scheduler.core.building_blocks.elastic.pools import Pool, has_exact_nodes
from scheduler.core.building_blocks.fill import fill
from scheduler.core.building_blocks.policy import View
from scheduler.core.fitting.demand import demand_of_grant, least_gpus, shape_in
from scheduler.core.fitting.settle import settle
from scheduler.core.model.plan import Grant, Locality
from scheduler.core.model.snapshot import Job, JobId


def grants_of(view: View, pools: Sequence[Pool], rows: Sequence[Sequence[Row]]) -> tuple[Grant, ...]:
    """Return grants for the gangs of all pools, given the nodes of each; a gang without nodes gets nothing.

    A job that shares GPUs keeps them. First come gangs that stay. Then come those that only shrink, so that
    the others can have what they give up. The others come last, the largest first.
    """
    order: list[tuple[int, int, float, JobId, list[Grant]]] = []
    for unit in dict.fromkeys(running.jobs for running in view.running.values()):
        if len(unit) > 1:
            running = view.running[unit[0]]
            grant = Grant(jobs=unit, gpus=sum(map(len, running.replicas)), gpu_model=running.gpu_model)
            order.append((0, 0, 0.0, unit[0], [grant]))
    for pool, places in zip(pools, rows, strict=True):
        for position, row in enumerate(places):
            if row:
                job = pool.jobs[position]
                rank, choices = _choices(view, pool, position, row)
                gpus = sum(row.values()) * pool.gangs[position].replica_gpus
                order.append((rank, -gpus, job.submitted_at, job.id, choices))
    order.sort(key=lambda entry: entry[:4])
    return fill([grant for *_, choices in order for grant in choices], view)


def changes_of(
    view: View, pools: Sequence[Pool], grants: Sequence[Grant]
) -> tuple[tuple[Grant, ...], tuple[JobId, ...]]:
    """Return the grants that change something, and the running jobs of the pools that lose their GPUs."""
    named = {job for grant in grants for job in grant.jobs}
    jobs = [job.id for pool in pools for job in pool.jobs]
    stops = [job for job in jobs if job in view.running and job not in named]
    return tuple([grant for grant in grants if not stays(grant, view)]), tuple(stops)


def misfits_of(pools: Sequence[Pool], rows: Sequence[Sequence[Row]], grants: Sequence[Grant]) -> list[Job]:
    """Return the jobs that were given nodes and have no grant, pool by pool."""
    named = {job for grant in grants for job in grant.jobs}
    return [
        job
        for pool, places in zip(pools, rows, strict=True)
        for job, row in zip(pool.jobs, places, strict=True)
        if row and job.id not in named
    ]


def stays(grant: Grant, view: View) -> bool:
    """Whether a grant leaves its jobs as they are, in place."""
    running = view.running.get(grant.jobs[0])
    if running is None or running.jobs != grant.jobs or grant.gpus != len(running.gpus):
        return False
    return not grant.nodes and grant.gpu_model in (None, running.gpu_model)


def minimum_starts(
    view: View, waiting: Sequence[Job], grants: Sequence[Grant] = (), stops: Sequence[JobId] = ()
) -> tuple[Grant, ...]:
    """Return grants that start gangs in their order beside all that runs in the view, each with the fewest
    GPUs that it can have: idle ones, or those of opportunistic jobs that the view may reclaim.

    `grants`, `stops`: the decisions about other jobs.
    """
    capacity = view.capacity.fork()
    capacity.keep_all(but=[*stops, *(job for grant in grants for job in grant.jobs)])
    for stopped in stops:
        capacity.drop(capacity.pending[view.running[stopped].jobs])
    for decided in grants:
        settle(decided, view.jobs, capacity)
    starts: list[Grant] = []
    misfits: set[object] = set()
    for job in waiting:
        shape = shape_in(capacity.cluster, job)
        if shape in misfits:
            continue
        grant = Grant(jobs=(job.id,), gpus=least_gpus(job))
        fit = capacity.find(demand_of_grant(grant, view.jobs, capacity.cluster))
        if fit is None:
            misfits.add(shape)
        else:
            capacity.take(fit)
            starts.append(grant)
    return tuple(starts)


def starts_beside_parts(
    view: View, line: Sequence[Job], grants: Sequence[Grant], stops: Sequence[JobId]
) -> tuple[Grant, ...]:
    """Return grants that start more gangs, in queue order, on what is left where jobs have parts of GPUs.

    Pools count a part as a whole GPU, so several parts on one GPU leave others idle. `grants`, `stops`: the
    decisions made with pools.
    """
    if not any(job.has_parts for job in line):
        return ()
    named = {job for grant in grants for job in grant.jobs}
    waiting = [job for job in line if job.id not in view.running and job.id not in named]
    return minimum_starts(view, waiting, grants, stops)


def _choices(view: View, pool: Pool, position: int, row: Row) -> tuple[int, list[Grant]]:
    """Return a gang's turn, and its grants in order of preference: it gets the first that fits."""
    job, gang = pool.jobs[position], pool.gangs[position]
    gpus, running = sum(row.values()) * gang.replica_gpus, view.running.get(job.id)
    model = pool.gpu_model
    here = None if running is None else Grant(jobs=(job.id,), gpus=sum(map(len, running.replicas)))
    if here is not None and row == gang.base:
        return 0, [here]
    near = Locality.NODE if len(row) == 1 and job.elastic is not None else Locality.ANY
    exact = has_exact_nodes(job)
    nodes = pool.row_of(position, row) if exact else ()
    choices = [Grant(jobs=(job.id,), gpus=gpus, gpu_model=model, locality=near, nodes=nodes)]
    if nodes:
        choices.append(Grant(jobs=(job.id,), gpus=gpus, gpu_model=model))
    if here is not None:
        choices.append(here)
    elif gpus > least_gpus(job):
        choices.append(Grant(jobs=(job.id,), gpus=least_gpus(job), gpu_model=model))
    shrinks = exact and bool(gang.base) and all(gang.base.get(node, 0) >= row[node] for node in row)
    return (1 if shrinks else 2 if not exact else 3), choices


def waiting_in(order: Sequence[Job], grants: Sequence[Grant]) -> tuple[JobId, ...]:
    """Return the jobs that are granted nothing, in order."""
    granted = {job for grant in grants for job in grant.jobs}
    return tuple([job.id for job in order if job.id not in granted])
