"""Reading jobs and acting on them."""

from datetime import timedelta
from itertools import pairwise

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from scheduler.jobs import representations as job_representations
from scheduler.models import Event, Explanation, Job, LogChunk, ProgressPoint, QueueOrder
from scheduler.rounds.run import run_round
from tests.api.caller import is_error
from tests.scheduler.builders import gpus_of, make_attempt, make_job
from tests.scheduler.conftest import World, spec

REASON = {
    "code": "no_idle_gpus",
    "tier": "capacity",
    "message": "All are in use.",
    "blocking": {},
    "needed": 1,
    "available": 0,
    "hint": "",
}


def job_of(world: World, **arguments: object) -> Job:
    return make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster, **arguments)


def test_jobs_are_seen_by_members_and_operators_only(world: World) -> None:
    job = job_of(world)
    for who in (world.member, world.viewer, world.operator):
        assert [one["id"] for one in who.get("/jobs").json()["results"]] == [job.id]
        assert who.get(f"/jobs/{job.id}").status_code == 200
    assert world.stranger.get("/jobs").json()["results"] == []
    for path in ("", "/attempts", "/events", "/logs", "/progress", "/why"):
        is_error(world.stranger.get(f"/jobs/{job.id}{path}"), 404, "not_found")
        assert world.viewer.get(f"/jobs/{job.id}{path}").status_code == 200
    is_error(world.member.get("/jobs/99999999999999999999"), 404, "not_found")


@pytest.mark.parametrize("action", ["cancel", "hold", "release"])
def test_viewers_change_nothing_and_strangers_find_nothing(world: World, action: str) -> None:
    job = job_of(world)
    is_error(world.viewer.post(f"/jobs/{job.id}/{action}"), 403, "not_allowed")
    is_error(world.stranger.post(f"/jobs/{job.id}/{action}"), 404, "not_found")
    assert Job.objects.get(id=job.id).version == 1


def test_a_running_job_shows_where_it_runs(world: World) -> None:
    job = job_of(world, gpus=2, replicas=2)
    make_attempt(job, gpus_of(world.node)[:4], throughput=12.5, step=7, total_steps=100)

    body = world.member.get(f"/jobs/{job.id}").json()
    assert (body["state"], body["phase"]) == ("running", "running")
    (part,) = body["attempt"]["placement"]
    assert (part["node"], part["ranks"]) == ("node-a", [0, 1])
    assert [gpu["index"] for gpu in part["gpus"]] == [0, 1, 2, 3]
    assert body["attempt"]["step"] == 7
    attempts = world.member.get(f"/jobs/{job.id}/attempts").json()["results"]
    assert attempts == [body["attempt"]]


def test_a_job_being_moved_shows_what_still_runs(world: World) -> None:
    job = job_of(world)
    gpus = gpus_of(world.node)
    make_attempt(job, gpus[:1], state="stopping")
    make_attempt(job, gpus[1:2], state="planned", phase="planned")
    body = world.member.get(f"/jobs/{job.id}").json()
    assert (body["phase"], body["attempt"]["number"]) == ("stopping", 1)


def test_a_waiting_job_says_why_and_where_it_stands(world: World) -> None:
    first, second = job_of(world), job_of(world)
    for job in (first, second):
        Explanation.objects.create(
            job=job, reasons=[REASON], digest="x", round_number=3, decided_at=timezone.now()
        )
    QueueOrder.objects.create(view="research", jobs=[first.id, second.id], round_number=3)

    body = world.member.get(f"/jobs/{second.id}").json()
    assert (body["position"], body["reasons"]) == (2, [REASON])
    why = world.member.get(f"/jobs/{second.id}/why").json()
    assert (why["position"], why["queue_length"], why["round"], why["reasons"]) == (2, 2, 3, [REASON])


