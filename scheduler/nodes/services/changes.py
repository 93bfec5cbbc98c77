"""The only way to record and publish what an operator or the platform decides about a node."""

from collections.abc import Mapping
from datetime import datetime

from django.db.models import F

from scheduler.models.events import Event
from scheduler.models.nodes import Node
from scheduler.nodes.representations import publish_nodes
from scheduler.wiring.clock import database_now
from scheduler.wiring.wakeups import request_round_on_commit


def node_locked(node: Node) -> Node:
    """Return the node as it is now, for this transaction alone to change."""
    return Node.objects.select_for_update(no_key=True).get(id=node.id)


def change_node(node: Node, kind: str, *, actor: str, why: str = "", **columns: object) -> None:
    """Change columns of a locked node, with the event."""
    Node.objects.filter(id=node.id).update(version=F("version") + 1, **columns)
    for name, value in columns.items():
        setattr(node, name, value)
    record_node(node, kind, actor=actor, why=why)
    request_round_on_commit()


def cordon_node(node: Node, *, actor: str, why: str, returns_itself: bool = False) -> None:
    """Let a locked node accept nothing new."""
    change_node(
        node,
        "node.cordoned",
        actor=actor,
        why=why,
        cordoned=True,
        returns_itself=returns_itself,
        **withdrawn(actor, why),
    )


def uncordon_node(node: Node, kind: str, *, actor: str, why: str = "") -> None:
    """Let a locked node accept jobs again, and forget that it was to be drained."""
    change_node(
        node,
        kind,
        actor=actor,
        why=why,
        cordoned=False,
        draining=False,
        drain_deadline=None,
        returns_itself=False,
        cordoned_by="",
        cordon_why="",
        cordoned_at=None,
    )


def withdrawn(actor: str, why: str) -> dict[str, object]:
    """Return the columns with the actor that takes a node out of service, and why."""
    return {"cordoned_by": actor[:80], "cordon_why": why[:500], "cordoned_at": database_now()}


def record_node(node: Node, kind: str, *, actor: str, why: str = "") -> None:
    node_event(node, kind, at=database_now(), actor=actor, why=why).save()
    publish_nodes([node.id])


def node_event(
    node: Node,
    kind: str,
    *,
    at: datetime,
    actor: str,
    why: str = "",
    data: Mapping[str, object] | None = None,
) -> Event:
    """Return the unsaved event of a node."""
    return Event(
        at=at,
        kind=kind,
        subject="node",
        subject_id=node.id,
        node_id=node.id,
        actor=actor,
        message=why[:500],
        data=data or {},
    )
