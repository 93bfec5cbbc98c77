"""Jobs that run and make no progress, or use no GPU: warned of once, or stopped and tried again."""

from datetime import timedelta

import pytest
from django.utils import timezone

from nodeagent.messages import PROTOCOL, GpuSample, Reading, ReplicaSample, Report
from scheduler.agents.services.reports import report_apply
from scheduler.jobs.attempts.services.hang_detection import watch_idle_gpus, watch_jobs
from scheduler.jobs.attempts.services.lifecycle import part_exited
from scheduler.models import AgentService, Attempt, ClusterSettings, Event, ProgressPoint
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
    assert (event.job_id, event.message) == (attempt.job_id, "It reported no progress for 60 s.")
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


def test_what_stood_still_while_the_server_did_not_answer_is_not_blamed_for_it():
    silent, unused = running("stop"), idle(own("stop", 90))
    now = timezone.now()
    AgentService.objects.create(id=1, at=now, since=now - timedelta(seconds=30))
    watch_jobs()
    watch_idle_gpus()
    assert [Attempt.objects.get(id=one.id).state for one in (silent, unused)] == ["running"] * 2
    AgentService.objects.update(since=now - timedelta(seconds=100))
    watch_jobs()
    watch_idle_gpus()
    assert [Attempt.objects.get(id=one.id).state for one in (silent, unused)] == ["stopping"] * 2


def idle(watch: dict | None, *, for_seconds: int = 120) -> Attempt:
    """An attempt whose GPU has done nothing for so long and was busy before."""
    attempt = running(None)
    attempt.job.spec["watch"] = watch
    attempt.job.save()
    node, now = attempt.parts.get().node, timezone.now()
    Attempt.objects.filter(id=attempt.id).update(starting_at=now - timedelta(hours=1))
    readings = tuple(
        Reading(
            at=(now - timedelta(seconds=ago)).timestamp(),
            gpus=(
                GpuSample(
                    index=0,
                    utilisation_percent=3.0 if ago <= for_seconds else 90.0,
                    memory_used_bytes=0,
                    power_watts=60.0,
                ),
            ),
            replicas=(ReplicaSample(attempt=attempt.id, rank=0, cpus_used=0.0),),
        )
        for ago in range(0, 300, 10)
    )
    report_apply(node, Report(protocol=PROTOCOL, boot=node.boot, generation=0, readings=readings))
    return attempt


def site_says(**settings) -> None:
    ClusterSettings.objects.create(id=1, idle_gpus_seconds=90, **settings)


def own(then: str, seconds: int) -> dict:
    return {"silent": None, "then": then, "idle_gpus": {"seconds": seconds, "below_percent": 5.0}}


def test_gpus_that_do_nothing_are_warned_of_once():
    attempt = idle(own("warn", 90))
    watch_idle_gpus()
    watch_idle_gpus()
    watch_jobs()
    event = Event.objects.get(actor="watch")
    assert (event.kind, event.subject_id) == ("attempt.stuck", attempt.id)
    assert event.message == "Its GPUs were less than 5 % busy for 90 s."


def test_what_the_site_says_holds_for_jobs_that_say_nothing():
    site_says(idle_gpus_then="stop")
    quiet, patient = idle(None), idle(own("stop", 600))
    watch_idle_gpus()
    assert [Attempt.objects.get(id=one.id).state for one in (quiet, patient)] == ["stopping", "running"]
    part = quiet.parts.select_related("attempt__job", "attempt__allocation", "node").get()
    part_exited(part, exit_code=143, category="stopped", message="", at=timezone.now(), actor="node")
    quiet.refresh_from_db()
    quiet.job.refresh_from_db()
    assert (quiet.failure, quiet.job.state) == ("idle_gpus", "queued")


def test_gpus_that_are_not_idle_enough_or_not_for_long_enough_go_on():
    attempts = [idle(own("stop", 90), for_seconds=60), idle(own("stop", 90) | {"idle_gpus": LOW})]
    watch_idle_gpus()
    assert {Attempt.objects.get(id=one.id).state for one in attempts} == {"running"}


LOW = {"seconds": 90, "below_percent": 2.0}
