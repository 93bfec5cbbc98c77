"""Jobs that may not start before an instant: their reason, their queue, and how that is changed."""

from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from scheduler.core.round.decide import decide
from scheduler.core.sim.forecast import forecast
from scheduler.models import Attempt, Event, Job
from scheduler.rounds.run import run_round
from scheduler.rounds.snapshot import read_snapshot
from tenants.models import AuditEntry
from tests.api.caller import is_error
from tests.scheduler.conftest import World, spec

pytestmark = pytest.mark.django_db


def submit(world: World, **fields: object) -> int:
    answer = world.member.post("/jobs", spec(**fields))
    assert answer.status_code == 201, answer.content
    return int(answer.json()["id"])


def codes(job_id: int) -> list[str]:
    return [reason.code for reason in decide(read_snapshot(1)).reasons.get(job_id, ())]  # type: ignore[call-overload]


def test_it_waits_until_then_and_says_so(world: World) -> None:
    begins = timezone.now().replace(microsecond=0) + timedelta(hours=1)
    job_id = submit(world, begin=begins.isoformat())
    shown = world.member.get(f"/jobs/{job_id}").json()
    assert datetime.fromisoformat(shown["eligible_at"]) == begins
    assert datetime.fromisoformat(shown["spec"]["begin"]) == begins
    run_round()
    (reason,) = world.member.get(f"/jobs/{job_id}/why").json()["reasons"]
    assert reason["code"] == "begins_later"
    assert reason["message"] == f"It begins at {begins:%H:%M:%S UTC on %-d %B}."
    facts = read_snapshot(1)
    assert decide(facts).wake_at == begins.timestamp()
    Job.objects.filter(id=job_id).update(eligible_at=timezone.now())
    run_round()
    assert Attempt.objects.filter(job_id=job_id).exists()


def test_a_duration_counts_from_the_submission(world: World) -> None:
    answer = world.member.post("/jobs", spec(begin="90m")).json()
    assert answer["spec"]["begin"] == 5400
    apart = datetime.fromisoformat(answer["eligible_at"]) - datetime.fromisoformat(answer["submitted_at"])
    assert apart == timedelta(minutes=90)


def test_others_start_before_it_and_its_start_is_foreseen(world: World) -> None:
    first = submit(world, begin="1h", time_limit="10m", priority=50)
    second = submit(world)
    plan = decide(facts := read_snapshot(1))
    assert [job for action in plan.actions for job in action.jobs] == [second]
    (prediction,) = [one for one in forecast(facts).predictions.values() if one.job == first]
    assert prediction.starts_at is not None
    assert 3_590 < prediction.starts_at - facts.now < 3_700


def test_a_check_says_that_it_would_wait(world: World) -> None:
    answer = world.member.post("/jobs/check", spec(begin="2h")).json()
    assert answer["ok"]
    assert "Would wait: It begins at" in answer["message"]


@pytest.mark.parametrize(
    "begin", ["tomorrow", "2026-12-01T18:00", "0001-01-01T00:00Z", "9999-12-31T23:59-12:00", -5, [], True]
)
def test_what_is_no_instant_is_refused(world: World, begin: object) -> None:
    answer = world.member.post("/jobs", spec(begin=begin))
    assert is_error(answer, 400, "invalid")["fields"][0]["field"] == "begin"


def test_it_can_be_put_off_and_taken_away_until_the_job_has_started(world: World) -> None:
    job_id = submit(world, begin="1h")
    later = timezone.now().replace(microsecond=0) + timedelta(hours=9)
    changed = world.member.patch(f"/jobs/{job_id}", {"begin": later.isoformat()})
    assert changed.status_code == 200, changed.content
    assert datetime.fromisoformat(changed.json()["eligible_at"]) == later
    assert "begin: 60 min ->" in Event.objects.get(job_id=job_id, kind="job.changed").message
    assert codes(job_id) == ["begins_later"]
    entry = AuditEntry.objects.get(action="job.change")
    assert entry.after is not None
    assert datetime.fromisoformat(entry.after["begin"]) == later
    assert world.member.patch(f"/jobs/{job_id}", {"begin": None}).json()["eligible_at"] is None
    assert codes(job_id) == []
    run_round()
    answer = world.member.patch(f"/jobs/{job_id}", {"begin": "2h"})
    assert is_error(answer, 409, "conflict")


def test_after_a_failure_the_same_column_is_back_off(world: World) -> None:
    job_id = submit(world, begin="1h")
    Job.objects.filter(id=job_id).update(attempts_started=1)
    assert codes(job_id) == ["backoff"]
