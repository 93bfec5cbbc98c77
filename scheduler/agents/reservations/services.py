"""Reservations: made, changed and called off by operators.

Rounds read the reservations themselves: they keep other jobs away in time, and stop those that are left when
one begins. What is left to do here is to choose nodes, to choose others when one is lost before, and to
report.
"""

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any

from django.db import transaction

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
from scheduler.agents.reservations.choosing import Terms, chosen_nodes, lock_nodes, unfit_nodes
from scheduler.core.model.lifecycle import AttemptState
from scheduler.jobs.attempts.services.steps import attempt_event
from scheduler.models.events import Event
from scheduler.models.nodes import Node
from scheduler.models.reservations import Reservation
from scheduler.models.selectors.nodes import problems_with_gpu_models
from scheduler.models.selectors.reservations import lasting_reservations
from scheduler.nodes.services.changes import node_event
from scheduler.wiring.clock import database_now
from scheduler.wiring.sweeps import for_each
from scheduler.wiring.wakeups import request_round_on_commit
from tenants.errors import Conflict, FieldError, Invalid, NotFound
from tenants.models import Tenant, User, VirtualCluster
from tenants.times import in_words, iso

MAX_RESERVATIONS = 1_000
#: The actor of what happens when a node is lost.
ACTOR = "reservations"


@transaction.atomic
def reservation_create(
    *,
    name: str,
    tenant: Tenant,
    user: User | None = None,
    virtual_cluster: VirtualCluster | None = None,
    gpu_model: str,
    gpus: int,
    starts_at: datetime,
    ends_at: datetime,
    note: str = "",
    actor: str,
) -> Reservation:
    """Reserve nodes that have the GPUs. From now on no guaranteed job starts there that could run into it."""
    now = database_now()
    check_start(starts_at, now)
    check_end(ends_at, starts_at)
    if wrong := problems_with_gpu_models([gpu_model], "gpu_model"):
        raise Invalid.of(*wrong)
    _check_members(tenant, user, virtual_cluster)
    Tenant.objects.select_for_update(no_key=True).get(id=tenant.id)
    lasting = lasting_reservations()
    if lasting.count() >= MAX_RESERVATIONS:
        raise Conflict(f"There are already {MAX_RESERVATIONS} reservations; cancel some first.")
    if lasting.filter(tenant=tenant, name=name).exists():
        problem = f"tenant {tenant.name} has a reservation {name} that is not over"
        raise Conflict.of(FieldError("name", problem, "another name"))
    lock_nodes(gpu_model)
    terms = Terms(gpu_model=gpu_model, gpus=gpus, starts_at=starts_at, ends_at=ends_at)
    made = Reservation.objects.create(
        name=name,
        tenant=tenant,
        user=user,
        virtual_cluster=virtual_cluster,
        gpu_model=gpu_model,
        gpus=gpus,
        nodes=chosen_nodes(terms, now),
        starts_at=starts_at,
        ends_at=ends_at,
        note=note,
        made_by=actor[:80],
        made_at=now,
    )
    _record(made, made.nodes, "made", actor=actor, at_instant=now)
    _tell_jobs(made, made.nodes, actor=actor, now=now)
    return made


@transaction.atomic
def reservation_change(reservation: Reservation, *, actor: str, **columns: Any) -> Reservation:
    """Change `gpus`, `starts_at`, `ends_at` or `note`. Once it has begun: its end and its note."""
    now = database_now()
    reservation = _locked(reservation, now)
    old = {name: getattr(reservation, name) for name in columns}
    changed = {name: value for name, value in columns.items() if old[name] != value}
    if not changed:
        return reservation
    if reservation.starts_at <= now and (begun := sorted(changed.keys() & {"gpus", "starts_at"})):
        expected = "cancel it, and make another"
        raise Conflict.of(FieldError(begun[0], "cannot be changed: the reservation has begun", expected))
    for name, value in changed.items():
        setattr(reservation, name, value)
    if "starts_at" in changed:
        check_start(reservation.starts_at, now)
    check_new_end(reservation.ends_at, reservation.starts_at, now)
    before = set(reservation.nodes)
    if reservation.starts_at > now and changed.keys() - {"note"}:
        _choose_again(reservation, now)
    elif reservation.ends_at > old.get("ends_at", reservation.ends_at):
        _refuse_later_end(reservation)
    reservation.save(update_fields=[*changed, "nodes"])
    _record(reservation, before.union(reservation.nodes), "changed", actor=actor, at_instant=now)
    _tell_jobs(
        reservation,
        reservation.nodes if "starts_at" in changed else set(reservation.nodes) - before,
        actor=actor,
        now=now,
    )
    return reservation


@transaction.atomic
def reservation_cancel(reservation: Reservation, *, actor: str) -> None:
    """Cancel a reservation, or end it early: its nodes are open to all again."""
    now = database_now()
    reservation = _locked(reservation, now)
    reservation.cancelled_at = now
    reservation.save(update_fields=["cancelled_at"])
    _record(reservation, reservation.nodes, "cancelled", actor=actor, at_instant=now)


def reservations_repair() -> None:
    """Give reservations that have yet to begin other nodes for those that were lost or taken out of service.

    Where there are no others it keeps those that it has: they may come back in time.
    """
    coming = lasting_reservations().filter(starts_at__gt=database_now())
    for_each("the repair of reservation", coming.values_list("id", flat=True), _repair)


