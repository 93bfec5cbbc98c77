"""Changing many jobs at once: which, by whom, how many first, and how quickly."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler.jobs.services import actions
from scheduler.jobs.services.control import job_hold
from scheduler.models import Event, Job
from tenants.errors import Conflict
from tests.api.caller import Caller, is_error
from tests.scheduler.builders import gpus_of, make_attempt, make_job
from tests.scheduler.conftest import World, spec


def cancel(caller: Caller, dry_run: bool = False, most: int | None = None, **chosen: str) -> dict:
    answer = caller.post(
        "/jobs/actions", {"action": "cancel", "filter": chosen, "dry_run": dry_run, "most": most}
    )
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
    assert counted == {"jobs": 2, "remaining": 0, "refused": [], "queued": 1, "running": 1}
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
    is_error(
        world.stranger.post("/jobs/actions", {"action": "cancel", "filter": {"tenant": "vision"}}),
        404,
        "not_found",
    )
    is_error(
        world.viewer.post("/jobs/actions", {"action": "cancel", "filter": {"state": "queued"}}),
        403,
        "not_allowed",
    )
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
    body = is_error(
        world.member.post("/jobs/actions", {"action": "cancel", "filter": chosen}), 400, "invalid"
    )
    assert body["fields"][0]["field"] == field
    job.refresh_from_db()
    assert job.state == "queued"


def test_more_than_was_counted_is_refused(world: World) -> None:
    for _ in range(2):
        make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster)
    body = {"action": "cancel", "filter": {"state": "queued"}, "most": 1}
    is_error(world.member.post("/jobs/actions", body), 409, "conflict")
    assert Job.objects.filter(state="queued").count() == 2


def test_two_thousand_waiting_jobs_go_in_a_few_statements(world: World) -> None:
    """One by one they took a minute."""
    for _ in range(2):
        assert world.member.post("/jobs/bulk", {"jobs": [spec()] * 1_000}).status_code == 201
    with CaptureQueriesContext(connection) as captured:
        assert cancel(world.member, state="queued")["jobs"] == 2_000
    assert len(captured) < 100, len(captured)
    assert Event.objects.filter(kind="job.cancelled").count() == 2_000


def act(caller: Caller, action: str, most: int | None = None, **given: Any) -> dict[str, Any]:
    chosen = given.pop("filter", {"state": "queued,running"})
    answer = caller.post("/jobs/actions", {"action": action, "filter": chosen, "most": most, **given})
    assert answer.status_code == 200, answer.content
    body: dict[str, Any] = answer.json()
    return body


def test_many_are_held_and_released(world: World) -> None:
    jobs = [make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster) for _ in range(3)]
    running = jobs[0]
    make_attempt(running, gpus_of(world.node)[:1])
    assert act(world.member, "hold", dry_run=True)["jobs"] == 2
    assert act(world.member, "hold")["jobs"] == 2
    assert act(world.member, "hold")["jobs"] == 0
    assert Job.objects.filter(held=True).count() == 2
    assert act(world.member, "release")["jobs"] == 2
    assert not Job.objects.filter(held=True).exists()


def test_those_that_run_are_requeued(world: World) -> None:
    waiting, running = (make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster) for _ in "ab")
    attempt = make_attempt(running, gpus_of(world.node)[:1])
    assert act(world.member, "requeue")["jobs"] == 1
    attempt.refresh_from_db()
    assert (attempt.state, attempt.stop_cause) == ("stopping", "preempted")
    # It stops already, and the other one waits.
    assert act(world.member, "requeue")["jobs"] == 0
    waiting.refresh_from_db()
    assert waiting.version == 1


def test_labels_are_set_and_removed_one_by_one(world: World) -> None:
    first, second = (
        world.member.post("/jobs", spec(labels=labels)).json()["id"]
        for labels in ({"sweep": "1", "kept": "x"}, {"sweep": "2"})
    )
    changes = {"labels": {"sweep": None, "paper": "osdi"}, "priority": 7}
    assert act(world.member, "update", **changes)["jobs"] == 2
    assert act(world.member, "update", **changes)["jobs"] == 0
    labels = dict(Job.objects.values_list("id", "labels"))
    assert labels == {first: {"kept": "x", "paper": "osdi"}, second: {"paper": "osdi"}}
    assert set(Job.objects.values_list("priority", flat=True)) == {7}
    assert Event.objects.filter(kind="job.changed").count() == 2


@pytest.mark.parametrize(
    ("action", "given", "field"),
    [
        ("update", {}, "priority"),
        ("hold", {"priority": 3}, "priority"),
        ("cancel", {"labels": {"a": "b"}}, "labels"),
        ("update", {"priority": 10_000}, "priority"),
        ("update", {"labels": {"no spaces": "x"}}, "labels"),
        ("stop", {}, "action"),
    ],
)
def test_an_action_that_is_wrong_changes_nothing(
    world: World, action: str, given: dict[str, Any], field: str
) -> None:
    job = make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster)
    body = {"action": action, "filter": {"state": "queued"}, **given}
    refused = is_error(world.member.post("/jobs/actions", body), 400, "invalid")
    assert refused["fields"][0]["field"].startswith(field)
    job.refresh_from_db()
    assert job.version == 1


def test_what_can_not_be_changed_is_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request changes only some jobs; asked again, it goes on."""
    monkeypatch.setattr(actions, "MOST_AT_ONCE", 2)
    jobs = [make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster) for _ in range(3)]

    def hold(*, job_id: int, actor: str) -> None:
        """Where a job begins to run after it was chosen."""
        if job_id == jobs[0].id:
            raise Conflict(f"Job {job_id} is running; only a waiting job can be held.")
        job_hold(job_id=job_id, actor=actor)

    monkeypatch.setattr(actions, "job_hold", hold)
    outcome = act(world.member, "hold")
    assert (outcome["jobs"], outcome["remaining"]) == (1, 1)
    assert outcome["refused"] == [
        {"job": jobs[0].id, "message": f"Job {jobs[0].id} is running; only a waiting job can be held."}
    ]
    assert act(world.member, "hold")["jobs"] == 1
