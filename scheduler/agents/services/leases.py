"""Nodes that stopped reporting and attempts that never began to run: what no message reports."""

from collections.abc import Collection
from datetime import datetime, timedelta
from functools import partial

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F

from nodeagent.messages import CODE_SECONDS
from scheduler.core.model.lifecycle import ATTEMPT_LIVE, AttemptState, PartState, StopCause
from scheduler.jobs.attempts.services.lifecycle import attempt_stop, part_exited
from scheduler.jobs.attempts.services.steps import lock_jobs
from scheduler.models.attempts import Attempt, AttemptPart
from scheduler.models.nodes import AgentService, Node, NodeState
from scheduler.models.selectors.nodes import served_since
from scheduler.nodes.representations import publish_nodes
from scheduler.nodes.services.changes import node_event, node_locked
from scheduler.wiring.clock import database_now
from scheduler.wiring.sweeps import for_each
from scheduler.wiring.wakeups import request_round_on_commit

#: How often the server shows that agents are served, and how old the last time may be.
PULSE_SECONDS = 1.0
STILL_SECONDS = 5.0
#: How long the nodes of an attempt may take to prepare it, and then again to run it.
START_SECONDS = 60.0


def pulse() -> float:
    """Record that agents are served now; return for how long they were not, usually 0.

    Each lease becomes longer by that time, to a whole one at most. It then ends later than the deadline that
    the node itself keeps, so no node still runs a job that was started elsewhere.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT at FROM scheduler_agentservice WHERE id = 1 FOR UPDATE")
        row = cursor.fetchone()
        now = database_now()
        stood_still = (now - row[0]).total_seconds() if row is not None else 0.0
        if row is not None and stood_still <= STILL_SECONDS:
            AgentService.objects.filter(id=1).update(at=now)
            return 0.0
        AgentService.objects.update_or_create(id=1, defaults={"at": now, "since": now})
        if row is None:
            return 0.0
        cursor.execute(
            "UPDATE scheduler_node SET lease_expires_at ="
            " LEAST(lease_expires_at + make_interval(secs => %s), %s + make_interval(secs => %s))"
            " WHERE state = 'ready' AND lease_expires_at IS NOT NULL",
            [stood_still, now, settings.CONFIG.node_lease_seconds],
        )
    return stood_still


def _are_served(now: datetime) -> bool:
    """Whether agents could report just now, as far as a server keeps a pulse."""
    newest = AgentService.objects.values_list("at", flat=True).first()
    return newest is None or (now - newest).total_seconds() <= STILL_SECONDS


def expire_leases() -> None:
    """Declare nodes lost whose lease and margin are over; stop attempts that did not start in time.

    No node is declared lost while agents are not served, since then the server itself may be silent. By the
    end of the margin the node's own shims have killed what ran there (their deadline is the lease itself). So
    its GPUs can be given back and its jobs queued again, and no job runs twice.
    """
    now = database_now()
    margin = timedelta(seconds=settings.CONFIG.node_lease_margin_seconds)
    if not _are_served(now):
        return
    overdue = Node.objects.filter(state=NodeState.READY, lease_expires_at__lt=now - margin)
    lose = partial(_node_lost, at=now, last_report=now - margin)
    for_each("the loss of", overdue.order_by("id"), lose)
    _parts_lost(at=now)
    _stop_late_starts(at=now)


@transaction.atomic
def _node_lost(node: Node, *, at: datetime, last_report: datetime) -> None:
    # Conditional: a report that arrives this instant keeps the node.
    changed = Node.objects.filter(id=node.id, state=NodeState.READY, lease_expires_at__lt=last_report).update(
        state=NodeState.LOST, version=F("version") + 1
    )
    if not changed:
        return
    message = "No report for longer than its lease; its jobs are queued again."
    node_event(node, "node.lost", at=at, actor="leases", why=message).save()
    publish_nodes([node.id])
    request_round_on_commit()


def _parts_lost(*, at: datetime) -> None:
    """End what ran on lost nodes, also what a round put there that had not heard of the loss."""
    parts = AttemptPart.objects.filter(node__state=NodeState.LOST, attempt__state__in=ATTEMPT_LIVE).exclude(
        state=PartState.EXITED
    )
    rows = parts.order_by("node_id", "id").values_list("id", "attempt__job_id")
    for_each("the loss of (part, job)", rows, lambda row: _part_lost(*row, at=at))


@transaction.atomic
def _part_lost(part_id: int, job_id: int, *, at: datetime) -> None:
    lock_jobs([job_id])
    part = AttemptPart.objects.select_related("attempt__job", "attempt__allocation", "node").get(id=part_id)
    # A sweep over many parts takes a while. A node that reports meanwhile says itself what it runs: its
    # report has renewed the lease by now, or waits for this lock and is answered that the part is over.
    node = node_locked(part.node)
    if node.state != NodeState.LOST or (node.lease_expires_at is not None and node.lease_expires_at > at):
        return
    part_exited(
        part,
        # By the lease's end the node's shims have killed it; what only waited there never started.
        exit_code=None if part.state in (PartState.WAITING, PartState.READY) else 137,
        category="lost",
        message=f"Node {part.node.name} was lost.",
        at=at,
        actor="leases",
    )


def _stop_late_starts(*, at: datetime) -> None:
    """Stop the attempts that hold GPUs and were not prepared, or do not run, within their time."""
    latest, since = at - _step_limit(), served_since()
    # While the server was away, nodes could not report what they had done.
    if since is not None and since > latest:
        return
    starting = Attempt.objects.filter(state=AttemptState.STARTING, starting_at__lt=latest)
    stop = partial(_stop_if_late, since=since, at=at)
    for_each("the late start of", starting.select_related("job").order_by("id"), stop)


def _stop_if_late(attempt: Attempt, *, since: datetime | None, at: datetime) -> None:
    if not _what_is_late(attempt, since=since, at=at):
        return
    with transaction.atomic():
        lock_jobs([attempt.job_id])
        # It may have begun to run before the lock.
        attempt = Attempt.objects.select_related("job", "allocation").get(id=attempt.id)
        if message := _what_is_late(attempt, since=since, at=at):
            attempt_stop(attempt, cause=StopCause.GANG_TIMEOUT, actor="leases", message=message, at=at)


def _what_is_late(attempt: Attempt, *, since: datetime | None, at: datetime) -> str:
    """Return which nodes did not do what in time; "" while there is time, or when it has started.

    `since`: from when on agents could report, if that is known.
    """
    if attempt.state != AttemptState.STARTING or attempt.starting_at is None:
        return ""
    parts = list(attempt.parts.select_related("node").order_by("node__name"))
    began = _start_began(attempt.starting_at, parts)
    if began is None:
        return ""
    waited = at - max(began, since or began)
    limit = _step_limit(has_code=attempt.job.specification.code is not None)
    # The nodes of a gang run it only once all of them have prepared it, which may be at the last moment.
    steps = ((PartState.WAITING, "ready", limit), (PartState.READY, "running", 2 * limit))
    for state, step, allowed in steps:
        if waited < allowed:
            break
        if names := ", ".join(part.node.name for part in parts if part.state == state):
            return f"Not every node was {step} within {allowed.total_seconds():g} s: {names}."
    return ""


def _start_began(starting_at: datetime, parts: Collection[AttemptPart]) -> datetime | None:
    """Return from when on the time to start counts; None while it does not.

    It does not while all nodes wait in the queue of another scheduler (docs/slurm.md). Once the first has
    left that queue, its GPUs stand idle until the others follow.
    """
    return min((part.left_queue_at or starting_at for part in parts if not part.is_queued), default=None)


def _step_limit(*, has_code: bool = False) -> timedelta:
    """Return the time for each of the two steps of a start: to prepare an attempt, and to run it.

    It is at least two leases: for one of them an agent may be away without losing its node.
    """
    seconds = max(START_SECONDS, 2 * settings.CONFIG.node_lease_seconds)
    return timedelta(seconds=seconds + (CODE_SECONDS if has_code else 0.0))
