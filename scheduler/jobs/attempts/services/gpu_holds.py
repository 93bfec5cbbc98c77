"""Who holds which GPU, and who is to hold it next: the rows."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from django.db import connection, transaction
from django.db.models import F

from scheduler.core.model.gpu_parts import WHOLE_GPU
from scheduler.core.model.lifecycle import HoldPhase, PartState
from scheduler.models.attempts import AllocatedGpu, Allocation, AttemptPart
from scheduler.models.nodes import Gpu, Node
from scheduler.nodes.representations import publish_nodes
from tenants.after_commit import after_commit

# Nominated allocations for which those who hold their GPUs leave no room. What has no memory of its own has
# it in proportion, as `GpuPart.memory_on` says.
_BLOCKED = f"""
SELECT nominated.allocation_id
FROM scheduler_allocatedgpu nominated JOIN scheduler_gpu g ON g.id = nominated.gpu_id
JOIN scheduler_allocatedgpu held ON held.gpu_id = g.id AND held.phase = 'held'
WHERE nominated.phase = 'planned'
      AND (%(allocation)s::bigint IS NULL OR nominated.allocation_id = %(allocation)s)
GROUP BY nominated.id, g.memory_bytes
HAVING nominated.request + sum(held.request) > {WHOLE_GPU}
    OR g.memory_bytes > 0 AND
       coalesce(nullif(nominated.memory_bytes, 0), g.memory_bytes * nominated.request / {WHOLE_GPU})
       + sum(coalesce(nullif(held.memory_bytes, 0), g.memory_bytes * held.request / {WHOLE_GPU}))
       > g.memory_bytes
"""
_LOCK_GPUS = """
SELECT id FROM scheduler_gpu WHERE id IN (
    SELECT gpu_id FROM scheduler_allocatedgpu
    WHERE allocation_id = %s AND phase = 'planned' AND request < %s
) ORDER BY id FOR NO KEY UPDATE
"""


def release(allocation: Allocation, *, at: datetime, node_id: int | None = None) -> list[int]:
    """Free an allocation's GPUs (of one node), unless another of its jobs still uses them there.

    Returns the GPUs that came free.
    """
    held = AllocatedGpu.objects.filter(allocation=allocation).exclude(phase=HoldPhase.RELEASED)
    if node_id is not None:
        in_use = AttemptPart.objects.filter(attempt__allocation=allocation, node_id=node_id)
        if in_use.exclude(state=PartState.EXITED).exists():
            return []
        held = held.filter(gpu__node_id=node_id)
    gpus = list(held.values_list("gpu_id", flat=True))
    if gpus:
        held.update(phase=HoldPhase.RELEASED, released_at=at)
        if not AllocatedGpu.objects.filter(allocation=allocation).exclude(phase=HoldPhase.RELEASED).exists():
            Allocation.objects.filter(id=allocation.id).update(phase=HoldPhase.RELEASED, released_at=at)
        touch_nodes(Gpu.objects.filter(id__in=gpus).values_list("node_id", flat=True).distinct())
    return gpus


def hold(allocation_id: int, *, at: datetime) -> None:
    """Let a nominated allocation hold its GPUs from now on."""
    AllocatedGpu.objects.filter(allocation_id=allocation_id, phase=HoldPhase.NOMINATED).update(
        phase=HoldPhase.HELD
    )
    Allocation.objects.filter(id=allocation_id).update(phase=HoldPhase.HELD, held_at=at)


def has_predecessor(allocation_id: int) -> bool:
    """Whether somebody still holds a GPU that a nominated allocation waits for, or too much of it.

    The GPUs of which it is to have parts stay locked: else two might each find the room that is for one.
    """
    with connection.cursor() as cursor:
        cursor.execute(_LOCK_GPUS, [allocation_id, WHOLE_GPU])
        return bool(_blocked(cursor, allocation_id))


def successors_on(gpus: Collection[int]) -> list[int]:
    """Return the allocations that are nominated for some of these GPUs, in order."""
    nominated = AllocatedGpu.objects.filter(gpu_id__in=gpus, phase=HoldPhase.NOMINATED)
    return sorted(set(nominated.values_list("allocation_id", flat=True)))


def overdue() -> list[int]:
    """Return the nominated allocations that those who hold their GPUs leave room for, in order."""
    nominated = AllocatedGpu.objects.filter(phase=HoldPhase.NOMINATED)
    waiting = set(nominated.values_list("allocation_id", flat=True))
    if not waiting:
        return []
    with connection.cursor() as cursor:
        return sorted(waiting - _blocked(cursor, None))


def _blocked(cursor: Any, allocation_id: int | None) -> set[int]:
    cursor.execute(_BLOCKED, {"allocation": allocation_id})
    return {number for (number,) in cursor.fetchall()}


def touch_nodes(ids: Collection[int]) -> None:
    """Let the nodes' versions grow and show them anew, once this transaction is committed.

    Not in it: many jobs share a node, and one that held the node's row while it waits for another job's
    would close a circle. Should the process die in between, the pages miss one version of the node,
    as they do when a message is lost.
    """
    after_commit(_touch_nodes, sorted(ids))


@transaction.atomic
def _touch_nodes(ids: list[int]) -> None:
    # In id order, which an UPDATE of many rows does not promise.
    list(Node.objects.select_for_update(no_key=True).filter(id__in=ids).order_by("id").values_list("id"))
    Node.objects.filter(id__in=ids).update(version=F("version") + 1)
    publish_nodes(ids)
