"""What the API leaves behind is swept away."""

from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.utils import timezone

from controlplane import tasks
from controlplane.celery import app
from controlplane.models import IdempotentAnswer
from tests.scheduler.builders import make_user


@pytest.mark.django_db
def test_old_answers_and_ended_sessions_are_pruned():
    long_ago = timezone.now() - timedelta(days=30)
    old = IdempotentAnswer.objects.create(user=make_user(), key="old", fingerprint=b"x")
    IdempotentAnswer.objects.filter(pk=old.pk).update(created_at=long_ago)
    fresh = IdempotentAnswer.objects.create(user=make_user(), key="new", fingerprint=b"x")
    Session.objects.create(session_key="ended", session_data="x", expire_date=long_ago)
    tasks.prune()
    assert list(IdempotentAnswer.objects.all()) == [fresh]
    assert not Session.objects.exists()


def test_every_scheduled_task_exists():
    app.loader.import_default_modules()
    assert {entry["task"] for entry in app.conf.beat_schedule.values()} <= set(app.tasks)
