"""Which nodes a reservation has: as few as will do, among those that are available when it begins.

A node is not available if it takes no work, belongs to a serving pool, is reserved or in maintenance at that
time, or has a guaranteed job that no time limit ends by then: such jobs are not stopped for a reservation.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

from django.db.models import Count, Q

from scheduler.agents.planned import (
    reservation_in_words,
    reservations_between,
    window_in_words,
    windows_between,
)
from scheduler.core.model import wording
from scheduler.core.model.lifecycle import AttemptState, PartState
from scheduler.models.attempts import AttemptPart
from scheduler.models.nodes import Node, NodeState
from scheduler.models.reservations import Reservation
from tenants.errors import Conflict, FieldError, Invalid
from tenants.times import in_words

#: The most of each kind that a refusal names.
_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What is needed, and when. `keeps`: nodes that it has already and preferably keeps."""

    gpu_model: str
    gpus: int
    starts_at: datetime
    ends_at: datetime
    #: The reservation itself, once it has a row.
    own_id: int | None = None
    keeps: Collection[str] = ()

    @classmethod
    def of(cls, reservation: Reservation) -> Self:
        """Return the terms of a reservation that has a row."""
        return cls(
            gpu_model=reservation.gpu_model,
            gpus=reservation.gpus,
            starts_at=reservation.starts_at,
            ends_at=reservation.ends_at,
            own_id=reservation.id,
            keeps=reservation.nodes,
        )


def lock_nodes(gpu_model: str) -> None:
    """Let reservations of a GPU model be made and changed one after another."""
    rows = Node.objects.select_for_update(no_key=True).filter(gpu_model__name=gpu_model)
    list(rows.order_by("id").values_list("id"))


def chosen_nodes(terms: Terms, now: datetime) -> list[str]:
    """Return the names of nodes that have the GPUs, sorted. The nodes of the model are locked.

    Raises Invalid where there are too few GPUs at all, Conflict that names what is in the way otherwise.
    """
    rows = Node.objects.filter(gpu_model__name=terms.gpu_model).annotate(
        usable=Count("gpus", filter=Q(gpus__healthy=True, gpus__present=True))
    )
    nodes = {node.name: node for node in rows.order_by("id")}
    there = sum(node.usable for node in nodes.values())
    if there < terms.gpus:
        problem = f"there are {wording.gpus(there, [terms.gpu_model])} in this cluster"
        raise Invalid.of(FieldError("gpus", problem, f"at most {there}" if there else "another gpu_model"))
    closed = {name for name, node in nodes.items() if not _takes_work(node)}
    reserved, maintained = _reserved(terms), _maintained(terms)
    busy = _busy(terms, now)
    out = closed.union(reserved, maintained, busy)
    line = sorted(
        [node for name, node in nodes.items() if name not in out and node.usable],
        # Its own, then large ones near together: the fewest nodes that will do.
        key=lambda node: (node.name not in terms.keeps, -node.usable, node.rack, node.id),
    )
    found: list[str] = []
    left = terms.gpus
    for node in line:
        if left <= 0:
            break
        found.append(node.name)
        left -= node.usable
    if left > 0:
        had = sum(node.usable for node in line)
        raise _refusal(terms, had, closed=sorted(closed), taken={**maintained, **reserved}, busy=busy)
    return sorted(found)


def unfit_nodes(reservation: Reservation) -> set[str]:
    """Return those of its nodes that would not be available if it began now: gone, lost, or out
    of service.
    """
    rows = {node.name: node for node in Node.objects.filter(name__in=reservation.nodes)}
    maintained = _maintained(Terms.of(reservation))
    return {
        name
        for name in reservation.nodes
        if name not in rows or not _takes_work(rows[name]) or name in maintained
    }


def _takes_work(node: Node) -> bool:
    in_service = node.state == NodeState.READY and not node.cordoned and not node.draining
    return in_service and node.serving_pool_id is None


def _reserved(terms: Terms) -> Mapping[str, str]:
    """Return which nodes other reservations have in that time, and the words for it."""
    others = reservations_between(terms.starts_at, terms.ends_at).exclude(id=terms.own_id or 0)
    return {node: reservation_in_words(each) for each in others for node in each.nodes}


def _maintained(terms: Terms) -> Mapping[str, str]:
    windows = windows_between(terms.starts_at, terms.ends_at)
    return {node: window_in_words(each) for each in windows for node in each.nodes}


def _busy(terms: Terms, now: datetime) -> Mapping[str, list[str]]:
    """Return which nodes have guaranteed jobs that may still run when it begins, and these in words."""
    parts = AttemptPart.objects.filter(
        node__gpu_model__name=terms.gpu_model, attempt__allocation__guaranteed=True
    )
    parts = parts.exclude(state=PartState.EXITED).exclude(
        attempt__state__in=(AttemptState.ENDED, AttemptState.STOPPING)
    )
    columns = ("node__name", "attempt__job_id", "attempt__job__time_limit_seconds", "attempt__running_at")
    found: dict[str, list[str]] = defaultdict(list)
    for node, job, limit, since in parts.order_by("attempt__job_id").values_list(*columns):
        if limit is None:
            found[node].append(f"job {job}, which has no time limit")
            continue
        ends_at = (since or now) + timedelta(seconds=limit)
        if ends_at > terms.starts_at:
            found[node].append(f"job {job}, which may run until {in_words(ends_at)}")
    return found


def _refusal(
    terms: Terms,
    had: int,
    *,
    closed: Sequence[str],
    taken: Mapping[str, str],
    busy: Mapping[str, Sequence[str]],
) -> Conflict:
    summary = (
        f"{wording.gpus(had, [terms.gpu_model])} can be reserved from {in_words(terms.starts_at)} to"
        f" {in_words(terms.ends_at)}, and {terms.gpus} were asked for"
    )
    fields = [FieldError("gpus", summary, f"at most {had}" if had else "another time, or another gpu_model")]
    others = list(dict.fromkeys(taken.values()))
    if others:
        problem = f"nodes are taken then by {_some(others)}"
        fields.append(FieldError("starts_at", problem, "a time at which they are not"))
    jobs = list(dict.fromkeys(words for each in busy.values() for words in each))
    if jobs:
        problem = f"guaranteed jobs run on nodes: {_some(jobs)}"
        fields.append(FieldError("starts_at", problem, "an instant at which they have ended"))
    if closed:
        fields.append(FieldError("gpu_model", f"nodes accept no jobs: {_some(closed)}", "nodes in service"))
    return Conflict(f"{summary}.", fields)


def _some(words: Sequence[str]) -> str:
    more = f" and {len(words) - _NAMED} more" if len(words) > _NAMED else ""
    return f"{'; '.join(words[:_NAMED])}{more}"
