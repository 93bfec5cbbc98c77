"""The private cluster of a virtual cluster: what it would have alone with its guarantee.

HiveD (OSDI'20, section 2.2) calls it a sharing anomaly when a tenant fares worse in the shared cluster than
it would in a private one of the same size. This is that private cluster:

- For models divided by cells: the virtual cluster's own cells and what they guarantee, no more. A cell
  smaller than a node is a node of its own, and two cells never count as near to each other.
- For models divided by counts: whole nodes until the count is reached, the best possible shape.
- All hardware works, and there are no other virtual clusters and no opportunistic jobs.

CPUs and memory of a part of a node are in proportion to its GPUs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count

from scheduler.core.building_blocks.service import put_back
from scheduler.core.cells.chains import Layout
from scheduler.core.cells.compiling import compiled
from scheduler.core.fitting.virtual_nodes import profile_of, virtual_nodes
from scheduler.core.model.errors import SchedulingError
from scheduler.core.model.plan import ActionKind
from scheduler.core.model.snapshot import (
    AllocationId,
    Gpu,
    Node,
    NodeId,
    Running,
    Snapshot,
    Tenant,
    VirtualCluster,
)
from scheduler.core.round.decide import decide


def private_cluster(snapshot: Snapshot, virtual_cluster: str, layout: Layout | None = None) -> Snapshot:
    """Return the facts of a virtual cluster's private cluster, with its guaranteed jobs.

    Running jobs are placed there on the GPUs that suit them best; jobs that do not all fit at once wait, with
    the service that they had. Policy, placer, members and tenants' quotas are kept. `layout` is that of the
    snapshot's cells, if it has been compiled already.

    Raises SchedulingError when there is no such virtual cluster.
    """
    vc = next((vc for vc in snapshot.virtual_clusters if vc.name == virtual_cluster), None)
    if vc is None:
        raise SchedulingError(f"there is no virtual cluster {virtual_cluster!r}")
    if layout is None and snapshot.cells is not None:
        layout = compiled(snapshot.cells)
    nodes = tuple(_private_nodes(snapshot, vc, layout))
    guaranteed: dict[str, int] = {}
    for node in nodes:
        guaranteed[node.gpu_model] = guaranteed.get(node.gpu_model, 0) + len(node.gpus)
    own = [job for job in snapshot.jobs if job.guaranteed and job.virtual_cluster == virtual_cluster]
    there = {job.id for job in own}
    # Node constraints do not apply to these nodes, and no job waits for a job that is not here.
    jobs = tuple(
        [
            replace(
                job,
                nodes=None,
                reservation="",
                reserved=None,
                avoid=(),
                outlasts=(),
                awaits=tuple([each for each in job.awaits if each.job in there]),
            )
            for job in own
        ]
    )
    alone = replace(
        snapshot,
        nodes=nodes,
        virtual_clusters=(replace(vc, guaranteed=guaranteed),),
        jobs=jobs,
        running=(),
        memory={},
        cells=None,
        lending=None,
        reservations=(),
    )
    return _seated(alone, snapshot.running)


def _private_nodes(snapshot: Snapshot, vc: VirtualCluster, layout: Layout | None) -> Iterator[Node]:
    """Yield the nodes, numbered from 1."""
    numbers = map(NodeId, count(1))
    divided = layout.gpu_models if layout is not None else frozenset[str]()
    if layout is not None:
        # These are the nodes with which its policy works in the shared cluster.
        by_name = {node.name: node for node in snapshot.nodes}
        profiles = {
            name: profile_of(chain, by_name, snapshot.levels) for name, chain in layout.chains.items()
        }
        for node in virtual_nodes(layout, vc.name, profiles, snapshot.levels):
            yield replace(node, id=next(numbers))
    for model, gpus in sorted(vc.guaranteed.items()):
        if model not in divided:
            nodes = [node for node in snapshot.nodes if node.gpu_model == model]
            for node in _whole_nodes(nodes, gpus):
                yield replace(node, id=next(numbers))


def _whole_nodes(nodes: Iterable[Node], gpus: int) -> Iterator[Node]:
    """Yield the largest nodes until there are `gpus` GPUs, only a part of the last one."""
    for node in sorted(nodes, key=lambda node: (-len(node.gpus), node.path, node.name)):
        if gpus <= 0:
            return
        yield _part_of(node, sorted(node.gpus, key=lambda gpu: (gpu.path, gpu.index))[:gpus])
        gpus -= len(node.gpus)


def _part_of(node: Node, gpus: Sequence[Gpu]) -> Node:
    part = len(gpus) / len(node.gpus)
    return replace(
        node,
        gpus=tuple([replace(gpu, healthy=True) for gpu in gpus]),
        schedulable=True,
        closes_at=None,
        cpus=node.cpus * part,
        memory_bytes=int(node.memory_bytes * part),
        storage_bandwidth=node.storage_bandwidth * part,
        cache_bytes=int(node.cache_bytes * part),
    )


def _seated(alone: Snapshot, running: Sequence[Running]) -> Snapshot:
    """Return the facts with the running jobs on GPUs of the private cluster, the largest placed first.

    A round in which no other job waits decides where each job is.
    """
    had = {job: on for on in running if on.phase == "held" for job in on.jobs}
    seated = [job for job in alone.jobs if job.id in had]
    if not seated:
        return alone
    (vc,) = alone.virtual_clusters
    by_size = sorted(seated, key=lambda job: (-max(task.gpus for task in job.tasks), -job.gpus, job.id))
    waiting = [
        replace(job, submitted_at=float(place), priority=0, eligible_at=0.0, held=False, cancelling=False)
        for place, job in enumerate(by_size)
    ]
    fifo = replace(vc, policy="fifo", policy_parameters={}, placer="consolidate", placer_parameters={})
    tenants = tuple([Tenant(name=tenant.name) for tenant in alone.tenants])
    plan = decide(replace(alone, jobs=tuple(waiting), virtual_clusters=(fifo,), tenants=tenants))
    numbers = map(AllocationId, count(1))
    found = tuple(
        [
            Running(
                allocation=next(numbers),
                jobs=action.jobs,
                gpu_model=action.placement.gpu_model,
                replicas=action.placement.replicas,
                since=had[action.jobs[0]].since_of(action.jobs[0]),
            )
            for action in plan.actions
            if action.kind is ActionKind.START and action.placement is not None
        ]
    )
    sits = {job for on in found for job in on.jobs}
    jobs = tuple(
        [
            put_back(job, had[job.id], alone.now) if job.id in had and job.id not in sits else job
            for job in alone.jobs
        ]
    )
    return replace(alone, jobs=jobs, running=found)
