"""Check that nothing is placed on nodes that are reserved for others."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.core.model.errors import PlanError
from scheduler.core.model.plan import Action
from scheduler.core.model.snapshot import Gpu, GpuId, Job, JobId, Node, NodeId, Snapshot


def check_reservations(
    snapshot: Snapshot,
    placed: Mapping[JobId, Action],
    where: Mapping[GpuId, tuple[Node, Gpu]],
    nodes: Mapping[NodeId, Node],
) -> None:
    """Raise PlanError for a job that is placed on a node now reserved for others."""
    in_force = [each for each in snapshot.reservations if each.starts_at <= snapshot.now < each.ends_at]
    if not in_force:
        return
    jobs: Mapping[JobId, Job] = {job.id: job for job in snapshot.jobs}
    for job, action in placed.items():
        assert action.placement is not None
        used = {where[gpu][0].name for gpu in action.placement.gpus}
        used |= {nodes[node].name for node in action.placement.nodes}
        for each in in_force:
            if not used.isdisjoint(each.nodes) and not each.is_for(jobs[job]):
                raise PlanError(f"job {job} was placed on nodes of reservation {each.name}, for others only")
