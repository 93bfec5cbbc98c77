"""Draining: what runs on the node is stopped, what was only planned there ends, the rest is left alone."""

import threading

import pytest
from django.db import connection, transaction

from scheduler.agents.services.draining import node_drain
from scheduler.models import Job, Node
from tests.api.caller import caller
from tests.patience import PATIENCE_SECONDS, until
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_node, make_user

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


@pytest.mark.django_db(transaction=True)
def test_a_drain_that_waits_for_a_job_holds_no_node() -> None:
    """Rounds lock jobs, then nodes. A drain with an Idempotency-Key used to lock the other way round."""
    node, job = make_node(gpus=1), make_job()
    make_attempt(job, gpus_of(node))
    operator = caller(make_user(operator=True))
    answers = []

    def drain() -> None:
        try:
            path, headers = f"/nodes/{node.name}/drain", {"Idempotency-Key": "drain-1"}
            answers.extend([operator.post(path, {}, headers=headers) for _ in range(2)])
        finally:
            connection.close()

    thread = threading.Thread(target=drain)
    with transaction.atomic():
        Job.objects.select_for_update(no_key=True).get(id=job.id)
        thread.start()
        until(is_waiting_for_lock)
        assert Node.objects.select_for_update(no_key=True, nowait=True).get(id=node.id).draining
    thread.join(PATIENCE_SECONDS)
    assert [answer.status_code for answer in answers] == [200, 200]
    assert "Idempotency-Replayed" not in answers[0].headers
    assert answers[1].headers["Idempotency-Replayed"] == "true"
    assert answers[0].json() == answers[1].json()


def is_waiting_for_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT EXISTS (SELECT 1 FROM pg_locks WHERE NOT granted)")
        return bool(cursor.fetchone()[0])
