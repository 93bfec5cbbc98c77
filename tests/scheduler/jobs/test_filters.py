"""Jobs by when they were there, by failure, by whom: filters that the list, counts and bulk actions share."""

import csv
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from scheduler.core.model.lifecycle import AttemptState, HoldPhase, Outcome, PartState
from scheduler.models import Attempt, Job
from tenants.models import User
from tests.api.caller import is_error
from tests.scheduler.builders import gpus_of, make_attempt, make_failed_attempt, make_job, make_node
from tests.scheduler.conftest import World

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 3, 14, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def lived(world: World, begins: int, starts: int | None, ends: int | None, **more: Any) -> int:
    """A job that was submitted, started and ended so many hours after noon; None: not yet."""
    state = "queued" if starts is None else "running" if ends is None else "succeeded"
    times = {
        "started_at": None if starts is None else NOON + starts * HOUR,
        "ended_at": None if ends is None else NOON + ends * HOUR,
    }
    submitted_at = NOON + begins * HOUR
    return make_job(tenant=world.tenant, state=state, submitted_at=submitted_at, columns=times, **more).id


def found(world: World, query: str) -> list[int]:
    answer = world.member.get(f"/jobs?{query}")
    assert answer.status_code == 200, answer.content
    counted = world.member.get(f"/jobs/counts?{query}").json()
    ids = [job["id"] for job in answer.json()["results"]]
    assert sum(counted.values()) == len(ids)
    return sorted(ids)


def at(hours: int) -> str:
    return f"{NOON + hours * HOUR:%Y-%m-%dT%H:%M:%SZ}"


def test_times_say_when_a_job_was_there(world: World) -> None:
    early, long = lived(world, 0, 1, 2), lived(world, 0, 2, 9)
    late, runs, waits = lived(world, 5, 6, 7), lived(world, 5, 6, None), lived(world, 8, None, None)
    assert found(world, f"since={at(3)}") == [long, late, runs, waits]
    assert found(world, f"since={at(3)}&until={at(5)}") == [long]
    # Each range has its first instant and not its last one, so that ranges beside each other share none.
    assert found(world, f"since={at(2)}&until={at(1)}") == [early, long]
    assert found(world, f"submitted_since={at(5)}&submitted_until={at(8)}") == [late, runs]
    assert found(world, f"started_since={at(2)}&started_until={at(6)}") == [long]
    assert found(world, f"ended_since={at(2)}&ended_until={at(9)}") == [early, late]
    assert found(world, f"ended_since={at(7)}&state=succeeded") == [long, late]


def test_a_failure_class_finds_jobs_by_any_of_their_attempts(world: World) -> None:
    gpus = gpus_of(world.node)[:1]
    job = make_job(tenant=world.tenant, state="failed")
    make_failed_attempt(job, gpus, failure="import_error")
    make_failed_attempt(make_job(tenant=world.tenant, state="failed"), gpus, failure="out_of_memory")
    again = make_job(tenant=world.tenant)
    make_failed_attempt(again, gpus, failure="import_error")
    make_failed_attempt(again, gpus, failure="node_failure")
    assert Attempt.objects.count() == 4
    assert found(world, "failure=import_error") == [job.id, again.id]
    assert found(world, "failure=import_error&state=failed") == [job.id]


def test_the_person_and_a_label_narrow_a_range(world: World) -> None:
    mia = User.objects.get(username="mia")
    mine = lived(world, 0, 1, 2, submitted_by=mia, labels={"sweep": "3"})
    lived(world, 0, 1, 2, labels={"sweep": "3"})
    lived(world, 0, 1, 2, submitted_by=mia)
    assert found(world, f"submitted_by=mia&label=sweep=3&since={at(0)}") == [mine]


