"""Part of step 7, check: no job starts on a node whose storage cannot serve all reads there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from scheduler.core.fitting.demand import readings_of
from scheduler.core.fitting.storage import Reading, load
from scheduler.core.model.errors import PlanError
from scheduler.core.model.plan import Action
from scheduler.core.model.snapshot import Gpu, GpuId, Job, JobId, Node, NodeId, Running, Snapshot

Replicas = Sequence[Sequence[GpuId]]
_ROUNDING = 1e-6


def check_storage(
    snapshot: Snapshot,
    placed: Mapping[JobId, Action],
    kept: Mapping[JobId, Running],
    current: Mapping[JobId, Running],
    where: Mapping[GpuId, tuple[Node, Gpu]],
) -> None:
    """Raise PlanError where a node's reads would exceed both its storage and the present load."""
    readers = {job.id: job for job in snapshot.jobs if job.data is not None}
    if placed.keys().isdisjoint(readers):
        return
    before: dict[NodeId, list[Reading]] = {}
    after: dict[NodeId, list[Reading]] = {}
    for number, job in readers.items():
        if number in current:
            _add(before, job, _nodes_of(current[number].replicas, current[number].nodes, where))
        if number in kept:
            _add(after, job, _nodes_of(kept[number].replicas, kept[number].nodes, where))
        elif number in placed and (placement := placed[number].placement) is not None:
            _add(after, job, _nodes_of(placement.replicas, placement.nodes, where))
    for node in snapshot.nodes:
        if not node.storage_bandwidth or node.id not in after:
            continue
        now = load(before.get(node.id, ()), node.cache_bytes)
        then = load(after[node.id], node.cache_bytes)
        if then > max(node.storage_bandwidth, now) * (1 + _ROUNDING):
            raise PlanError(
                f"node {node.name} would read {then:g} bytes a second, of {node.storage_bandwidth:g}"
            )


def _nodes_of(
    replicas: Replicas, homes: Sequence[NodeId], where: Mapping[GpuId, tuple[Node, Gpu]]
) -> Iterable[NodeId]:
    """Yield the node of each replica that is in the inventory."""
    if homes:
        yield from homes
        return
    for replica in replicas:
        if replica and replica[0] in where:
            yield where[replica[0]][0].id


def _add(readings: dict[NodeId, list[Reading]], job: Job, nodes: Iterable[NodeId]) -> None:
    """Add what a gang reads on each node: its replicas there together."""
    (of_one,) = readings_of(job)
    for node, count in Counter(nodes).items():
        of_gang = of_one._replace(bandwidth=of_one.bandwidth * count)
        readings.setdefault(node, []).append(of_gang)
