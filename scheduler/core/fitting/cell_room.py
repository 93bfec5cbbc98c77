"""Whether a gang fits into the cells of a virtual cluster at all, if all of them were healthy and idle.

Two cells may happen to be adjacent, but nothing guarantees it. So each cell counts alone: a replica must fit
within one cell and, as everywhere, on one node.
"""

from __future__ import annotations

from scheduler.core.cells.chains import Layout
from scheduler.core.fitting.cluster import UNKNOWN, Cluster, Fleet
from scheduler.core.fitting.demand import Demand, Need
from scheduler.core.fitting.packing import Layer, locate
from scheduler.core.fitting.reading import exceeds_bandwidth
from scheduler.core.model import wording
from scheduler.core.model.plan import Reason, Tier
from scheduler.core.model.snapshot import Job


def misfit_in_cells(job: Job, demand: Demand, model: str, layout: Layout, own: Cluster) -> Reason | None:
    """Return why the gang can never be placed in the cells of its virtual cluster; None when it can be.

    `own`: the cluster of its cells (`own_clusters`).
    """
    fleet = own.fleets.get(model)
    if fleet is None:
        return _too_scattered(job, demand, model, layout)
    # The nodes in the pinned cell that it names, else the nodes in no pinned cell.
    sizes = [len(node.gpus) * (node.pinned_cell == demand.pinned_cell) for node in fleet.nodes]
    largest, largest_node = max(need.gpus for need in demand.needs), max(sizes)
    if largest_node == 0:
        return _all_pinned(job, model)
    if largest > largest_node:
        return _too_large(job, largest, model, largest_node)
    for need in demand.needs:
        cpus, memory = need.gpus * fleet.cpus_per_gpu, need.gpus * fleet.memory_per_gpu
        if need.cpus > cpus or need.memory_bytes > memory:
            return _too_hungry(job, need, cpus, memory)
        if exceeds_bandwidth(need, fleet):
            return _reads_too_fast(job, need, model, fleet)
    usable = [mask if size else 0 for mask, size in zip(fleet.usable, sizes, strict=True)]
    idle, node_rank = Layer.unclaimed(fleet, usable), own.node_rank
    if locate(idle, fleet, demand, demand.ranks[-1], node_rank) is not None:
        return None
    if locate(idle, fleet, demand, len(own.levels), node_rank) is None:
        return _too_scattered(job, demand, model, layout)
    assert job.topology is not None
    level = job.topology.level
    return Reason(
        code="exceeds_cells",
        tier=Tier.NEVER,
        message=f"No {model} cell of virtual cluster {job.virtual_cluster} promises {demand.gpus} GPUs within"
        f" one {level}.",
        blocking={"virtual_cluster": job.virtual_cluster, "level": level},
        needed=demand.gpus,
        hint=f"Make the topology level {level} preferred instead of required, or submit it as opportunistic.",
    )


def _too_hungry(job: Job, need: Need, cpus: float, memory: float) -> Reason:
    known = [0.0 if each == UNKNOWN else each for each in (cpus, memory)]
    return Reason(
        code="exceeds_cells",
        tier=Tier.NEVER,
        message="A cell comes with its GPUs' share of the node, for"
        f" {wording.gpus(need.gpus)} {wording.processors(*known)};"
        f" one replica needs {wording.processors(need.cpus, need.memory_bytes)}.",
        blocking={"virtual_cluster": job.virtual_cluster},
        hint="Ask for fewer CPUs or less memory per replica, or submit it as opportunistic.",
    )


def _reads_too_fast(job: Job, need: Need, model: str, fleet: Fleet) -> Reason:
    most = max([storage.bandwidth for storage in fleet.storage])
    reads = max([reading.bandwidth for reading in need.readings])
    return Reason(
        code="exceeds_cells",
        tier=Tier.NEVER,
        message="A cell comes with its GPUs' share of the node's storage;"
        f" the {model} cells of virtual cluster"
        f" {job.virtual_cluster} deliver at most {wording.rate(most)}, and one replica reads"
        f" {wording.rate(reads)}.",
        blocking={"virtual_cluster": job.virtual_cluster},
        hint=f"Ask for at most {wording.rate(most)}, or submit it as opportunistic.",
    )


def _all_pinned(job: Job, model: str) -> Reason:
    return Reason(
        code="exceeds_cells",
        tier=Tier.NEVER,
        message=f"All {model} cells of virtual cluster {job.virtual_cluster} are pinned, and those serve only"
        " jobs that name them."
        if not job.pinned_cell
        else f"The pinned cell {job.pinned_cell} of virtual cluster {job.virtual_cluster} has no {model}.",
        blocking={"virtual_cluster": job.virtual_cluster},
        hint="Name one as `pinned_cell`, or submit it as opportunistic.",
    )


def _too_large(job: Job, gpus: int, model: str, largest: int) -> Reason:
    return Reason(
        code="exceeds_cells",
        tier=Tier.NEVER,
        message=f"The largest of the {model} cells of virtual cluster {job.virtual_cluster} has"
        f" {wording.gpus(largest)} on one node; one replica needs {gpus}.",
        blocking={"virtual_cluster": job.virtual_cluster},
        needed=gpus,
        available=largest,
        hint=f"Use replicas of at most {wording.gpus(largest)}, submit it as opportunistic, or ask an"
        " operator for larger cells.",
    )


def _too_scattered(job: Job, demand: Demand, model: str, layout: Layout) -> Reason:
    owned = [
        f"{count} {layout.chains[name].types[level]}"
        for (name, level), count in layout.owned.get(job.virtual_cluster, {}).items()
        if layout.chains[name].gpu_model == model
    ]
    largest = max(need.gpus for need in demand.needs)
    return Reason(
        code="exceeds_cells",
        tier=Tier.NEVER,
        message=f"The {model} cells of virtual cluster {job.virtual_cluster} ({wording.listed(owned)}) never"
        f" hold {wording.replicas(len(demand.needs), largest)}, even if all of them are idle.",
        blocking={"virtual_cluster": job.virtual_cluster},
        needed=demand.gpus,
        hint="Use smaller replicas, or submit it as opportunistic.",
    )