@transaction.atomic
def _repair(number: int) -> None:
    reservation = Reservation.objects.select_for_update(of=("self",)).get(id=number)
    now = database_now()
    if reservation.cancelled_at is not None or reservation.starts_at <= now:
        return
    unfit = unfit_nodes(reservation)
    if not unfit:
        return
    before = set(reservation.nodes)
    try:
        _choose_again(reservation, now)
    except (Conflict, Invalid):
        return
    reservation.save(update_fields=["nodes"])
    _record(reservation, before ^ set(reservation.nodes), "changed", actor=ACTOR, at_instant=now)
    _tell_jobs(reservation, set(reservation.nodes) - before, actor=ACTOR, now=now)


def _choose_again(reservation: Reservation, now: datetime) -> None:
    lock_nodes(reservation.gpu_model)
    reservation.nodes = chosen_nodes(Terms.of(reservation), now)


def _refuse_later_end(reservation: Reservation) -> None:
    """Raise Conflict where one of its nodes is reserved, or closes, before this one would end."""
    lock_nodes(reservation.gpu_model)
    time, there = (reservation.starts_at, reservation.ends_at), {"nodes__overlap": reservation.nodes}
    others = reservations_between(*time).exclude(id=reservation.id).filter(**there)[:1]
    windows = windows_between(*time).filter(**there)[:1]
    taken = [*map(reservation_in_words, others), *map(window_in_words, windows)]
    if taken:
        raise Conflict.of(FieldError("ends_at", f"nodes of it have {taken[0]}", "an instant before that"))


def _locked(reservation: Reservation, now: datetime) -> Reservation:
    """Return a reservation as it is now, for this transaction alone to change."""
    rows = Reservation.objects.select_for_update(of=("self",))
    found = rows.select_related("tenant", "user", "virtual_cluster").filter(id=reservation.id).first()
    if found is None:
        raise NotFound(f"There is no reservation {reservation.id} any more.")
    if found.cancelled_at is not None or found.ends_at <= now:
        raise Conflict(f"Reservation {found.name} is {found.state_at(now).label.lower()} already.")
    return found


def _check_members(tenant: Tenant, user: User | None, virtual_cluster: VirtualCluster | None) -> None:
    if user is not None and not user.memberships.filter(tenant=tenant).exists():
        problem = f"{user.username} is not a member of tenant {tenant.name}"
        raise Invalid.of(FieldError("user", problem, "a member, or null: all of them"))
    if virtual_cluster is None:
        return
    if not virtual_cluster.members.filter(tenant=tenant).exists():
        problem = f"tenant {tenant.name} is not a member of virtual cluster {virtual_cluster.name}"
        raise Invalid.of(FieldError("virtual_cluster", problem, "one of its own, or null: all of them"))


def _record(
    reservation: Reservation, nodes: Iterable[str], change: str, *, actor: str, at_instant: datetime
) -> None:
    """Write an event of each node and one of the tenant, and let a round see the change."""
    facts = _facts_of(reservation)
    when = f"from {in_words(reservation.starts_at)} to {in_words(reservation.ends_at)}"
    whom = f"tenant {reservation.tenant.name}" + (f", user {reservation.user}" if reservation.user else "")
    # Without its name and its user: all tenants see the events of nodes.
    why = f"Reserved {when}"
    kind, times = f"node.reservation_{change}", _times_of(reservation)
    rows = Node.objects.filter(name__in=nodes).order_by("id")
    events = [node_event(node, kind, at=at_instant, actor=actor, why=why, data=times) for node in rows]
    message = (
        f"Reservation {reservation.name} of {reservation.gpus} {reservation.gpu_model} for {whom} {when} was"
        f" {change}."
    )
    events.append(
        Event(
            at=at_instant,
            kind="reservation.changed",
            subject="reservation",
            subject_id=reservation.id,
            tenant=reservation.tenant,
            actor=actor[:80],
            message=message[:500],
            data={**facts, "change": change},
        )
    )
    Event.objects.bulk_create(events)
    request_round_on_commit()


def _tell_jobs(reservation: Reservation, nodes: Collection[str], *, actor: str, now: datetime) -> None:
    """Write an event of each attempt on the nodes that would still run there when the reservation begins."""
    message = (
        f"A node of it is reserved for tenant {reservation.tenant.name} from"
        f" {in_words(reservation.starts_at)} on. Then the job is stopped, with time to save, and goes on"
        " elsewhere."
    )
    data = {"reservation": _times_of(reservation)}
    Event.objects.bulk_create(
        attempt_event(attempt, "attempt.reserved", at=now, actor=actor, why=message, data=data)
        for attempt in attempts_on(nodes).exclude(state=AttemptState.STOPPING).order_by("id")
        if outlasts(attempt, reservation.starts_at, now)
    )


def _facts_of(reservation: Reservation) -> dict[str, object]:
    return {"id": reservation.id, "name": reservation.name, **_times_of(reservation)}


def _times_of(reservation: Reservation) -> dict[str, object]:
    return {"starts_at": iso(reservation.starts_at), "ends_at": iso(reservation.ends_at)}
