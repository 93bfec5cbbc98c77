"""Draining nodes: at once, or at a deadline that their jobs know."""

from datetime import datetime

from django.db import transaction
from django.db.models import F, QuerySet

from scheduler.core.model.lifecycle import AttemptState, PartState, StopCause
from scheduler.jobs.attempts.services.lifecycle import attempt_stop
from scheduler.jobs.attempts.services.steps import attempt_event, lock_jobs
from scheduler.models.attempts import Attempt, AttemptPart
from scheduler.models.nodes import Node
from scheduler.nodes.representations import publish_nodes
from scheduler.nodes.services.changes import change_node, node_locked, withdrawn
from scheduler.wiring.clock import database_now
from scheduler.wiring.deadlocks import repeated_on_deadlock
from scheduler.wiring.sweeps import for_each
from tenants.errors import Conflict
from tenants.times import in_words, iso


def node_drain(*, node: Node, actor: str, why: str = "", deadline: datetime | None = None) -> None:
    """Take the node out of service: cordon it and move its jobs away, at once or at a deadline.

    Until the deadline its jobs go on, and only what will have ended by then is started there.
    """
    if deadline is None:
        _drain_now(node=node, actor=actor, why=why)
    else:
        _drain_later(node=node, actor=actor, why=why, deadline=deadline)


def drain_overdue() -> None:
    """Move away what is left on nodes whose deadline has passed."""
    overdue = Node.objects.filter(drain_deadline__lte=database_now()).order_by("id")
    for_each("the drain of", overdue, _drain_if_overdue)


@repeated_on_deadlock
def _drain_now(*, node: Node, actor: str, why: str) -> None:
    with transaction.atomic():
        deadline = _close(node_locked(node), actor=actor, why=why)
    with transaction.atomic():
        _move_away(list(_unended_attempts(node).values_list("job_id", flat=True)), node, actor=actor)
        # Last, so that a drain that breaks off is done again by `drain_overdue`.
        _deadline_met(node, deadline)


def _drain_if_overdue(node: Node) -> None:
    """Drain a node whose deadline has passed: each attempt by itself, so that one that cannot be stopped
    keeps no other there.
    """
    with transaction.atomic():
        node = node_locked(node)
        if node.drain_deadline is None or node.drain_deadline > database_now():
            return
        deadline = _close(node, actor=node.cordoned_by, why=node.cordon_why)
    rows = _unended_attempts(node).order_by("job_id", "id").values_list("job_id", flat=True)
    for_each("the move of job", rows, lambda job_id: _move_away([job_id], node, actor=node.cordoned_by))
    # Else the next sweep tries again.
    if not _unended_attempts(node).exclude(state=AttemptState.STOPPING).exists():
        _deadline_met(node, deadline)


def _close(node: Node, *, actor: str, why: str) -> datetime | None:
    """Let nothing start on the locked node from now on; return the deadline that its drain had.

    In a transaction of its own, before attempts are stopped: then no round puts anything there, so what is
    found afterwards is all there is; and no transaction takes a job's lock while it holds a node's.
    """
    deadline = node.drain_deadline
    is_announced = deadline is not None and (node.cordoned_at is None or node.cordoned_at < deadline)
    if not node.draining or is_announced:
        state = {"cordoned": True, "draining": True, "returns_itself": False}
        change_node(node, "node.draining", actor=actor, why=why, **state, **withdrawn(actor, why))
    return deadline


@transaction.atomic
def _move_away(jobs: list[int], node: Node, *, actor: str) -> None:
    """Stop the attempts of these jobs on the node."""
    message = f"Node {node.name} is being drained; the job is queued again."
    lock_jobs(jobs)
    unended = _unended_attempts(node).filter(job_id__in=jobs).select_related("job", "allocation")
    for attempt in unended.order_by("job_id", "id"):
        attempt_stop(attempt, cause=StopCause.DRAINED, actor=actor, message=message)


def _deadline_met(node: Node, deadline: datetime | None) -> None:
    """Forget the deadline, unless an operator has moved it meanwhile."""
    announced = Node.objects.filter(id=node.id, drain_deadline__isnull=False)
    if announced.filter(drain_deadline=deadline).update(drain_deadline=None, version=F("version") + 1):
        publish_nodes([node.id])


@transaction.atomic
def _drain_later(*, node: Node, actor: str, why: str, deadline: datetime) -> None:
    node = node_locked(node)
    if node.draining and node.drain_deadline is None:
        raise Conflict(f"Node {node.name} is being drained already; resume it first.")
    at = in_words(deadline)
    state = {"draining": True, "drain_deadline": deadline, "returns_itself": False}
    reason = f"Its jobs are moved away at {at}. {why}".strip()
    change_node(node, "node.drain_announced", actor=actor, why=reason, **state, **withdrawn(actor, why))
    message = f"Node {node.name} is drained at {at}: the job is then stopped and queued again."
    for attempt in _unended_attempts(node).select_related("job").order_by("id"):
        attempt_event(
            attempt,
            "attempt.drain_announced",
            at=database_now(),
            actor=actor,
            why=message,
            data={"node": node.name, "deadline": iso(deadline), "why": why},
        ).save()


def _unended_attempts(node: Node) -> QuerySet[Attempt]:
    parts = AttemptPart.objects.filter(node=node).exclude(state=PartState.EXITED)
    return Attempt.objects.filter(id__in=parts.values("attempt_id")).exclude(state=AttemptState.ENDED)
