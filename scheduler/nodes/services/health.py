"""Cordon a node when its health checks fail, and return it when they pass again.

A failed check of the node itself cordons it. When every such check has been ok for a while, the platform
lifts that cordon, which is its own; it never lifts a person's. A node that has returned too often lately
stays cordoned, since a fault that comes and goes is not repaired (decision 0016).
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F

from nodeagent.messages import Finding
from scheduler.models.events import Event
from scheduler.models.nodes import Node, NodeCheck, NodeState, Verdict
from scheduler.nodes.representations import publish_nodes
from scheduler.nodes.services.changes import change_node, cordon_node, node_event, node_locked, uncordon_node
from scheduler.wiring.clock import database_now
from scheduler.wiring.sweeps import for_each

ACTOR = "health"
#: The most checks of one node: more than any node has devices.
MOST_CHECKS = 200
_A_DAY = timedelta(days=1)


@transaction.atomic
def findings_apply(node: Node, findings: Sequence[Finding], *, at: datetime) -> None:
    """Record the results of all checks of a node; cordon it when one has newly failed."""
    node = node_locked(node)
    known = {check.name: check for check in node.checks.all()}
    found = {check.name: check for check in map(_check, findings[:MOST_CHECKS])}
    gone = known.keys() - found.keys()
    fresh = [check for name, check in found.items() if not _is_same(known.get(name), check)]
    if not fresh and not gone:
        return
    turned = []
    for check in fresh:
        before = known.get(check.name)
        check.node = node
        if before is not None and before.verdict == check.verdict:
            check.since = before.since
        else:
            check.since = at
            # A new check that is ok makes no event.
            if before is not None or check.verdict != Verdict.OK:
                turned.append(check)
    node.checks.filter(name__in=gone).delete()
    NodeCheck.objects.bulk_create(
        fresh,
        update_conflicts=True,
        unique_fields=["node", "name"],
        update_fields=["verdict", "message", "gpu", "since"],
    )
    Event.objects.bulk_create([_event(node, check, known.get(check.name), at=at) for check in turned])
    Node.objects.filter(id=node.id).update(version=F("version") + 1)
    publish_nodes([node.id])
    failed = [check for check in turned if check.verdict == Verdict.FAILED and check.gpu is None]
    if failed:
        _withdraw(node, "; ".join(f"{check.name}: {check.message}" for check in failed), at=at)


def _check(finding: Finding) -> NodeCheck:
    return NodeCheck(
        name=finding.name[:60],
        verdict=finding.verdict,
        message=finding.message[:300].replace("\0", " "),
        gpu=finding.gpu,
    )


def _is_same(known: NodeCheck | None, check: NodeCheck) -> bool:
    return known is not None and all(
        getattr(known, field) == getattr(check, field) for field in ("verdict", "message", "gpu")
    )


def _event(node: Node, check: NodeCheck, before: NodeCheck | None, *, at: datetime) -> Event:
    event = node_event(
        node,
        "node.check",
        at=at,
        actor=ACTOR,
        why=f"{check.name}: {check.message}" if check.message else check.name,
        data={"check": check.name, "gpu": check.gpu},
    )
    event.from_state, event.to_state = before.verdict if before is not None else "", check.verdict
    return event


def _withdraw(node: Node, why: str, *, at: datetime) -> None:
    if node.draining and not node.cordoned:
        # The actor that drains it gives it back, whatever checks say later; until then no job starts there.
        change_node(node, "node.cordoned", actor=ACTOR, why=why, cordoned=True)
        return
    if node.cordoned:
        return
    returns = Event.objects.filter(node_id=node.id, kind="node.returned", at__gte=at - _A_DAY).count()
    may_return = returns < settings.CONFIG.node_returns_per_day
    if not may_return:
        why = f"{why.rstrip('.')}. It returned {returns} times today already, and waits for an operator."
    cordon_node(node, actor=ACTOR, why=why, returns_itself=may_return)


def return_sound_nodes() -> None:
    """Uncordon the nodes that health cordoned and whose checks have all been ok for long enough."""
    withdrawn_nodes = Node.objects.filter(returns_itself=True, state=NodeState.READY).order_by("id")
    for_each("the return of node", withdrawn_nodes, _return_if_sound)


@transaction.atomic
def _return_if_sound(node: Node) -> None:
    node = node_locked(node)
    seconds = settings.CONFIG.node_return_seconds
    checks = node.checks.filter(gpu=None)
    is_ill = checks.exclude(verdict=Verdict.OK).exists()
    lately = database_now() - timedelta(seconds=seconds)
    if node.returns_itself and not is_ill and not checks.filter(since__gt=lately).exists():
        why = f"All its checks have been ok for {seconds:g} s."
        uncordon_node(node, "node.returned", actor=ACTOR, why=why)
