"""A lease does not end because the server itself did not answer."""

from datetime import timedelta

import pytest
from django.conf import settings

from scheduler.agents.services.leases import expire_leases, pulse
from scheduler.models import AgentService, Node
from scheduler.models.nodes import NodeState
from scheduler.models.selectors.nodes import served_since
from scheduler.wiring.clock import database_now
from tests.scheduler.builders import make_node

pytestmark = pytest.mark.django_db

LEASE = timedelta(seconds=settings.CONFIG.node_lease_seconds)
LONG = timedelta(seconds=100)


def silent_node(*, since: timedelta) -> Node:
    """A node that reported last before that time."""
    node = make_node(gpus=1)
    Node.objects.filter(id=node.id).update(lease_expires_at=database_now() - since + LEASE)
    return node


def last_pulse(ago: timedelta) -> None:
    AgentService.objects.update_or_create(id=1, defaults={"at": database_now() - ago})


def state(node: Node) -> str:
    node.refresh_from_db()
    return node.state


def test_no_node_is_lost_while_the_server_serves_no_agent():
    node = silent_node(since=LONG)
    last_pulse(ago=timedelta(seconds=50))
    expire_leases()
    assert state(node) == NodeState.READY


def test_leases_are_longer_by_the_time_in_which_the_server_did_not_answer():
    served = silent_node(since=timedelta(seconds=102))
    last_pulse(ago=LONG)
    assert pulse() == pytest.approx(100, abs=2)
    since = served_since()
    assert since is not None
    assert database_now() - since < timedelta(seconds=2)
    assert pulse() == 0
    assert served_since() == since
    expire_leases()
    assert state(served) == NodeState.READY
    # It had been silent for two seconds when the server fell silent, too.
    left = served.lease_expires_at - database_now()
    assert LEASE - timedelta(seconds=5) < left <= LEASE - timedelta(seconds=1)


def test_a_node_that_was_lost_before_the_server_fell_silent_gets_no_more_than_what_was_missed():
    node = silent_node(since=LONG + LEASE + timedelta(seconds=60))
    last_pulse(ago=LONG)
    pulse()
    expire_leases()
    assert state(node) == NodeState.LOST


def test_no_lease_becomes_longer_than_a_whole_one():
    node = silent_node(since=timedelta(seconds=1))
    last_pulse(ago=LONG)
    pulse()
    node.refresh_from_db()
    assert node.lease_expires_at <= database_now() + LEASE


def test_a_node_that_is_silent_beside_a_server_that_answers_is_lost():
    node = silent_node(since=LONG)
    last_pulse(ago=timedelta(seconds=1))
    assert pulse() == 0
    expire_leases()
    assert state(node) == NodeState.LOST
