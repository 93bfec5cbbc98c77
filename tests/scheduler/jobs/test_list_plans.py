"""Pages of the list of jobs are read from an index, so they cost the same however many jobs have ended."""

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.scheduler.builders import make_job
from tests.scheduler.conftest import World

pytestmark = pytest.mark.django_db

DAY = "2026-03-14T00:00:00Z"
NEXT = "2026-03-15T00:00:00Z"


def plan_of(world: World, query: str) -> str:
    """The plan of the list's own statement, where the planner reads whole tables only if it must."""
    now = timezone.now()
    for number in range(3):
        make_job(
            tenant=world.tenant, virtual_cluster=world.virtual_cluster, state="succeeded",
            columns={"started_at": now, "ended_at": now + timedelta(hours=number)},
        )  # fmt: skip
    with connection.cursor() as cursor, CaptureQueriesContext(connection) as captured:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("SET LOCAL enable_bitmapscan = off")
        assert world.operator.get(f"/jobs?{query}").status_code == 200
        (statement,) = (
            each["sql"] for each in captured.captured_queries if re.search(r"LIMIT 51\b", each["sql"])
        )
        cursor.execute(f"EXPLAIN {statement.replace('%', '%%')}")
        return "\n".join(row[0] for row in cursor.fetchall())


@pytest.mark.parametrize(
    ("sort", "index"),
    [
        ("submitted", "scheduler_job_pkey"),
        ("started", "job_by_start"),
        ("ended", "job_by_end"),
        ("name", "job_by_name"),
        ("gpus", "job_by_gpus"),
        ("priority", "job_by_priority"),
    ],
)
@pytest.mark.parametrize("sign", ["", "-"])
def test_no_order_of_the_list_sorts_all_jobs(world: World, sort: str, sign: str, index: str) -> None:
    plan = plan_of(world, f"sort={sign}{sort}")
    assert index in plan
    assert "Sort" not in plan


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (f"ended_since={DAY}&ended_until={NEXT}&sort=-ended", "job_by_end"),
        (f"started_since={DAY}&started_until={NEXT}&sort=started", "job_by_start"),
        (f"since={DAY}&sort=-ended", "job_by_end"),
    ],
)
def test_a_range_of_time_is_a_range_of_an_index(world: World, query: str, index: str) -> None:
    plan = plan_of(world, query)
    assert index in plan
    (condition,) = re.findall(r"Index Cond: (.*)", plan)
    assert "COALESCE" in condition
    assert "Sort" not in plan


def test_a_failure_is_found_by_its_index(world: World) -> None:
    assert "attempt_by_failure" in plan_of(world, "failure=import_error")
