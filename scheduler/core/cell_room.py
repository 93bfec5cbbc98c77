"""Whether a gang fits into the cells of a virtual cluster at all, were all of them sound and idle.

Two cells may happen to lie side by side; nothing promises that they do. So each counts for itself: a replica
must lie within one cell and, as everywhere, on one node.
"""

from __future__ import annotations

from scheduler.core import wording
from scheduler.core.cells.chains import Layout
from scheduler.core.cluster import UNKNOWN, Cluster
from scheduler.core.demand import Demand
from scheduler.core.plan import Reason, Tier
from scheduler.core.snapshot import Job


def rooms_of(layout: Layout, virtual_cluster: str, model: str) -> list[int]:
    """Return the GPUs of every part of the cells that lies on one node, the largest first."""
    rooms: list[int] = []
    kinds = [(name, level, count) for (name, level), count in layout.owned.get(virtual_cluster, {}).items()]
    kinds += [(cell.chain, cell.level, 1) for cell in layout.pinned.get(virtual_cluster, {}).values()]
    for name, level, count in kinds:
        chain = layout.chains[name]
        if chain.gpu_model == model:
            size = chain.sizes[min(level, chain.node_level)]
            rooms += [size] * (count * chain.sizes[level] // size)
    return sorted(rooms, reverse=True)


def misfit_in_cells(job: Job, demand: Demand, model: str, cluster: Cluster, layout: Layout) -> Reason | None:
    """Return why the gang can never be placed in the cells of its virtual cluster; None when it can be."""
    rooms = rooms_of(layout, job.virtual_cluster, model)
    # A gang that must stay on a node, or closer, must stay within one cell.
    together = demand.ranks[-1] <= cluster.node_rank
    sizes = [demand.gpus] if together else sorted([need.gpus for need in demand.needs], reverse=True)
    if sizes[0] > max(rooms, default=0):
        return _too_large(job, sizes[0], model, rooms, together=together)
    cpus, memory = cluster.fleets[model].cpus_per_gpu, cluster.fleets[model].memory_per_gpu
    for need in demand.needs:
        if need.cpus > need.gpus * cpus or need.memory_bytes > need.gpus * memory:
            known = [0.0 if each == UNKNOWN else need.gpus * each for each in (cpus, memory)]
            return Reason(
                code="exceeds_cells",
                tier=Tier.NEVER,
                message="A cell comes with its GPUs' share of the node, for"
                f" {wording.gpus(need.gpus)} {wording.processors(*known)};"
                f" one replica needs {wording.processors(need.cpus, need.memory_bytes)}.",
                blocking={"virtual_cluster": job.virtual_cluster},
                hint="Ask for fewer CPUs or less memory per replica, or submit it as opportunistic.",
            )
    for size in sizes:
        place = next((n for n in range(len(rooms) - 1, -1, -1) if rooms[n] >= size), None)
        if place is None:
            return _too_scattered(job, demand, model, layout)
        rooms[place] -= size
        rooms.sort(reverse=True)
    return None


def _too_large(job: Job, gpus: int, model: str, rooms: list[int], *, together: bool) -> Reason:
    largest = max(rooms, default=0)
    need = f"this gang must stay on one node and needs {gpus}" if together else f"one replica needs {gpus}"
    return Reason(
        code="exceeds_cells",
        tier=Tier.NEVER,
        message=f"The largest of the {model} cells of virtual cluster {job.virtual_cluster} has"
        f" {wording.gpus(largest)} on one node; {need}.",
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
