"""What is kept of events and of progress lines, and for how long."""

from datetime import timedelta

import pytest
from django.conf import settings

from scheduler.jobs.attempts.services import retention
from scheduler.jobs.attempts.services.retention import thin_progress
from scheduler.models import Attempt, Event, Job, ProgressPoint, ProgressThinning
from scheduler.models.selectors.attempts import PROGRESS_POINTS_MOST, progress_points
from scheduler.telemetry.events import services as events
from scheduler.telemetry.events.services import prune_events
from scheduler.wiring.clock import database_now
from tenants import housekeeping
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_node

pytestmark = pytest.mark.django_db


def event(days_ago: float, job: Job | None = None, kind: str = "job.waiting", *, told: bool = False) -> Event:
    return Event.objects.create(
        at=database_now() - timedelta(days=days_ago),
        kind=kind,
        subject="job" if job else "node",
        subject_id=job.id if job else 1,
        job_id=job.id if job else None,
        told=told,
    )


def test_events_go_when_they_are_old_and_nothing_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    # The batches are smaller than what stays, so each must go on behind it.
    monkeypatch.setattr(events, "_AT_ONCE", 2)
    limit = settings.CONFIG.event_days_kept
    waiting, ended = make_job(), make_job()
    end(ended, limit + 1)
    stays = [
        *(event(limit + 1, waiting) for _ in range(3)),
        event(limit + 1, ended, "job.succeeded"),  # Its notice is still to be written.
    ]
    event(limit + 1, ended)
    event(limit + 1, ended, "job.succeeded", told=True)
    event(limit + 1)
    lately = make_job()
    end(lately, limit - 1)
    stays += [event(limit + 1, lately), event(limit - 1, ended), event(limit - 1)]
    prune_events()
    assert list(Event.objects.order_by("id")) == stays


def attempt_with(lines: int, *, ended_days_ago: float | None) -> Attempt:
    """The attempt of a job that ended so long ago, or goes on, after it wrote these lines."""
    attempt = make_attempt(make_job(), gpus_of(make_node(gpus=1)), phase="released")
    ProgressPoint.objects.bulk_create(
        ProgressPoint(attempt=attempt, sequence=number, at=database_now(), step=number)
        for number in range(1, lines + 1)
    )
    if ended_days_ago is not None:
        Attempt.objects.filter(id=attempt.id).update(
            state="ended", outcome="succeeded", ended_at=database_now()
        )
        end(attempt.job, ended_days_ago)
    return attempt


def end(job: Job, days_ago: float) -> None:
    ended_at = database_now() - timedelta(days=days_ago)
    Job.objects.filter(id=job.id).update(state="succeeded", ended_at=ended_at)


def test_an_old_job_keeps_the_lines_that_its_page_shows() -> None:
    limit = settings.CONFIG.progress_days_kept
    many = 3 * PROGRESS_POINTS_MOST + 1
    old, new, running = (attempt_with(many, ended_days_ago=ago) for ago in (limit + 1, limit - 1, None))
    few = attempt_with(PROGRESS_POINTS_MOST, ended_days_ago=limit + 2)
    shown = [point.id for point in progress_points(old.job, number=None)]
    thin_progress()
    assert list(old.progress.order_by("sequence").values_list("id", flat=True)) == shown
    assert len(shown) <= PROGRESS_POINTS_MOST
    left = [attempt.progress.count() for attempt in (new, running, few)]
    assert left == [many, many, PROGRESS_POINTS_MOST]


def test_jobs_that_end_at_one_instant_are_each_thinned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "_JOBS_AT_ONCE", 1)
    thinned: list[int] = []
    monkeypatch.setattr(retention, "_thin", lambda attempt: thinned.append(attempt.id))
    attempts = [attempt_with(PROGRESS_POINTS_MOST + 1, ended_days_ago=40) for _ in range(3)]
    Job.objects.update(ended_at=database_now() - timedelta(days=40))
    thin_progress()
    thin_progress()
    assert thinned == [attempt.id for attempt in attempts]
    assert ProgressThinning.objects.get().job_id == attempts[-1].job_id


def test_when_the_time_is_over_the_next_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "TURN_SECONDS", -1.0)
    attempts = [attempt_with(PROGRESS_POINTS_MOST + 1, ended_days_ago=40) for _ in range(2)]
    thin_progress()
    assert sum(each.progress.count() > PROGRESS_POINTS_MOST for each in attempts) == 1
    monkeypatch.undo()
    thin_progress()
    assert all(each.progress.count() <= PROGRESS_POINTS_MOST for each in attempts)
