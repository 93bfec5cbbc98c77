"""Which allocations hold a GPU, and which are nominated for it: the rows. `core.model.holds` decides."""

from collections import defaultdict
from collections.abc import Collection
from datetime import datetime
from typing import Any

from django.db import connection

from scheduler.core.model.gpu_parts import WHOLE_GPU, GpuPart
from scheduler.core.model.holds import GpuHolds
from scheduler.core.model.lifecycle import HoldPhase, PartState
from scheduler.core.model.snapshot import AllocationId, GpuId
from scheduler.jobs.attempts.services.node_room import nominees_on
from scheduler.models.attempts import AllocatedGpu, Allocation, AttemptPart
from scheduler.nodes.representations import publish_nodes
from tenants.after_commit import after_commit

# Each phase is found by an index without history.
_HOLDS = """
SELECT a.gpu_id, a.phase, a.allocation_id, a.request, a."limit", a.memory_bytes, g.memory_bytes
FROM (
    SELECT * FROM scheduler_allocatedgpu WHERE phase = 'held' AND gpu_id = ANY(%(gpus)s)
    UNION ALL
    SELECT * FROM scheduler_allocatedgpu WHERE phase = 'planned' AND gpu_id = ANY(%(gpus)s)
) a JOIN scheduler_gpu g ON g.id = a.gpu_id ORDER BY a.allocation_id
"""
_RELEASE = """
UPDATE scheduler_allocatedgpu held SET phase = 'released', released_at = %s FROM scheduler_gpu gpu
WHERE held.allocation_id = %s AND held.phase <> 'released' AND gpu.id = held.gpu_id
      AND gpu.node_id = coalesce(%s, gpu.node_id)
RETURNING held.gpu_id, gpu.node_id
"""
_LOCK_GPUS = """
SELECT id FROM scheduler_gpu WHERE id IN (
    SELECT gpu_id FROM scheduler_allocatedgpu
    WHERE allocation_id = %s AND phase = 'planned' AND request < %s
) ORDER BY id FOR NO KEY UPDATE
"""
# Locked in id order, which an UPDATE of many rows alone does not guarantee.
_TOUCH_NODES = """
WITH locked AS MATERIALIZED (
    SELECT id FROM scheduler_node WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE
)
UPDATE scheduler_node node SET version = version + 1 FROM locked WHERE node.id = locked.id
"""


def release(allocation: Allocation, *, at: datetime, node_id: int | None = None) -> list[int]:
    """Free an allocation's GPUs (of one node), unless another of its jobs still uses them there.

    Returns the GPUs that came free.
    """
    if node_id is not None:
        in_use = AttemptPart.objects.filter(attempt__allocation=allocation, node_id=node_id)
        if in_use.exclude(state=PartState.EXITED).exists():
            return []
    with connection.cursor() as cursor:
        cursor.execute(_RELEASE, [at, allocation.id, node_id])
        node_of = dict(cursor.fetchall())
    gpus = sorted(node_of)
    # Replicas without GPUs keep their CPUs and memory until the whole allocation ends.
    may_be_over = bool(gpus) if allocation.nodes is None else node_id is None
    left = AllocatedGpu.objects.filter(allocation=allocation).exclude(phase=HoldPhase.RELEASED)
    if may_be_over and (node_id is None or not left.exists()):
        Allocation.objects.filter(id=allocation.id).update(phase=HoldPhase.RELEASED, released_at=at)
    nodes = {*(allocation.nodes or ()), *node_of.values()}
    if nodes:
        touch_nodes(nodes)
    return gpus


def hold(allocation_id: int, *, at: datetime) -> None:
    """Let a nominated allocation hold its GPUs from now on."""
    AllocatedGpu.objects.filter(allocation_id=allocation_id, phase=HoldPhase.NOMINATED).update(
        phase=HoldPhase.HELD
    )
    Allocation.objects.filter(id=allocation_id).update(phase=HoldPhase.HELD, held_at=at)


def may_promote(allocation_id: int) -> bool:
    """Whether the holders of the GPUs of a nominated allocation leave it room.

    The GPUs of which it gets parts stay locked: otherwise two allocations might both find the room for one.
    """
    with connection.cursor() as cursor:
        cursor.execute(_LOCK_GPUS, [allocation_id, WHOLE_GPU])
    allocation = AllocationId(allocation_id)
    gpus = _nominated(allocation_id=allocation).get(allocation, [])
    return holds_on(gpus).may_promote(allocation, gpus)


def nominees(gpus: Collection[int]) -> list[int]:
    """Return the allocations that are nominated for some of these GPUs, the oldest first."""
    return sorted(_nominated(gpu_id__in=gpus))


def overdue() -> list[int]:
    """Return the nominated allocations for which the holders of their GPUs leave room, the oldest first."""
    nominated = _nominated()
    holds = holds_on({gpu for gpus in nominated.values() for gpu in gpus})
    ready = {allocation for allocation, gpus in nominated.items() if holds.may_promote(allocation, gpus)}
    # Allocations with replicas without GPUs are checked again, with their nodes locked.
    return sorted(ready.union(nominees_on(None)))


def _nominated(**which: Any) -> dict[AllocationId, list[GpuId]]:
    """Return the GPUs for which allocations are nominated."""
    rows = AllocatedGpu.objects.filter(phase=HoldPhase.NOMINATED, **which)
    found: dict[AllocationId, list[GpuId]] = defaultdict(list)
    for allocation, gpu in rows.values_list("allocation_id", "gpu_id"):
        found[AllocationId(allocation)].append(GpuId(gpu))
    return dict(found)


def holds_on(gpus: Collection[int]) -> GpuHolds:
    """Return which allocations hold these GPUs and which are nominated for them."""
    devices: dict[GpuId, int] = {}
    holds = GpuHolds(lambda gpu: devices.get(gpu, 0))
    if not gpus:
        return holds
    with connection.cursor() as cursor:
        cursor.execute(_HOLDS, {"gpus": list(gpus)})
        for gpu, phase, allocation, request, limit, memory, device in cursor.fetchall():
            whole = request == WHOLE_GPU
            part = None if whole else GpuPart(request=request, limit=limit, memory_bytes=memory)
            devices[gpu] = device
            holds.put(HoldPhase(phase), allocation, gpu, part)
    return holds


def touch_nodes(ids: Collection[int]) -> None:
    """Raise the nodes' versions and publish them, once this transaction is committed.

    Not in it: many jobs share a node. A transaction that held the node's row while it waits for a job's row
    could deadlock. If the process dies in between, the pages miss one version of the node, as when a message
    is lost.
    """
    after_commit(_touch_nodes, sorted(ids))


def _touch_nodes(ids: list[int]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_TOUCH_NODES, [ids])
    publish_nodes(ids)