def test_lists_filter(world: World) -> None:
    gpus = gpus_of(world.node)
    running = job_of(world, name="alpha-run")
    make_attempt(running, gpus[:1])
    spare = job_of(world, name="beta", guaranteed=False, gpu_models=["K80"])
    done = job_of(world, name="alpha-done", state="succeeded")

    def ids(query: str) -> list[int]:
        answer = world.operator.get(f"/jobs?{query}")
        assert answer.status_code == 200, answer.content
        return [job["id"] for job in answer.json()["results"]]

    assert ids("") == [done.id, spare.id, running.id]
    assert ids("state=running") == [running.id]
    assert ids("state=queued,running") == [spare.id, running.id]
    assert ids("q=ALPHA") == [done.id, running.id]
    assert ids("guarantee=opportunistic") == [spare.id]
    assert ids("gpu_model=K80") == [spare.id]
    assert ids("gpu_model=V100") == [running.id]
    assert ids("tenant=vision&virtual_cluster=research&q=beta") == [spare.id]
    assert ids("tenant=other") == []
    assert ids(f"submitted_by={spare.submitted_by.username}") == [spare.id]
    body = is_error(world.operator.get("/jobs?state=runing"), 400, "invalid")
    assert body["fields"][0]["field"] == "state"
    counts = world.operator.get("/jobs/counts?q=alpha").json()
    assert counts == {"queued": 0, "running": 1, "succeeded": 1, "failed": 0, "cancelled": 0}
    assert world.stranger.get("/jobs/counts").json()["running"] == 0


def test_pages_follow_each_other(world: World) -> None:
    ids = [job_of(world).id for _ in range(5)]
    page = world.member.get("/jobs?page_size=2").json()
    seen = [job["id"] for job in page["results"]]
    while page["next"]:
        page = world.member.get(page["next"]).json()
        seen += [job["id"] for job in page["results"]]
    assert seen == ids[::-1]


def test_a_list_costs_the_same_number_of_queries_however_long(world: World) -> None:
    gpus = gpus_of(world.node)

    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as captured:
            job_representations.jobs(list(Job.objects.values_list("id", flat=True)))
        return len(captured)

    make_attempt(job_of(world), gpus[:1])
    job_of(world)
    few = queries()
    for gpu in gpus[1:]:
        make_attempt(job_of(world), [gpu])
        job_of(world)
    assert queries() == few <= 6


def test_cancel_a_waiting_job(world: World) -> None:
    job = job_of(world)
    body = world.member.post(f"/jobs/{job.id}/cancel").json()
    assert (body["state"], body["phase"]) == ("cancelled", "ended")
    assert body["ended_at"] is not None
    again = world.member.post(f"/jobs/{job.id}/cancel")
    assert (again.status_code, again.json()["version"]) == (200, body["version"])
    events = world.member.get(f"/jobs/{job.id}/events").json()["results"]
    assert [(event["kind"], event["from"], event["to"]) for event in events] == [
        ("job.cancelled", "queued", "cancelled")
    ]


def test_cancel_a_running_job_stops_its_attempt(world: World) -> None:
    job = job_of(world)
    attempt = make_attempt(job, gpus_of(world.node)[:1])
    body = world.member.post(f"/jobs/{job.id}/cancel").json()
    assert (body["state"], body["phase"], body["cancelling"]) == ("running", "stopping", True)
    attempt.refresh_from_db()
    assert attempt.stop_cause == "cancelled"
    assert "user mia" in attempt.stop_message


def test_cancel_a_job_that_is_being_moved_ends_the_plan_and_stops_the_rest(world: World) -> None:
    job = job_of(world)
    gpus = gpus_of(world.node)
    live = make_attempt(job, gpus[:1], state="stopping", stop_cause="migrated")
    planned = make_attempt(job, gpus[1:2], state="planned", phase="planned")
    body = world.member.post(f"/jobs/{job.id}/cancel").json()
    assert (body["state"], body["cancelling"]) == ("running", True)
    live.refresh_from_db()
    planned.refresh_from_db()
    assert (planned.state, live.stop_cause) == ("ended", "cancelled")


def test_cancel_a_planned_job_ends_it_at_once(world: World) -> None:
    job = job_of(world)
    make_attempt(job, gpus_of(world.node)[:1], state="planned", phase="planned")
    body = world.member.post(f"/jobs/{job.id}/cancel").json()
    assert (body["state"], body["cancelling"]) == ("cancelled", False)


def test_an_ended_job_can_not_be_cancelled_or_held(world: World) -> None:
    job = job_of(world, state="succeeded")
    body = is_error(world.member.post(f"/jobs/{job.id}/cancel"), 409, "conflict")
    assert "succeeded" in body["detail"]
    is_error(world.member.post(f"/jobs/{job.id}/hold"), 409, "conflict")


