"""Who holds which GPU: release, and the promotion of planned successors in the same transaction."""

from collections.abc import Collection
from datetime import datetime
from functools import partial

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q

from scheduler import stream
from scheduler.attempts.models import AllocatedGpu, Allocation, Attempt, AttemptPart, PartState
from scheduler.attempts.services.steps import lock_jobs, step_attempt, touch_job
from scheduler.clock import database_now
from scheduler.core.model.lifecycle import ATTEMPT_LIVE, AttemptEvent, AttemptState, HoldPhase
from scheduler.hints import hint_round
from scheduler.jobs.models import Explanation
from scheduler.jobs.representations import publish_jobs
from scheduler.nodes.models import Gpu, Node
from scheduler.nodes.representations import publish_nodes


def release_gpus(allocation: Allocation, *, at: datetime, node_id: int | None = None) -> None:
    """Free an allocation's GPUs (of one node), unless another of its jobs still uses them there."""
    held = AllocatedGpu.objects.filter(allocation=allocation).exclude(phase=HoldPhase.RELEASED)
    if node_id is not None:
        in_use = AttemptPart.objects.filter(attempt__allocation=allocation, node_id=node_id)
        if in_use.exclude(state=PartState.EXITED).exists():
            return
        held = held.filter(gpu__node_id=node_id)
    gpus = list(held.values_list("gpu_id", flat=True))
    if not gpus:
        return
    held.update(phase=HoldPhase.RELEASED, released_at=at)
    if not AllocatedGpu.objects.filter(allocation=allocation).exclude(phase=HoldPhase.RELEASED).exists():
        Allocation.objects.filter(id=allocation.id).update(phase=HoldPhase.RELEASED, released_at=at)
    touch_nodes_of(gpus)
    promote_successors(gpus, at=at)
    hint_round()


def promote_successors(gpus: Collection[int], *, at: datetime) -> None:
    """Start every planned allocation on these GPUs that now waits for nothing else."""
    planned = AllocatedGpu.objects.filter(gpu_id__in=gpus, phase=HoldPhase.PLANNED)
    for allocation_id in sorted(set(planned.values_list("allocation_id", flat=True))):
        promote(allocation_id, at=at)


def promote_overdue() -> None:
    """Start every planned allocation that waits for nothing any more, each in a transaction of its own.

    A release and the round that names a successor for the same GPUs may commit without having seen each
    other: the one finds no successor yet, the other a holder still. The release asks for a round, and
    that one begins with this.
    """
    planned = AllocatedGpu.objects.filter(allocation=OuterRef("id"), phase=HoldPhase.PLANNED)
    named = Q(gpu__allocations__allocation=OuterRef("id"), gpu__allocations__phase=HoldPhase.PLANNED)
    busy = AllocatedGpu.objects.filter(named, phase=HoldPhase.HELD)
    overdue = Allocation.objects.filter(Exists(planned), ~Exists(busy)).order_by("id")
    for allocation_id in list(overdue.values_list("id", flat=True)):
        _promote_alone(allocation_id)


def promote(allocation_id: int, *, at: datetime) -> None:
    """Turn a planned allocation into a held one if all its GPUs are free and its jobs have stopped.

    The caller has locked another job, so to wait for these could close a circle (decision 0004). Where
    somebody else has one of them, it is done after the commit, in a transaction that holds nothing yet.
    """
    if not _promote(allocation_id, at=at, waits=False):
        transaction.on_commit(partial(_promote_alone, allocation_id), robust=True)


@transaction.atomic
def _promote_alone(allocation_id: int) -> None:
    _promote(allocation_id, at=None, waits=True)


def _promote(allocation_id: int, *, at: datetime | None, waits: bool) -> bool:
    """Return whether all its jobs could be locked: then it is promoted, or not to be.

    Without `at` it is held from when it was waited for: its predecessor may have gone meanwhile.
    """
    rows = AllocatedGpu.objects.filter(allocation_id=allocation_id, phase=HoldPhase.PLANNED)
    planned = Attempt.objects.filter(allocation_id=allocation_id, state=AttemptState.PLANNED)
    job_ids = list(planned.values_list("job_id", flat=True))
    if len(lock_jobs(job_ids, waits=waits)) < len(job_ids):
        return False
    # Looked at under the locks: whoever had them may have changed all of it.
    attempts = list(planned.select_related("job").order_by("job_id"))
    predecessor = AllocatedGpu.objects.filter(gpu=OuterRef("gpu"), phase=HoldPhase.HELD)
    # A job that is being moved must have left its old place first.
    moving = Attempt.objects.filter(job_id__in=job_ids, state__in=ATTEMPT_LIVE)
    if not attempts or rows.filter(Exists(predecessor)).exists() or moving.exists():
        return True
    at = at or database_now()
    rows.update(phase=HoldPhase.HELD)
    Allocation.objects.filter(id=allocation_id).update(phase=HoldPhase.HELD, held_at=at)
    nodes: set[int] = set()
    for attempt in attempts:
        parts = list(attempt.parts.values_list("node_id", flat=True))
        step_attempt(
            attempt,
            AttemptEvent.PROMOTED,
            at=at,
            actor="release",
            starting_at=at,
            # One node has nobody to wait for.
            go=len(parts) == 1,
        )
        touch_job(attempt.job, attempts_started=F("attempts_started") + 1)
        nodes.update(parts)
    Explanation.objects.filter(job_id__in=job_ids).delete()
    publish_jobs(job_ids)
    touch_nodes(nodes)
    stream.wake_nodes(nodes)
    return True


def touch_nodes_of(gpus: Collection[int]) -> None:
    touch_nodes(Gpu.objects.filter(id__in=gpus).values_list("node_id", flat=True).distinct())


def touch_nodes(ids: Collection[int]) -> None:
    """Let the nodes' versions grow and show them anew, once this transaction is committed.

    Not in it: many jobs share a node, and one that held the node's row while it waits for another job's
    would close a circle. Should the process die in between, the pages miss one version of the node,
    as they do when a message is lost.
    """
    transaction.on_commit(partial(_touch_nodes, sorted(ids)), robust=True)


@transaction.atomic
def _touch_nodes(ids: list[int]) -> None:
    # In id order, which an UPDATE of many rows does not promise.
    list(Node.objects.select_for_update(no_key=True).filter(id__in=ids).order_by("id").values_list("id"))
    Node.objects.filter(id__in=ids).update(version=F("version") + 1)
    publish_nodes(ids)
