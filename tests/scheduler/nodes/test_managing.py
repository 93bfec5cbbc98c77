"""Draining: what runs on the node is stopped, what was only planned there ends, the rest is left alone."""

import pytest

from scheduler.agents.services.draining import node_drain
from scheduler.models import Job
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_node

pytestmark = pytest.mark.django_db


def test_drain_stops_live_attempts_and_ends_planned_ones() -> None:
    drained, other = make_node(gpus=4), make_node(gpus=4)
    gang = make_attempt(make_job(gpus=4, replicas=2), gpus_of(drained, other))
    elsewhere = make_attempt(make_job(), gpus_of(make_node(gpus=1)))
    planned_job = make_job(gpus=2)
    planned = make_attempt(planned_job, gpus_of(drained)[:2], state="planned", phase="planned")

    node_drain(node=drained, actor="user olga")

    for attempt in (gang, elsewhere, planned):
        attempt.refresh_from_db()
    assert (gang.state, gang.stop_cause) == ("stopping", "drained")
    assert drained.name in gang.stop_message
    assert (planned.state, planned.outcome) == ("ended", "preempted")
    assert Job.objects.get(id=planned_job.id).state == "queued"
    assert elsewhere.state == "running"


def test_draining_again_changes_nothing() -> None:
    node = make_node(gpus=1)
    node_drain(node=node, actor="user olga")
    node.refresh_from_db()
    version = node.version
    node_drain(node=node, actor="user olga")
    node.refresh_from_db()
    assert (node.version, node.cordoned, node.draining) == (version, True, True)
