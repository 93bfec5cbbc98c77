"""Every process that loads Django publishes to our broker, from whichever thread; beat does so without it."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from celery import current_app
from celery.signals import worker_process_init, worker_process_shutdown
from django.contrib.sessions.models import Session
from django.utils import timezone

from controlplane import tasks
from controlplane.celery import app
from controlplane.config import config
from controlplane.models import IdempotentAnswer
from scheduler.rounds.run import solver
from tests.scheduler.builders import make_user


def test_a_thread_publishes_to_the_installations_broker() -> None:
    with ThreadPoolExecutor(1) as pool:
        broker = pool.submit(lambda: current_app.conf.broker_url).result()
    assert broker == config().redis_url


def test_beat_loads_neither_django_nor_the_scheduler_and_ticks_alike() -> None:
    program = """if True:
        import sys
        from controlplane.beat import app
        app.loader.init_worker()
        print(*sorted({"django.db", "scheduler", "rest_framework"} & set(sys.modules)))
        print(*sorted(entry["task"] for entry in app.conf.beat_schedule.values()))
        print(app.conf.broker_url, app.conf.task_routes)
    """
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    loaded, ticks, where = said.splitlines()
    assert loaded == ""
    assert ticks.split() == sorted(entry["task"] for entry in current_app.conf.beat_schedule.values())
    assert where == f"{current_app.conf.broker_url} {current_app.conf.task_routes}"


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


def test_a_worker_has_its_solver_load_before_a_round_needs_it() -> None:
    worker_process_init.send(sender=None)
    try:
        assert solver().child is not None
    finally:
        worker_process_shutdown.send(sender=None)
    assert solver().child is None
