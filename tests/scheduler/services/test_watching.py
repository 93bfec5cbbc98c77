"""Jobs that run and make no progress: warned of once, or stopped and tried again."""

from datetime import timedelta

import pytest
from django.utils import timezone

from scheduler.models import Attempt, Event, ProgressPoint
from scheduler.services.attempts import part_exited
from scheduler.services.watching import watch_jobs
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_node

pytestmark = pytest.mark.django_db


def running(then: str | None, *, silent: int = 60) -> Attempt:
    """An attempt that has run for an hour and said something two minutes ago."""
    job = make_job()
    if then is not None:
        job.spec["watch"] = {"silent": silent, "then": then}
        job.save()
    now = timezone.now()
    attempt = make_attempt(
        job, gpus_of(make_node(gpus=1)), state="running", running_at=now - timedelta(hours=1)
    )
    ProgressPoint.objects.create(attempt=attempt, sequence=1, at=now - timedelta(minutes=2), step=7)
    return attempt


def test_each_attempt_is_warned_of_once():
    attempt = running("warn")
    watch_jobs()
    watch_jobs()
    event = Event.objects.get(kind="attempt.stuck")
    assert (event.job_id, event.message) == (attempt.job_id, "It told of no progress for 60 s.")
    attempt.refresh_from_db()
    assert attempt.state == "running"


def test_one_that_is_to_be_stopped_is_tried_again_once():
    attempt = running("stop")
    watch_jobs()
    attempt.refresh_from_db()
    assert (attempt.state, attempt.stop_cause) == ("stopping", "stuck")
    part = attempt.parts.select_related("attempt__job", "attempt__allocation", "node").get()
    part_exited(part, exit_code=143, category="stopped", message="", at=timezone.now(), actor="node")
    attempt.refresh_from_db()
    attempt.job.refresh_from_db()
    assert (attempt.outcome, attempt.failure, attempt.job.state) == ("failed", "stuck", "queued")


@pytest.mark.parametrize(("then", "silent"), [(None, 60), ("stop", 3_600)])
def test_who_is_not_watched_or_not_silent_for_long_goes_on(then, silent):
    attempt = running(then, silent=silent)
    watch_jobs()
    attempt.refresh_from_db()
    assert attempt.state == "running"
    assert not Event.objects.filter(kind="attempt.stuck").exists()
