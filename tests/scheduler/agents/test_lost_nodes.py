"""Nodes that stop reporting: what ran there ends once and nowhere twice, and others wait for nothing."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from nodeagent.messages import PartReport
from scheduler.agents.services import leases
from scheduler.agents.services.leases import expire_leases
from scheduler.jobs.attempts.services import lifecycle
from scheduler.models import Node
from tests.patience import PATIENCE_SECONDS, until
from tests.scheduler.agents.test_reports import exited, gang, report
from tests.scheduler.builders import make_node

pytestmark = pytest.mark.django_db

LEASE = timedelta(seconds=settings.CONFIG.node_lease_seconds)


def silent(node: Node, seconds: float = 3_600) -> None:
    Node.objects.filter(id=node.id).update(lease_expires_at=timezone.now() - timedelta(seconds=seconds))


def test_a_silent_node_is_lost_its_job_queued_and_its_gpus_given_back():
    (left, right), attempt = gang()
    for node in (left, right):
        report(node, PartReport(attempt=attempt.id, state="running"))
    silent(left)
    expire_leases()
    left.refresh_from_db()
    assert left.state == "lost"
    (part,) = report(right).parts
    assert part.stop
    report(right, exited(attempt, code=143, category="stopped"))
    attempt.refresh_from_db()
    attempt.job.refresh_from_db()
    assert (attempt.outcome, attempt.job.state) == ("lost", "queued")
    assert attempt.allocation.gpus.exclude(phase="released").count() == 0


@pytest.mark.parametrize(("state", "exit_code"), [("ready", None), ("running", 137)])
def test_what_never_ran_on_a_lost_node_has_no_exit_code(state, exit_code):
    (node,), attempt = gang(replicas=1)
    report(node, PartReport(attempt=attempt.id, state=state))
    silent(node)
    expire_leases()
    assert attempt.parts.get().exit_code == exit_code
    attempt.refresh_from_db()
    assert (attempt.outcome, attempt.exit_code) == ("lost", exit_code)


def test_a_lease_that_just_ended_is_given_its_margin():
    node = make_node(gpus=1)
    silent(node, seconds=1)
    expire_leases()
    node.refresh_from_db()
    assert node.state == "ready"


def test_a_lost_node_that_reports_again_is_ready_and_told_to_run_nothing_of_the_past():
    (node,), attempt = gang(replicas=1)
    silent(node)
    expire_leases()
    answer = report(node, PartReport(attempt=attempt.id, state="running"))
    assert answer.parts == ()
    node.refresh_from_db()
    assert node.state == "ready"
    attempt.job.refresh_from_db()
    assert attempt.job.state == "queued"


def test_a_node_that_reports_while_lost_nodes_are_swept_keeps_what_it_runs(monkeypatch):
    (silent_node,), lost = gang(replicas=1)
    (late_node,), kept = gang(replicas=1)
    silent(silent_node)
    silent(late_node)
    ended = []

    def part_exited(part, **how):
        if not ended:
            report(late_node, PartReport(attempt=kept.id, state="running"))
        ended.append(part.attempt_id)
        lifecycle.part_exited(part, **how)

    monkeypatch.setattr(leases, "part_exited", part_exited)
    expire_leases()
    assert ended == [lost.id]
    kept.refresh_from_db()
    assert kept.state == "running"


def test_nodes_that_stay_lost_cost_no_queries_of_their_own():
    def queries():
        with CaptureQueriesContext(connection) as captured:
            expire_leases()
        return len(captured)

    without = queries()
    for _ in range(3):
        silent(make_node(gpus=1))
    expire_leases()
    assert Node.objects.filter(state="lost").count() == 3
    assert queries() == without


def test_a_report_between_the_renewal_of_a_lost_nodes_lease_and_its_return_keeps_what_it_runs():
    (node,), attempt = gang(replicas=1)
    silent(node)
    Node.objects.filter(id=node.id).update(state="lost", lease_expires_at=timezone.now() + LEASE)
    expire_leases()
    attempt.refresh_from_db()
    assert attempt.state == "starting"


@pytest.mark.django_db(transaction=True)
def test_a_lost_node_that_reports_while_its_part_is_ended_is_told_so(monkeypatch):
    """Otherwise what it runs would go on beside the attempt that follows it on another node."""
    (node,), attempt = gang(replicas=1)
    report(node, PartReport(attempt=attempt.id, state="running"))
    silent(node)
    with ThreadPoolExecutor() as agent:
        answers = []

        def report_meanwhile():
            try:
                return report(node, PartReport(attempt=attempt.id, state="running"))
            finally:
                connection.close()

        def part_exited(part, **how):
            answers.append(agent.submit(report_meanwhile))
            until(lambda: answers[0].done() or is_any_waiting_for_a_lock())
            lifecycle.part_exited(part, **how)

        monkeypatch.setattr(leases, "part_exited", part_exited)
        expire_leases()
        (answer,) = answers
        assert answer.result(PATIENCE_SECONDS).parts == ()
    attempt.refresh_from_db()
    assert (attempt.state, attempt.outcome) == ("ended", "lost")


def is_any_waiting_for_a_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT EXISTS (SELECT 1 FROM pg_locks WHERE NOT granted)")
        return bool(cursor.fetchone()[0])


def test_a_part_that_cannot_be_ended_keeps_no_other_from_it(monkeypatch):
    (first_node,), broken = gang(replicas=1)
    (second_node,), other = gang(replicas=1)
    silent(first_node)
    silent(second_node)

    def part_exited(part, **how):
        if part.attempt_id == broken.id:
            raise ZeroDivisionError
        lifecycle.part_exited(part, **how)

    monkeypatch.setattr(leases, "part_exited", part_exited)
    expire_leases()
    other.refresh_from_db()
    assert (other.state, other.outcome) == ("ended", "lost")
