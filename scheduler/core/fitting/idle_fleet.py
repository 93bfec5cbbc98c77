"""Why a gang does not fit onto the nodes of a GPU model, even if all of them are healthy and idle."""

from __future__ import annotations

from scheduler.core.fitting.cluster import Cluster, Fleet
from scheduler.core.fitting.demand import Demand
from scheduler.core.fitting.packing import Layer, locate
from scheduler.core.fitting.reading import exceeds_bandwidth
from scheduler.core.model import wording
from scheduler.core.model.plan import Reason, Tier
from scheduler.core.model.snapshot import Job


def misfit_on_idle(
    job: Job, demand: Demand, model: str, cluster: Cluster, layer: Layer
) -> tuple[int, Reason] | None:
    """Return how close a gang comes to fitting on an idle fleet, and why it does not; None: it fits."""
    kind = f"with {model}" if model else "without GPUs"
    fleet = cluster.fleets[model]
    widest, largest = demand.ranks[-1], max(need.gpus for need in demand.needs)
    if demand.gpus > layer.gpus:
        return 0, Reason(
            code="exceeds_cluster",
            tier=Tier.NEVER,
            message=f"The cluster has {wording.gpus(layer.gpus, [model])} in all;"
            f" this job needs {demand.gpus}.",
            needed=demand.gpus,
            available=layer.gpus,
            hint=f"Ask for at most {wording.gpus(layer.gpus, [model])}.",
        )
    if largest > fleet.largest_node:
        return 1, Reason(
            code="exceeds_node",
            tier=Tier.NEVER,
            message=f"A node has at most {wording.gpus(fleet.largest_node, [model])};"
            f" one replica of this job needs {largest}, and a replica cannot span nodes.",
            needed=largest,
            available=fleet.largest_node,
            hint=f"Split the task into replicas of at most {wording.gpus(fleet.largest_node)} each.",
        )
    for need in demand.needs:
        if reason := exceeds_bandwidth(need, fleet):
            return 2, reason
        if not any(layer.holds(node, (need,)) for node in range(len(fleet.nodes))):
            return 2, Reason(
                code="exceeds_node_resources",
                tier=Tier.NEVER,
                message=f"No node {kind} has {wording.processors(need.cpus, need.memory_bytes)}"
                f" for one replica of {wording.gpus(need.gpus)}.",
                hint="Ask for fewer CPUs or less memory per replica.",
            )
    if reason := _exceeds_gpu_memory(demand, fleet, model):
        return 2, reason
    if locate(layer, fleet, demand, widest, cluster.node_rank) is not None:
        return None
    if locate(layer, fleet, demand, len(cluster.levels), cluster.node_rank) is not None:
        assert job.topology is not None
        level = job.topology.level
        return 4, Reason(
            code="exceeds_topology_level",
            tier=Tier.NEVER,
            message=f"No single {level} can hold the whole gang of {wording.gpus(demand.gpus, [model])}.",
            needed=demand.gpus,
            hint=f"Make the topology level {level} preferred instead of required, or choose a wider one.",
        )
    return 3, Reason(
        code="exceeds_packing",
        tier=Tier.NEVER,
        message=f"The {len(demand.needs)} replicas do not fit onto the {len(fleet.nodes)} nodes"
        f" {kind}, even if all of them were idle.",
        needed=demand.gpus,
        available=layer.gpus,
        hint="Use smaller replicas, or fewer of them.",
    )


def _exceeds_gpu_memory(demand: Demand, fleet: Fleet, model: str) -> Reason | None:
    largest = max([max(sizes, default=0) for sizes in fleet.gpu_memory], default=0)
    needed = max([need.part.memory_bytes for need in demand.needs if need.part is not None], default=0)
    if not 0 < largest < needed:
        return None
    return Reason(
        code="exceeds_gpu_memory",
        tier=Tier.NEVER,
        message=f"A GPU of model {model} has {wording.gibibytes(largest)} of memory;"
        f" one replica of this job needs {wording.gibibytes(needed)} of it.",
        hint="Ask for less `gpu_memory`, or for another model.",
    )
