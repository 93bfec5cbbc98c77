"""What reports and watches read of an attempt that has written lines for weeks."""

import json
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from nodeagent.messages import PROTOCOL, PartReport, ProgressLine, Report
from scheduler.agents.services.reports import report_apply
from scheduler.jobs.attempts.services.hang_detection import watch_jobs
from scheduler.models import Attempt, Node, ProgressPoint
from scheduler.wiring.clock import database_now
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_node

pytestmark = pytest.mark.django_db

LINES = 5_000
#: Less than a hundredth part of the lines, and more than a minute has.
FEW = 40


def writes_for_long(node: Node) -> Attempt:
    """An attempt that wrote a line every five seconds until now, and is watched."""
    now = database_now()
    job = make_job()
    job.spec["watch"] = {"silent": 3_600, "then": "stop"}
    job.save()
    began = now - timedelta(seconds=5 * LINES)
    attempt = make_attempt(job, gpus_of(node), state="running", running_at=began)
    ProgressPoint.objects.bulk_create(
        ProgressPoint(
            attempt=attempt,
            sequence=sequence,
            at=began + timedelta(seconds=5 * sequence),
            step=sequence,
            samples=float(10 * sequence),
        )
        for sequence in range(1, LINES)
    )
    Attempt.objects.filter(id=attempt.id).update(step=LINES - 1, measured_at=now - timedelta(seconds=30))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE scheduler_progresspoint")
    return attempt


def lines_read(queries: CaptureQueriesContext) -> int:
    """Return the most lines that one of the queries reads, those that it passes over included."""
    read = [0]
    for query in queries:
        if query["sql"].startswith("SELECT") and "scheduler_progresspoint" in query["sql"]:
            with connection.cursor() as cursor:
                cursor.execute("EXPLAIN (ANALYZE, FORMAT JSON) " + query["sql"])
                plan = cursor.fetchone()[0]
            read.append(_read_in(json.loads(plan) if isinstance(plan, str) else plan))
    assert len(read) > 1, "no query read lines"
    return max(read)


def _read_in(plan: object) -> int:
    if isinstance(plan, list):
        return sum(map(_read_in, plan))
    if not isinstance(plan, dict):
        return 0
    own = 0
    if plan.get("Relation Name") == "scheduler_progresspoint" or "progress" in plan.get("Index Name", ""):
        own = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)
    return int(own) + sum(_read_in(each) for each in (plan.get("Plans", []), plan.get("Plan")))


def test_a_report_reads_as_few_lines_however_long_the_attempt_has_run() -> None:
    node = make_node(gpus=1)
    attempt = writes_for_long(node)
    line = ProgressLine(
        sequence=LINES, at=database_now().timestamp(), step=LINES, samples=10.0 * LINES, values={}
    )
    part = PartReport(attempt=attempt.id, state="running", progress=(line,))
    with CaptureQueriesContext(connection) as queries:
        report_apply(node, Report(protocol=PROTOCOL, boot=node.boot, generation=0, parts=(part,)))
    attempt.refresh_from_db()
    assert attempt.throughput == pytest.approx(2.0, rel=0.2)
    assert lines_read(queries) <= FEW


def test_a_watch_for_silence_reads_the_newest_line_alone() -> None:
    writes_for_long(make_node(gpus=1))
    with CaptureQueriesContext(connection) as queries:
        watch_jobs()
    assert lines_read(queries) <= FEW
