"""While Redis is away, a request whose effect is committed is answered as such."""

import socket

import pytest
import redis
import redis.retry
from celery import current_app
from channels.layers import get_channel_layer
from django.db import transaction
from kombu.exceptions import OperationalError

from controlplane.channel_layer import ChannelLayer
from scheduler.models import Job
from scheduler.wiring import wakeups
from tenants.after_commit import after_commit, once_after_commit
from tenants.models import Token
from tests.api.caller import caller, make_token
from tests.scheduler.builders import make_member, make_node, make_tenant, make_user, make_vc

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def redis_away(monkeypatch, settings):
    """Every connection to Redis is refused, for hints of rounds, for messages and for tasks.

    A request that rests before it tries again fails the test.
    """

    def send_task(*args, **options):
        raise OperationalError("connection refused")

    def rest(seconds):
        pytest.fail(f"rested {seconds:.1f} s for Redis")

    # Bound, so that no other process gets the port meanwhile; it listens to none.
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        url = f"redis://127.0.0.1:{bound.getsockname()[1]}"
        settings.CONFIG = settings.CONFIG.model_copy(update={"redis_url": url})
        refused = wakeups._redis.__wrapped__()
        monkeypatch.setattr(wakeups, "_redis", lambda: refused)
        monkeypatch.setattr(get_channel_layer(), "_redis", ChannelLayer(url=url, prefix="away")._redis)
        monkeypatch.setattr(redis.retry, "sleep", rest)
        monkeypatch.setattr(current_app, "send_task", send_task)
        yield


def test_a_job_is_submitted_and_its_key_answers_again(redis_away):
    tenant = make_tenant()
    make_vc(members=[tenant], guaranteed={"V100": 1})
    make_node(gpus=1)
    member = caller(make_member(tenant))
    body = {
        "tenant": tenant.name,
        "name": "once",
        "tasks": [{"name": "main", "resources": {"gpu": 1}, "command": ["true"]}],
    }
    key = {"Idempotency-Key": "once"}
    answer = member.post("/jobs", body, headers=key)
    assert answer.status_code == 201, answer.content
    again = member.post("/jobs", body, headers=key)
    assert (again.status_code, again.json()["id"]) == (201, answer.json()["id"])
    assert Job.objects.count() == 1


def test_a_token_ends(redis_away):
    user = make_user()
    mine = caller(user)
    make_token(user, name="lost")
    [token] = [each for each in mine.get("/tokens").json()["results"] if each["name"] == "lost"]
    assert mine.delete(f"/tokens/{token['key']}").status_code == 204
    assert not Token.objects.filter(name="lost").exists()


def test_a_call_that_fails_stops_no_other(caplog):
    called = []

    def fails() -> None:
        raise redis.ConnectionError("away")

    with transaction.atomic():
        after_commit(called.append, "first")
        after_commit(fails)
        after_commit(called.append, "last")
        assert called == []
    assert called == ["first", "last"]
    assert "fails failed after a commit" in caplog.text


def test_what_is_rolled_back_is_followed_by_nothing():
    called = []
    with transaction.atomic():
        after_commit(called.append, "never")
        transaction.set_rollback(True)
    assert called == []


def test_equal_calls_after_a_commit_are_one_that_no_savepoint_takes_back():
    called = []
    with transaction.atomic():
        once_after_commit(called.append, [1])
        with transaction.atomic():
            once_after_commit(called.append, [1])
            once_after_commit(called.append, [2])
        once_after_commit(called.append, [3])
        with transaction.atomic():
            once_after_commit(called.append, [4])
            once_after_commit(called.append, [1])
            transaction.set_rollback(True)
        once_after_commit(called.append, [4])
    once_after_commit(called.append, [4])
    assert called == [[1], [2], [3], [4], [4]]
