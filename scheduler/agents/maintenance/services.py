"""Maintenance windows: announced, begun, and over by themselves.

Rounds read the windows themselves (`models.selectors.maintenance`), so that a node closes and opens with its
window and no column of it is changed. What is left to do at an instant is to stop the jobs that are still
there, and to say what happened.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F, Q

from scheduler.agents.planned import (
    attempts_on,
    check_end,
    check_new_end,
    check_start,
    outlasts,
    reservation_in_words,
    reservations_between,
    window_in_words,
    windows_between,
)
from scheduler.core.model.lifecycle import AttemptState, StopCause
from scheduler.jobs.attempts.services.lifecycle import attempt_stop
from scheduler.jobs.attempts.services.steps import attempt_event, lock_jobs
from scheduler.jobs.representations import publish_jobs
from scheduler.models.events import Event
from scheduler.models.maintenance import ACTIVE, MaintenanceWindow, WindowState
from scheduler.models.nodes import Node
from scheduler.models.selectors.maintenance import active_windows
from scheduler.nodes.representations import publish_nodes
from scheduler.nodes.services.changes import node_event
from scheduler.wiring.clock import database_now
from scheduler.wiring.deadlocks import repeated_on_deadlock
from scheduler.wiring.sweeps import for_each
from scheduler.wiring.wakeups import request_round_on_commit
from tenants.errors import Conflict, FieldError, Invalid, NotFound
from tenants.times import in_words, iso

MAX_WINDOWS = 1_000
MAX_NODES = 5_000
#: The actor of what a window does at its start and its end.
ACTOR = "maintenance"
_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The nodes of a window: these, and all that stand in these racks."""

    nodes: Collection[str] = ()
    racks: Collection[str] = ()


@transaction.atomic
def window_create(
    *, reason: str, choice: Choice, starts_at: datetime, ends_at: datetime, actor: str
) -> MaintenanceWindow:
    """Announce a window. From now on its nodes start only jobs that will have ended before it."""
    now = database_now()
    check_start(starts_at, now)
    check_end(ends_at, starts_at)
    if active_windows().count() >= MAX_WINDOWS:
        raise Conflict(f"There are already {MAX_WINDOWS} maintenance windows; cancel some first.")
    nodes = _locked(_chosen(choice))
    window = MaintenanceWindow(
        reason=reason,
        nodes=sorted(nodes),
        starts_at=starts_at,
        ends_at=ends_at,
        made_by=actor[:80],
        made_at=now,
    )
    _refuse_overlap(window)
    window.save(force_insert=True)
    _record(window, nodes.values(), "node.maintenance_announced", actor=actor, at=now)
    _tell_jobs(window, actor=actor, at=now)
    return window


@transaction.atomic
def window_change(
    window: MaintenanceWindow,
    *,
    actor: str,
    choice: Choice | None = None,
    **columns: Any,
) -> MaintenanceWindow:
    """Change `reason`, `starts_at`, `ends_at` or the nodes; once a window has begun, only reason and end."""
    now = database_now()
    window = _locked_window(window)
    before = set(window.nodes)
    moves = choice is not None or columns.get("starts_at", window.starts_at) != window.starts_at
    if moves and (window.state != WindowState.ANNOUNCED or window.starts_at <= now):
        field = "starts_at" if choice is None else "nodes"
        problem = "cannot be changed: the window has begun"
        raise Conflict.of(FieldError(field, problem, "cancel it, and make another"))
    for name, value in columns.items():
        setattr(window, name, value)
    if moves:
        check_start(window.starts_at, now)
    check_new_end(window.ends_at, window.starts_at, now)
    if choice is not None:
        window.nodes = sorted(_chosen(choice))
    nodes = _locked(before.union(window.nodes))
    _refuse_overlap(window)
    window.save(update_fields=["reason", "starts_at", "ends_at", "nodes"])
    _record(window, nodes.values(), "node.maintenance_changed", actor=actor, at=now)
    if moves:
        _tell_jobs(window, actor=actor, at=now)
    publish_jobs(attempts_on(before).values_list("job_id", flat=True))
    return window


@transaction.atomic
def window_cancel(window: MaintenanceWindow, *, actor: str) -> None:
    """Call a window off, or end it early: its nodes open again at once, unless something else closes them."""
    window = _locked_window(window)
    _end(window, WindowState.CANCELLED, "node.maintenance_cancelled", actor=actor)


def windows_advance() -> None:
    """Begin and end the windows that are due, and stop what still runs on the nodes of those under way.

    A window whose start and end were missed both is over, and stops no job.
    """
    due = active_windows().filter(starts_at__lte=database_now())
    numbers = due.order_by("starts_at", "id").values_list("id", flat=True)
    for_each("maintenance window", list(numbers), _advance)


def _advance(window_id: int) -> None:
    if _begun(window_id):
        _empty(window_id)


@transaction.atomic
def _begun(window_id: int) -> bool:
    """Begin or end the window if it is due; return whether it is under way."""
    window = MaintenanceWindow.objects.select_for_update().get(id=window_id)
    now = database_now()
    if window.state not in ACTIVE or window.starts_at > now:
        return False
    if window.ends_at <= now:
        _end(window, WindowState.OVER, "node.maintenance_over", actor=ACTOR)
        return False
    if window.state == WindowState.ANNOUNCED:
        _set_state(window, WindowState.DRAINING)
        _record(window, _locked(window.nodes).values(), "node.maintenance_begun", actor=ACTOR, at=now)
    return True