def test_jobs_under_a_range_are_cancelled_together(world: World) -> None:
    old, new = lived(world, 0, None, None), lived(world, 5, None, None)
    answer = world.member.post("/jobs/actions", {"action": "cancel", "filter": {"submitted_until": at(3)}})
    assert answer.json()["jobs"] == 1
    assert dict(Job.objects.values_list("id", "state")) == {old: "cancelled", new: "queued"}


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("submitted", ["old", "wide", "new", "last"]),
        ("-submitted", ["last", "new", "wide", "old"]),
        ("name", ["last", "new", "old", "wide"]),
        ("-gpus", ["wide", "last", "new", "old"]),
        ("gpus", ["old", "new", "last", "wide"]),
        ("-priority", ["new", "last", "wide", "old"]),
        # What has not started, or ended, comes as if it did last.
        ("started", ["wide", "old", "new", "last"]),
        ("-ended", ["last", "new", "old", "wide"]),
    ],
)
def test_the_list_is_sorted_page_by_page(world: World, sort: str, order: list[str]) -> None:
    lived(world, 0, 3, 9, name="old")
    lived(world, 1, 2, 4, name="wide", gpus=4)
    lived(world, 5, 6, None, name="new", priority=5)
    lived(world, 8, None, None, name="last")
    names, link = list[str](), f"/jobs?sort={sort}&page_size=1"
    pages = 0
    while link:
        page = world.member.get(link.removeprefix("/api/v1")).json()
        names += [job["name"] for job in page["results"]]
        link, pages = page["next"], pages + 1
    assert (names, pages) == (order, 4)
    back = world.member.get(page["previous"].removeprefix("/api/v1")).json()
    assert [job["name"] for job in back["results"]] == [order[2]]


@pytest.mark.parametrize(
    "query",
    [
        "sort=age",
        "sort=-age",
        "sort=-ended&cursor=after.yesterday~3",
        "sort=-started&cursor=after.0001-01-01T00:00:00%2B23:59~1",
        "sort=ended&cursor=after.9999-12-31T23:59:59-23:59~1",
    ],
)
def test_what_is_no_order_is_refused(world: World, query: str) -> None:
    field = is_error(world.member.get(f"/jobs?{query}"), 400, "invalid")["fields"][0]["field"]
    assert field == ("cursor" if "cursor" in query else "sort")
    # Counts have no order.
    is_error(world.member.get("/jobs/counts?sort=name"), 400, "invalid")


def test_the_jobs_of_a_node_are_those_that_run_there_or_will(world: World) -> None:
    here, there = gpus_of(world.node)[:2], gpus_of(make_node("node-b", gpus=4))
    runs, comes, left, elsewhere = (make_job(tenant=world.tenant) for _ in range(4))
    make_attempt(runs, here[:1])
    make_attempt(comes, here[:1], state=AttemptState.PLANNED, phase=HoldPhase.NOMINATED)
    make_attempt(
        left, here[1:], state=AttemptState.ENDED, outcome=Outcome.SUCCEEDED, phase=HoldPhase.RELEASED
    )
    make_attempt(elsewhere, there[:1])
    # Of a gang, this node's part is over.
    gone = make_attempt(make_job(tenant=world.tenant), there[1:2])
    gone.parts.update(state=PartState.EXITED)
    by_node = {
        node: [job["id"] for job in world.member.get(f"/jobs?node={node}").json()["results"]]
        for node in ("node-a", "node-b", "node-c")
    }
    assert by_node == {"node-a": [comes.id, runs.id], "node-b": [elsewhere.id], "node-c": []}
    assert world.stranger.get("/jobs?node=node-a").json()["results"] == []


def test_the_export_has_the_jobs_of_the_list(world: World) -> None:
    first = lived(world, 0, 1, 2, name="=cmd()", labels={"sweep": "3"})
    second = lived(world, 3, None, None, labels={"sweep": "3"})
    lived(world, 3, None, None)
    answer = world.member.get("/jobs/export?label=sweep")
    assert answer["Content-Type"].startswith("text/csv")
    rows = list(csv.DictReader(answer.content.decode().splitlines()))
    assert [int(row["id"]) for row in rows] == [first, second]
    assert rows[0]["name"] == "'=cmd()"
    assert (rows[0]["state"], rows[1]["state"]) == ("succeeded", "queued")
    assert json.loads(rows[0]["labels"]) == {"sweep": "3"}


@pytest.mark.parametrize(
    "query", ["since=yesterday", "ended_since=1h", "started_until=", "since=0001-01-01T00:00:00Z"]
)
def test_what_is_no_instant_is_refused_or_says_nothing(world: World, query: str) -> None:
    answer = world.member.get(f"/jobs?{query}")
    if query.endswith("="):
        assert answer.status_code == 200
    else:
        assert is_error(answer, 400, "invalid")["fields"][0]["field"] == query.partition("=")[0]
