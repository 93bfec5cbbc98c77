"""Cancelling many jobs at once: which, by whom, how many first, and how quickly."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler.models import Event, Job
from tests.api.caller import Caller, is_error
from tests.scheduler.builders import gpus_of, make_attempt, make_job
from tests.scheduler.conftest import World, spec


def cancel(caller: Caller, dry_run: bool = False, most: int | None = None, **chosen: str) -> dict:
    answer = caller.post("/jobs/cancel", {"filter": chosen, "dry_run": dry_run, "most": most})
    assert answer.status_code == 200, answer.content
    return answer.json()


def test_what_matches_is_counted_first_and_then_cancelled(world: World) -> None:
    posted = [
        world.member.post("/jobs", spec(name=name, labels={"sweep": sweep})).json()
        for name, sweep in (("a", "1"), ("a", "2"), ("b", "1"))
    ]
    ids = [job["id"] for job in posted]
    running = Job.objects.get(id=ids[0])
    make_attempt(running, gpus_of(world.node)[:1])
    counted = cancel(world.member, dry_run=True, label="sweep=1")
    assert counted == {"jobs": 2, "remaining": 0, "queued": 1, "running": 1}
    assert not Event.objects.filter(kind__startswith="job.cancel").exists()
    assert cancel(world.member, label="sweep=1", most=2)["jobs"] == 2
    running.refresh_from_db()
    assert (running.state, running.cancelling) == ("running", True)
    waiting = Job.objects.get(id=ids[2])
    assert (waiting.state, waiting.ended_at is not None, waiting.version) == ("cancelled", True, 2)
    event = Event.objects.get(kind="job.cancelled", job_id=ids[2])
    assert (event.actor, event.from_state, event.to_state) == ("user mia", "queued", "cancelled")
    # What is over, or being cancelled, is not cancelled again.
    assert cancel(world.member, label="sweep")["jobs"] == 1


@pytest.mark.parametrize(
    ("chosen", "met"),
    [
        ({"state": "queued"}, 3),
        ({"virtual_cluster": "research", "name": "first"}, 1),
        ({"q": "ir"}, 2),
        ({"submitted_by": "nobody"}, 0),
        ({"tenant": "vision"}, 3),
        ({"label": "none"}, 0),
    ],
)
def test_every_filter_of_the_list_chooses(world: World, chosen: dict, met: int) -> None:
    for name in ("first", "third", "second"):
        make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster, name=name)
    assert cancel(world.member, dry_run=True, **chosen)["jobs"] == met
    assert cancel(world.member, **chosen)["jobs"] == met


def test_jobs_are_chosen_by_their_numbers(world: World) -> None:
    first, second, _ = (make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster) for _ in "abc")
    assert cancel(world.member, id=f"{first.id},{second.id}")["jobs"] == 2
    assert len(world.member.get(f"/jobs?id={first.id},{second.id}").json()["results"]) == 2


def test_only_jobs_that_one_may_cancel_are(world: World) -> None:
    theirs = make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster)
    assert cancel(world.stranger, state="queued")["jobs"] == 0
    is_error(world.stranger.post("/jobs/cancel", {"filter": {"tenant": "vision"}}), 404, "not_found")
    is_error(world.viewer.post("/jobs/cancel", {"filter": {"state": "queued"}}), 403, "not_allowed")
    theirs.refresh_from_db()
    assert theirs.state == "queued"
    assert cancel(world.operator, state="queued")["jobs"] == 1


@pytest.mark.parametrize(
    ("chosen", "field"),
    [
        ({}, "filter"),
        ({"stat": "queued"}, "filter.stat"),
        ({"state": "waiting"}, "filter.state"),
        ({"id": "1,x"}, "filter.id"),
    ],
)
def test_a_filter_that_says_something_else_cancels_nothing(world: World, chosen: dict, field: str) -> None:
    job = make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster)
    body = is_error(world.member.post("/jobs/cancel", {"filter": chosen}), 400, "invalid")
    assert body["fields"][0]["field"] == field
    job.refresh_from_db()
    assert job.state == "queued"


def test_more_than_was_counted_is_refused(world: World) -> None:
    for _ in range(2):
        make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster)
    body = {"filter": {"state": "queued"}, "most": 1}
    is_error(world.member.post("/jobs/cancel", body), 409, "conflict")
    assert Job.objects.filter(state="queued").count() == 2


def test_two_thousand_waiting_jobs_go_in_a_few_statements(world: World) -> None:
    """One by one they took a minute."""
    for _ in range(2):
        assert world.member.post("/jobs/bulk", {"jobs": [spec()] * 1_000}).status_code == 201
    with CaptureQueriesContext(connection) as captured:
        assert cancel(world.member, state="queued")["jobs"] == 2_000
    assert len(captured) < 100, len(captured)
    assert Event.objects.filter(kind="job.cancelled").count() == 2_000
