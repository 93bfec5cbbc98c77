"""Nodes as an operator manages them. What an agent reports is in `agents.services.reports`."""

import re
from dataclasses import dataclass

from django.db import IntegrityError, transaction

from scheduler.core.model.lifecycle import PartState
from scheduler.models.attempts import AttemptPart
from scheduler.models.nodes import NODE_NAME, Node, NodeState
from scheduler.nodes.services.changes import (
    change_node,
    cordon_node,
    node_event,
    node_locked,
    record_node,
    uncordon_node,
)
from scheduler.wiring.clock import database_now
from scheduler.wiring.wakeups import request_round_on_commit
from tenants import tokens
from tenants.errors import Conflict, FieldError, Invalid

MAX_NODES = 20_000
#: Every report begins with this query, and the ORM would build it again each time.
_BY_TOKEN = "SELECT * FROM scheduler_node WHERE token_key = %s"


@dataclass(frozen=True, slots=True)
class NewToken:
    """A node and the token of its agent; the token's text is stored nowhere."""

    node: Node
    token: str


def node_of_token(text: str) -> Node | None:
    """Return the node that this token belongs to, or None."""
    parts = tokens.split(text, tokens.NODE_PREFIX)
    if parts is None:
        return None
    key, secret = parts
    node = next(iter(Node.objects.raw(_BY_TOKEN, [key])), None)
    if node is None or node.token_digest is None or not tokens.matches(secret, node.token_digest):
        return None
    return node


@transaction.atomic
def node_create(*, name: str, rack: str, actor: str) -> NewToken:
    """Expect a new node; its GPUs become known with its agent's first report."""
    _check_name("name", name)
    _check_name("rack", rack)
    if Node.objects.count() >= MAX_NODES:
        raise Conflict(f"There are already {MAX_NODES} nodes; remove some first.")
    secret = tokens.new_secret(tokens.NODE_PREFIX)
    try:
        with transaction.atomic():
            node = Node.objects.create(name=name, rack=rack, token_key=secret.key, token_digest=secret.digest)
    except IntegrityError:
        problem = FieldError("name", f"there is already a node {name!r}", "a name that is not taken")
        raise Conflict(f"There is already a node {name!r}.", [problem]) from None
    record_node(node, "node.created", actor=actor)
    return NewToken(node, secret.text)


@transaction.atomic
def node_change(*, node: Node, cordoned: bool | None, rack: str | None, actor: str, why: str = "") -> None:
    """Cordon or uncordon a node, or record that it stands in another rack. Its jobs stay.

    Cordoning a node that a health check cordoned takes it over: it no longer returns automatically.
    """
    node = node_locked(node)
    if rack is not None and rack != node.rack:
        _check_name("rack", rack)
        change_node(node, "node.moved", actor=actor, why=f"from {node.rack} to {rack}", rack=rack)
    if cordoned is True and (not node.cordoned or node.returns_itself):
        cordon_node(node, actor=actor, why=why)
    if cordoned is False and (node.cordoned or node.draining):
        uncordon_node(node, "node.uncordoned", actor=actor, why=why)


@transaction.atomic
def node_token_rotate(*, node: Node, actor: str) -> NewToken:
    """Give the node a new token; the old one stops working at once."""
    secret = tokens.new_secret(tokens.NODE_PREFIX)
    node = node_locked(node)
    change_node(node, "node.token", actor=actor, token_key=secret.key, token_digest=secret.digest)
    return NewToken(node, secret.text)


@transaction.atomic
def node_remove(*, node: Node, actor: str) -> None:
    """Delete a node that never ran a job; history needs the others, which can be cordoned."""
    node = node_locked(node)
    if AttemptPart.objects.filter(node=node).exclude(state=PartState.EXITED).exists():
        raise Conflict(f"Node {node.name} still runs jobs; drain it first.")
    if node.state == NodeState.READY:
        raise Conflict(f"The agent of node {node.name} still reports; stop it first.")
    if AttemptPart.objects.filter(node=node).exists():
        raise Conflict(f"Node {node.name} has jobs in its history; leave it cordoned instead.")
    node_event(node, "node.removed", at=database_now(), actor=actor, why=f"Was {node.name}.").save()
    node.delete()
    request_round_on_commit()


def _check_name(field: str, value: str) -> None:
    if not re.fullmatch(NODE_NAME.regex, value):
        problem = f"{value[:80]!r} cannot be used"
        expected = "1 to 63 lower-case letters, digits, '.' and '-', with a letter or digit at both ends"
        raise Invalid.of(FieldError(field, problem, expected))
