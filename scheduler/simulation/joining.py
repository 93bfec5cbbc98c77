"""Map the tenants and virtual clusters of a workload to those of a cluster, before both are simulated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from scheduler.core.model import wording
from scheduler.core.model.changing import changed
from scheduler.core.model.snapshot import JobId, Member, Tenant
from scheduler.core.sim.workload import Workload
from scheduler.simulation.errors import ClusterError
from scheduler.simulation.inventory import ClusterSpec


def join(cluster: ClusterSpec, workload: Workload, *, strict: bool = False) -> tuple[ClusterSpec, Workload]:
    """Add every tenant of the workload to the cluster, as a member where it submits.

    In a cluster with one virtual cluster every job goes there. With several, jobs that name another one are
    left out, which the workload reports; with `strict` they raise ClusterError, as do entries of the cluster
    that were left out. A virtual cluster without members is open: every tenant that submits to it is a
    member, of weight 1. Tenants that the cluster does not name have no quota.
    """
    names = [vc.name for vc in cluster.virtual_clusters]
    named = sorted({arrival.job.virtual_cluster for arrival in workload.arrivals})
    strangers = [name for name in named if name not in names]
    if strangers and len(names) == 1:
        workload = _moved(workload, names[0], strangers)
    elif strangers:
        if strict:
            raise ClusterError(
                f"{workload.name} submits to {wording.listed(strangers)}, which {cluster.name} does not "
                f"have; it has {wording.listed(names)}"
            )
        workload = _without(workload, strangers)
    if strict and cluster.left_out:
        raise ClusterError(f"{cluster.name}: --strict leaves nothing out: {cluster.left_out[0]}")
    submitters: dict[str, set[str]] = {name: set() for name in names}
    for arrival in workload.arrivals:
        submitters[arrival.job.virtual_cluster].add(arrival.job.tenant)
    virtual_clusters = tuple(
        vc if vc.members else replace(vc, members=tuple(map(_member, sorted(submitters[vc.name]))))
        for vc in cluster.virtual_clusters
    )
    known = {tenant.name for tenant in cluster.tenants}
    mentioned = {member.tenant for vc in virtual_clusters for member in vc.members}.union(
        *submitters.values()
    )
    tenants = (*cluster.tenants, *(Tenant(name=name) for name in sorted(mentioned - known)))
    return replace(cluster, virtual_clusters=virtual_clusters, tenants=tenants), workload


def _member(tenant: str) -> Member:
    return Member(tenant=tenant)


def _moved(workload: Workload, to: str, strangers: Sequence[str]) -> Workload:
    arrivals = tuple(
        arrival
        if arrival.job.virtual_cluster == to
        else changed(arrival, job=changed(arrival.job, virtual_cluster=to))
        for arrival in workload.arrivals
    )
    count = f"{len(strangers)} virtual clusters" if len(strangers) > 1 else f"virtual cluster {strangers[0]}"
    note = f"Jobs of the trace's {count} are all submitted to {to}."
    return replace(workload, arrivals=arrivals, notes=(*workload.notes, note))


def _without(workload: Workload, strangers: Sequence[str]) -> Workload:
    """Return the workload without the jobs of these virtual clusters; ids and times start again."""
    left = [arrival for arrival in workload.arrivals if arrival.job.virtual_cluster not in strangers]
    origin = left[0].job.submitted_at if left else 0.0
    arrivals = tuple(
        replace(
            arrival,
            job=replace(arrival.job, id=JobId(number), submitted_at=arrival.job.submitted_at - origin),
        )
        for number, arrival in enumerate(left, 1)
    )
    gone = [arrival.job for arrival in workload.arrivals if arrival.job.virtual_cluster in strangers]
    jobs = "1 job was" if len(gone) == 1 else f"{len(gone):,} jobs were"
    said = (
        f"{jobs} left out: the cluster does not have their virtual clusters"
        f" ({wording.listed(strangers)}). The first: job {gone[0].id} of {gone[0].virtual_cluster}."
    )
    return replace(workload, arrivals=arrivals, left_out=(*workload.left_out, said))