@repeated_on_deadlock
@transaction.atomic
def _empty(window_id: int) -> None:
    window = MaintenanceWindow.objects.get(id=window_id)
    attempts = attempts_on(window.nodes)
    jobs = sorted(set(attempts.exclude(state=AttemptState.STOPPING).values_list("job_id", flat=True)))
    lock_jobs(jobs)
    message = f"Its node is in maintenance: {window.reason}. The job is queued again."
    staying = attempts.filter(job__in=jobs).exclude(state=AttemptState.STOPPING)
    for attempt in staying.select_related("job", "allocation").order_by("job_id", "id"):
        attempt_stop(attempt, cause=StopCause.DRAINED, actor=ACTOR, message=message[:500])
    if window.state == WindowState.DRAINING and not attempts.exists():
        MaintenanceWindow.objects.filter(id=window_id, state=WindowState.DRAINING).update(
            state=WindowState.OPEN
        )


def _end(window: MaintenanceWindow, state: WindowState, kind: str, *, actor: str) -> None:
    _set_state(window, state)
    _record(window, _locked(window.nodes).values(), kind, actor=actor, at=database_now())
    publish_jobs(attempts_on(window.nodes).values_list("job_id", flat=True))


def _set_state(window: MaintenanceWindow, state: WindowState) -> None:
    window.state = state
    window.save(update_fields=["state"])


def _locked_window(window: MaintenanceWindow) -> MaintenanceWindow:
    """Return a window as it is now, for this transaction alone to change."""
    found = MaintenanceWindow.objects.select_for_update().filter(id=window.id).first()
    if found is None:
        raise NotFound(f"There is no maintenance window {window.id} any more.")
    if found.state not in ACTIVE:
        raise Conflict(f"Maintenance window {found.id} is {found.get_state_display().lower()} already.")
    return found


def _chosen(choice: Choice) -> set[str]:
    """Return the names of the nodes that are meant; raise Invalid for those that do not exist."""
    racks = dict[str, set[str]]()
    rows = Node.objects.filter(Q(name__in=choice.nodes) | Q(rack__in=choice.racks)).values_list(
        "name", "rack"
    )
    for name, rack in rows:
        racks.setdefault(rack, set()).add(name)
    found = set().union(*racks.values())
    for field, given, known in (("nodes", choice.nodes, found), ("racks", choice.racks, racks)):
        if unknown := sorted(set(given).difference(known)):
            problem = f"there is no {_named(unknown)}"
            raise Invalid.of(FieldError(field, problem, "names that GET nodes lists"))
    if not found:
        raise Invalid.of(FieldError("nodes", "no node is named", "names of nodes, or of racks in `racks`"))
    if len(found) > MAX_NODES:
        problem = f"{len(found)} are too many"
        raise Invalid.of(FieldError("nodes", problem, f"at most {MAX_NODES} in one window"))
    return found


def _locked(names: Collection[str]) -> Mapping[str, Node]:
    """Return the nodes, locked: windows that share one are made one after another."""
    rows = Node.objects.select_for_update(no_key=True).filter(name__in=names).order_by("id")
    return {node.name: node for node in rows}


def _refuse_overlap(window: MaintenanceWindow) -> None:
    """Raise Conflict that names nodes and what has them then, another window or a reservation; the nodes are
    locked."""
    there = {"nodes__overlap": window.nodes}
    other = windows_between(window.starts_at, window.ends_at).exclude(id=window.id).filter(**there).first()
    reserved = reservations_between(window.starts_at, window.ends_at).filter(**there).first()
    if other is not None:
        said, nodes, expected = window_in_words(other), other.nodes, "another time, or other nodes"
    elif reserved is not None:
        said, nodes = reservation_in_words(reserved), reserved.nodes
        expected = "another time, or other nodes; or change the reservation first"
    else:
        return
    problem = f"{_named(sorted(set(window.nodes) & set(nodes)))}: {said}"
    raise Conflict(f"nodes: {problem}.", [FieldError("nodes", problem[:500], expected)])


def _record(window: MaintenanceWindow, nodes: Iterable[Node], kind: str, *, actor: str, at: datetime) -> None:
    """Write an event of each node, publish the nodes, and let a round see them."""
    nodes = list(nodes)
    ids = [node.id for node in nodes]
    why = f"{window.reason} ({in_words(window.starts_at)} to {in_words(window.ends_at)})"
    data = {"maintenance": _facts_of(window)}
    Event.objects.bulk_create(
        node_event(node, kind, at=at, actor=actor, why=why, data=data) for node in nodes
    )
    Node.objects.filter(id__in=ids).update(version=F("version") + 1)
    publish_nodes(ids)
    request_round_on_commit()


def _tell_jobs(window: MaintenanceWindow, *, actor: str, at: datetime) -> None:
    """Write an event of each attempt on the nodes that would still run there when the window starts."""
    attempts = list(attempts_on(window.nodes).exclude(state=AttemptState.STOPPING).order_by("id"))
    affected = [attempt for attempt in attempts if outlasts(attempt, window.starts_at, at)]
    message = (
        f"A node of it closes on {in_words(window.starts_at)} for maintenance: {window.reason}."
        " Then the job is stopped, with time to save, and goes on elsewhere."
    )
    data = {"maintenance": _facts_of(window)}
    Event.objects.bulk_create(
        attempt_event(attempt, "attempt.maintenance", at=at, actor=actor, why=message, data=data)
        for attempt in affected
    )
    publish_jobs([attempt.job_id for attempt in attempts])


def _facts_of(window: MaintenanceWindow) -> Mapping[str, object]:
    return {
        "id": window.id,
        "reason": window.reason,
        "starts_at": iso(window.starts_at),
        "ends_at": iso(window.ends_at),
    }


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"
