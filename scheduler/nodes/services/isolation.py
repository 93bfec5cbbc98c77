"""Nodes that run jobs without isolation: refused by a server that others reach, and counted and named."""

from collections.abc import Sequence
from datetime import datetime
from typing import cast

from django.conf import settings
from django.db.models import QuerySet

from nodeagent.isolation_levels import runs_unisolated
from nodeagent.messages import Finding, Inventory, Verdict
from scheduler.models.nodes import Node, NodeState
from scheduler.nodes.services.health import findings_apply
from scheduler.wiring.clock import database_now

#: The name of the agent's finding about the same, which replaces ours once the agent is accepted.
CHECK = "isolation"
_NAMED = 3


class NodeRefusal(Exception):
    """This server refuses reports of such a node; the message has the reason, and what would be right."""


def refuse_unisolated(node: Node, inventory: Inventory | None) -> None:
    """Raise NodeRefusal, and note it at the node, if it runs jobs unisolated and this server forbids that."""
    isolation = node.isolation if inventory is None else inventory.isolation
    if settings.CONFIG.takes_unisolated_nodes or not runs_unisolated(isolation):
        return
    message = (
        "This server is reached from other machines and takes no node on which nothing keeps jobs apart."
        " Install bubblewrap there, or let the agent's configuration say sandbox: required; or start the"
        " server with --unsafe-jobs (ALLOT_UNSAFE_JOBS=true)."
    )
    _note(node, message, at=database_now())
    raise NodeRefusal(message)


def unisolated_nodes() -> QuerySet[Node]:
    """Return the nodes in service for which `runs_unisolated` holds."""
    nodes = Node.objects.filter(state=NodeState.READY, cordoned=False).exclude(isolation={})
    for enough in ("sandbox", "landlock", "required"):
        nodes = nodes.exclude(isolation__contains={enough: True})
    return nodes


def unisolated_warning(gpu_models: Sequence[str]) -> str:
    """Return a warning for a job that accepts these models (any if none is named), or ""."""
    nodes = unisolated_nodes()
    if gpu_models:
        nodes = nodes.filter(gpu_model__name__in=gpu_models)
    names = list(nodes.order_by("id").values_list("name", flat=True)[: _NAMED + 1])
    if not names:
        return ""
    listed = ", ".join(names[:_NAMED]) + (" and more" if len(names) > _NAMED else "")
    return f"Nothing isolates jobs on {listed}, where it may run; a node's page says what that means."


def _note(node: Node, message: str, *, at: datetime) -> None:
    others = [
        # The column has only these choices.
        Finding(name=check.name, verdict=cast(Verdict, check.verdict), message=check.message, gpu=check.gpu)
        for check in node.checks.exclude(name=CHECK)
    ]
    findings_apply(node, [*others, Finding(name=CHECK, verdict="failed", message=message)], at=at)