def test_a_job_is_submitted_on_hold(world: World) -> None:
    job = world.member.post("/jobs", spec(hold=True)).json()
    assert (job["phase"], job["held"]) == ("held", True)
    run_round()
    assert world.member.get(f"/jobs/{job['id']}").json()["phase"] == "held"
    # It is how the job was submitted, and not what it is.
    again = world.member.post("/jobs", job["spec"]).json()
    assert again["phase"] == "waiting"
    both = world.member.post("/jobs/bulk", {"jobs": [spec(hold=True), spec()]}).json()["jobs"]
    assert [Job.objects.get(id=each["id"]).held for each in both] == [True, False]
    tasks = world.member.post("/jobs", spec(hold=True, array={"indices": "0-2"})).json()
    assert Job.objects.filter(array_id=tasks["id"], held=True).count() == 3


def test_hold_and_release(world: World) -> None:
    job = job_of(world)
    assert world.member.post(f"/jobs/{job.id}/hold").json()["phase"] == "held"
    assert world.member.post(f"/jobs/{job.id}/release").json()["phase"] == "waiting"
    kinds = Event.objects.filter(job_id=job.id).order_by("id").values_list("kind", flat=True)
    assert list(kinds) == ["job.held", "job.released"]
    make_attempt(job, gpus_of(world.node)[:1])
    is_error(world.member.post(f"/jobs/{job.id}/hold"), 409, "conflict")
    starting = job_of(world)
    make_attempt(starting, gpus_of(world.node)[1:2], state="starting")
    told = is_error(world.member.post(f"/jobs/{starting.id}/hold"), 409, "conflict")
    assert told["detail"] == f"Job {starting.id} is starting; only a waiting job can be held."


def test_a_job_that_is_held_gives_up_the_gpus_that_it_would_have_next(world: World) -> None:
    job = job_of(world)
    planned = make_attempt(job, gpus_of(world.node)[:1], state="planned", phase="planned")
    assert world.member.post(f"/jobs/{job.id}/hold").json()["phase"] == "held"
    planned.refresh_from_db()
    assert planned.state == "ended"
    run_round()
    assert not job.attempts.exclude(state="ended").exists()


def test_logs_are_read_by_sequence(world: World) -> None:
    job = job_of(world, replicas=2)
    assert world.member.get(f"/jobs/{job.id}/logs").json()["attempt"] is None
    attempt = make_attempt(job, gpus_of(world.node)[:2])
    for sequence in range(5):
        LogChunk.objects.create(
            attempt=attempt, rank=1, sequence=sequence, at=timezone.now(), text=f"line {sequence}\n"
        )
    page = world.member.get(f"/jobs/{job.id}/logs?rank=1&limit=3").json()
    assert ([chunk["sequence"] for chunk in page["chunks"]], page["next_after"]) == ([0, 1, 2], 2)
    assert (page["attempt"], page["ranks"], page["complete"], page["truncated"]) == (1, [0, 1], False, False)
    page = world.member.get(f"/jobs/{job.id}/logs?rank=1&after=2").json()
    assert "".join(chunk["text"] for chunk in page["chunks"]) == "line 3\nline 4\n"
    assert world.member.get(f"/jobs/{job.id}/logs?rank=1&after=4").json()["next_after"] == 4
    is_error(world.member.get(f"/jobs/{job.id}/logs?attempt=2"), 404, "not_found")
    body = is_error(world.member.get(f"/jobs/{job.id}/logs?after=x"), 400, "invalid")
    assert body["fields"][0]["field"] == "after"


def test_progress_is_thinned_evenly_and_keeps_the_newest(world: World) -> None:
    job = job_of(world)
    attempt = make_attempt(job, gpus_of(world.node)[:1])
    start = timezone.now()
    ProgressPoint.objects.bulk_create(
        ProgressPoint(
            attempt=attempt, sequence=n, at=start + timedelta(seconds=n), step=n, values={"loss": 1 / (n + 1)}
        )
        for n in range(1_201)
    )
    points = world.member.get(f"/jobs/{job.id}/progress").json()["points"]
    steps = [point["step"] for point in points]
    assert len(steps) <= 500
    assert steps[-1] == 1_200
    assert {after - before for before, after in pairwise(steps)} == {3}


def test_a_list_reads_no_specification_of_a_job_without_code(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, read = job_of(world), []
    monkeypatch.setattr(Job, "specification", property(lambda self: read.append(self.id)))
    (listed,) = world.member.get("/jobs").json()["results"]
    assert (listed["id"], listed["code"], read) == (job.id, None, [])
