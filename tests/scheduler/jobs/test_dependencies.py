"""Jobs that wait for others: who may be waited for, when that is over, what rounds and pages see of it."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from scheduler.core.model.awaited import SINGLETON, Awaited
from scheduler.core.round.decide import decide
from scheduler.jobs.services.dependencies import dependencies_settle
from scheduler.models import Dependency, Event, Job
from scheduler.rounds.run import run_round
from scheduler.rounds.snapshot import read_snapshot
from tests.api.caller import is_error
from tests.scheduler.builders import make_job
from tests.scheduler.conftest import World, spec

pytestmark = pytest.mark.django_db


def end(job_id: int, state: str) -> None:
    Job.objects.filter(id=job_id).update(state=state, ended_at=timezone.now())


def submit(world: World, **fields: object) -> int:
    answer = world.member.post("/jobs", spec(**fields))
    assert answer.status_code == 201, answer.content
    return int(answer.json()["id"])


def awaits(job_id: int) -> tuple[Awaited, ...]:
    dependencies_settle()
    return next((job.awaits for job in read_snapshot(1).jobs if job.id == job_id), ())


def codes(job_id: int) -> list[str]:
    dependencies_settle()
    return [reason.code for reason in decide(read_snapshot(1)).reasons.get(job_id, ())]  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("when", "met_by", "never_by"),
    [
        ("succeeded", ["succeeded"], ["failed", "cancelled"]),
        ("failed", ["failed", "cancelled"], ["succeeded"]),
        ("ended", ["succeeded", "failed", "cancelled"], []),
        ("started", ["succeeded", "failed", "cancelled"], []),
    ],
)
def test_it_waits_until_the_other_has_done_so(
    world: World, when: str, met_by: list[str], never_by: list[str]
) -> None:
    for state in (*met_by, *never_by):
        first = submit(world)
        second = submit(world, after=[{"job": first, "when": when}])
        assert awaits(second) == (Awaited(job=first, when=when),)
        assert codes(second) == ["dependency"]
        end(first, state)
        assert awaits(second) == ()
        ended = Job.objects.get(id=second)
        assert ended.state == ("queued" if state in met_by else "cancelled")
        # Submitted now, it is told at once.
        answer = world.member.post("/jobs", spec(after=[{"job": first, "when": when}]))
        if state in met_by:
            assert answer.status_code == 201
        else:
            problem = is_error(answer, 400, "invalid")["fields"][0]
            assert problem["field"] == "after.0"
            assert "it cannot be waited for" in problem["problem"]
        Job.objects.all().delete()


def test_one_that_has_started_is_enough_for_who_waits_for_that(world: World) -> None:
    first = submit(world)
    second = submit(world, after=f"started:{first}")
    Job.objects.filter(id=first).update(state="running", started_at=timezone.now())
    assert awaits(second) == ()
    assert Job.objects.get(id=second).state == "queued"


def test_a_chain_is_cancelled_link_by_link_and_says_why(world: World) -> None:
    first = submit(world)
    second = submit(world, after=[first])
    third = submit(world, after=[second])
    last = submit(world, after=[f"ended:{third}"])
    end(first, "failed")
    run_round()
    states = dict(Job.objects.values_list("id", "state"))
    assert [states[job] for job in (second, third)] == ["cancelled", "cancelled"]
    assert Job.objects.get(id=second).message == (
        f"It waited for job {first} to succeed, which cannot happen any more."
    )
    told = Event.objects.get(job_id=third, kind="job.cancelled")
    assert (told.actor, told.message) == (
        "dependencies",
        f"It waited for job {second} to succeed, which cannot happen any more.",
    )
    assert Dependency.objects.get(job_id=last).state == "met"
    assert not Dependency.objects.filter(is_open=True).exists()


def test_it_may_wait_for_its_user_instead(world: World) -> None:
    first = submit(world)
    second = submit(world, after=[first], on_unmet="wait")
    end(first, "failed")
    assert codes(second) == ["dependency_never"]
    assert codes(second) == ["dependency_never"]
    world.member.post(f"/jobs/{second}/cancel")
    dependencies_settle()
    assert not Dependency.objects.filter(is_open=True).exists()


def test_a_singleton_waits_for_earlier_ones_of_its_name_and_user(world: World) -> None:
    first, other = submit(world, name="a"), submit(world, name="b")
    second = submit(world, name="a", singleton=True)
    third = submit(world, name="a", singleton=True)
    make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster, name="a")  # Another user's.
    assert awaits(second) == (Awaited(job=first, when=SINGLETON),)
    assert awaits(third) == (Awaited(job=second, when=SINGLETON),)
    assert codes(third) == ["singleton"]
    assert awaits(other) == ()
    end(first, "failed")
    assert awaits(second) == ()


def test_only_jobs_of_the_same_tenant_can_be_waited_for(world: World) -> None:
    theirs = make_job()
    answer = world.member.post("/jobs", spec(after=[theirs.id, 10**9]))
    body = is_error(answer, 400, "invalid")
    assert [one["field"] for one in body["fields"]] == ["after.0.job", "after.1.job"]
    assert body["fields"][0]["problem"] == f"tenant vision has no job {theirs.id}"
    bulk = world.member.post("/jobs/bulk", {"jobs": [spec(), spec(after=[theirs.id])]})
    assert is_error(bulk, 400, "invalid")["fields"][0]["field"] == "jobs.1.after.0.job"
    assert not Job.objects.filter(tenant=world.tenant).exists()


def test_a_check_says_what_it_would_wait_for(world: World) -> None:
    first = submit(world)
    answer = world.member.post("/jobs/check", spec(after=[first])).json()
    assert answer["message"] == f"Would wait: It starts when job {first} has succeeded."


def test_both_sides_are_shown(world: World) -> None:
    first = submit(world, name="prepare")
    second = submit(world, name="train", after=[first])
    seen = world.viewer.get(f"/jobs/{second}/dependencies").json()
    one = {"when": "succeeded", "state": "awaited"}
    assert seen == {
        "waits_for": [{"job": first, "name": "prepare", "job_state": "queued", **one}],
        "awaited_by": [],
        "awaited_by_count": 0,
    }
    seen = world.viewer.get(f"/jobs/{first}/dependencies").json()
    assert seen["awaited_by"] == [{"job": second, "name": "train", "job_state": "queued", **one}]
    assert seen["awaited_by_count"] == 1
    is_error(world.stranger.get(f"/jobs/{first}/dependencies"), 404, "not_found")
    assert world.member.get(f"/jobs/{second}").json()["spec"]["after"] == [
        {"job": first, "when": "succeeded"}
    ]


def statements() -> Iterator[int]:
    """Yield the statements of a settlement and a snapshot, again and again."""
    while True:
        with CaptureQueriesContext(connection) as captured:
            dependencies_settle()
            read_snapshot(1)
        yield len(captured)


def test_a_round_asks_no_more_for_many_dependencies_than_for_none(world: World) -> None:
    counted = statements()
    next(counted)
    before = next(counted)
    first = submit(world)
    jobs: list[Any] = [spec(after=[first], name=f"a{number}", singleton=True) for number in range(50)]
    assert world.member.post("/jobs/bulk", {"jobs": jobs}).status_code == 201
    assert next(counted) == before
    end(first, "failed")
    # One more settlement, and the cancelling of all of them together.
    assert next(counted) <= before + 8
    assert Job.objects.filter(state="cancelled").count() == 50
