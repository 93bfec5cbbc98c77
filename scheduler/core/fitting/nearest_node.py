"""The node that comes closest to fitting a job without GPUs that fits on no node."""

from __future__ import annotations

from scheduler.core.fitting.cluster import Cluster
from scheduler.core.fitting.demand import Demand, Need
from scheduler.core.model import wording
from scheduler.core.model.plan import Reason, Tier
from scheduler.core.model.snapshot import Node


def misfit_on_nodes(demand: Demand, cluster: Cluster) -> Reason | None:
    """Return why a replica without GPUs fits on no node, naming the node that has the largest part of its
    demand; None where each replica fits somewhere.
    """
    nodes = [node for model in demand.models for node in cluster.fleets[model].nodes]
    misfits = [need for need in demand.needs if all([_part_of(need, node) < 1 for node in nodes])]
    if not misfits:
        return None
    need = misfits[0]
    nearest = max(nodes, key=lambda node: (_part_of(need, node), node.cpus, -node.id))
    has = wording.processors(nearest.cpus, nearest.memory_bytes)
    return Reason(
        code="exceeds_node_resources",
        tier=Tier.NEVER,
        message=f"No node has {wording.processors(need.cpus, need.memory_bytes)} for one replica. The"
        f" nearest, {nearest.name}, has {has}.",
        hint=f"Ask for at most {has} per replica.",
    )


def _part_of(need: Need, node: Node) -> float:
    """Return the part of a replica's demand that the node has. A node that states neither CPUs nor memory has
    enough.
    """
    return min(
        node.cpus / need.cpus if node.cpus and need.cpus else 1.0,
        node.memory_bytes / need.memory_bytes if node.memory_bytes and need.memory_bytes else 1.0,
    )
