"""Messages to a real receiver in a process of its own: signed, in order, at least once, and nobody waits."""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from controlplane.config import PROJECT_ROOT
from scheduler.models import Delivery, Event, Webhook
from scheduler.notifications.services import delivery as http_delivery
from scheduler.notifications.services import webhook_queue
from scheduler.notifications.services.advisory_lock import WEBHOOKS
from scheduler.notifications.services.delivery import checked_url, is_allowed, post, secret_text
from scheduler.notifications.services.fan_out import write_notifications
from scheduler.notifications.services.webhook_queue import deliver_due
from scheduler.notifications.services.webhooks import redeliver, secret_rotate, webhook_change, webhook_test
from tenants.errors import Invalid
from tenants.models import Role
from tenants.selectors import viewer_of
from tenants.times import iso
from tests.patience import PATIENCE_SECONDS, until
from tests.scheduler.builders import make_delivery, make_job, make_tenant, make_user, make_webhook

SEED = b"s" * 32


class Receiver:
    def __init__(self, process: subprocess.Popen) -> None:
        assert process.stdout is not None
        self.process = process
        self.port = int(process.stdout.readline())

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def heard(self) -> dict[str, Any]:
        """The next request; waits for it."""
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())


@pytest.fixture(scope="module")
def _receiver() -> Iterator[Receiver]:
    here = Path(__file__).parent
    command = [
        sys.executable,
        here / "receiver.py",
        PROJECT_ROOT / "docs/notifications.md",
        secret_text(SEED),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield Receiver(process)
        process.kill()


@pytest.fixture
def receiver(_receiver: Receiver, settings: Any) -> Receiver:
    settings.CONFIG = settings.CONFIG.model_copy(update={"webhook_private_addresses": True})
    return _receiver


def failed_job(**columns: Any) -> Event:
    job = make_job(state="failed", columns={"exit_code": 1, "message": "ValueError: no"}, **columns)
    return Event.objects.create(
        at=timezone.now(), kind="job.failed", subject="job", subject_id=job.id, job_id=job.id,
        tenant=job.tenant, from_state="running", to_state="failed", message="ValueError: no",
    )  # fmt: skip


@pytest.fixture
def again(db: None) -> Callable[[], None]:
    """Let all back-off be over."""

    def over() -> None:
        Webhook.objects.update(held_until=None, taken_until=None)
        Delivery.objects.update(next_at=timezone.now())

    return over


@pytest.mark.django_db
def test_a_failed_job_is_told_to_its_tenants_webhook_with_both_signatures(receiver: Receiver) -> None:
    admin = make_user()
    red = make_tenant(members={admin: Role.ADMIN})
    webhook = make_webhook(red, url=receiver.url("/one"), seed=SEED)
    make_webhook(make_tenant(), url=receiver.url("/of-others"), seed=SEED)
    make_webhook(red, url=receiver.url("/off"), active=False)
    event = failed_job(tenant=red)
    assert (write_notifications(), write_notifications()) == (1, 0)
    deliver_due()
    heard, delivery = receiver.heard(), Delivery.objects.get()
    assert heard == {
        "path": "/one", "id": str(delivery.message), "signatures": 1, "verified": True, "type": "job.failed",
    }  # fmt: skip
    body = json.loads(delivery.body)
    assert body["timestamp"] == iso(event.at)
    told = body["data"]
    assert (told["job"]["id"], told["tenant"], told["error"]) == (event.job_id, red.name, "ValueError: no")
    assert (delivery.state, delivery.status, delivery.reply, delivery.tries) == ("delivered", 200, "xx", 1)
    assert len(delivery.body) < 2_000

    # The receiver does not know the new secret yet: the old one signs beside it.
    by = viewer_of(admin)
    secret_rotate(by=by, webhook=webhook)
    redeliver(by=by, webhook=webhook, delivery_id=delivery.id)
    deliver_due()
    assert receiver.heard() == heard | {"signatures": 2}
    Webhook.objects.filter(id=webhook.id).update(old_seed_ends_at=timezone.now())
    webhook_test(by=by, webhook=webhook)
    deliver_due()
    heard = receiver.heard()
    assert (heard["type"], heard["verified"], heard["signatures"]) == ("test", False, 1)


@pytest.mark.django_db
def test_a_receiver_that_does_not_answer_delays_nobody_else(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_delivery, "TIMEOUT_SECONDS", 0.5)
    silent = make_webhook(url=receiver.url("/hang"))
    lively = make_webhook(url=receiver.url("/lively"))
    for _ in range(3):
        make_delivery(silent)
        make_delivery(lively)
    deliver_due()
    heard = [receiver.heard()["path"] for _ in range(4)]
    assert sorted(heard) == ["/hang", "/lively", "/lively", "/lively"]
    tried = Delivery.objects.filter(webhook=silent).order_by("id")
    assert list(tried.values_list("tries", "state")) == [(1, "waiting"), (0, "waiting"), (0, "waiting")]
    assert tried[0].problem == "no whole answer within 0.5 s"
    silent.refresh_from_db()
    assert silent.held_until is not None
    assert silent.held_until > timezone.now()


@pytest.fixture
def hangs(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Let the name server of hangs.example never answer; what it is set by is the end of the wait for it."""
    given_up, look_up = threading.Event(), socket.getaddrinfo

    def looked_up(host: str, *others: Any, **named: Any) -> Any:
        if host != "hangs.example":
            return look_up(host, *others, **named)
        given_up.wait(PATIENCE_SECONDS)
        given_up.set()
        raise OSError("no name server answered")

    monkeypatch.setattr(http_delivery, "TIMEOUT_SECONDS", 0.5)
    monkeypatch.setattr(socket, "getaddrinfo", looked_up)
    yield given_up
    given_up.set()


@pytest.mark.django_db
def test_a_name_server_that_never_answers_delays_no_other_webhook(
    receiver: Receiver, hangs: threading.Event
) -> None:
    dead = [make_delivery(make_webhook(url="https://hangs.example/hook")) for _ in range(20)]
    make_delivery(make_webhook(url=receiver.url("/lively")))
    deliver_due()
    assert receiver.heard()["path"] == "/lively"
    assert not hangs.is_set(), "it was sent after the name server had been waited for"
    tried = Delivery.objects.filter(id__in=[each.id for each in dead])
    assert set(tried.values_list("tries", "problem")) == {(1, "no whole answer within 0.5 s")}


def test_a_bounded_number_of_names_are_looked_up_at_the_same_time(
    hangs: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_delivery, "_LOOKUPS", threading.BoundedSemaphore(2))
    problems = [post("https://hangs.example/hook", "{}", {}).problem for _ in range(3)]
    assert problems[:2] == ["no whole answer within 0.5 s"] * 2
    assert problems[2].startswith("hangs.example was not looked up")
    hangs.set()
    until(lambda: not post("https://hangs.example/hook", "{}", {}).problem.startswith("hangs.example"))


@pytest.mark.django_db
def test_a_webhook_whose_host_is_no_name_stops_no_other(receiver: Receiver) -> None:
    red = make_tenant()
    # As one that was made before its host was checked.
    broken = make_webhook(red, url="https://hooks..example.org/", seed=SEED)
    make_webhook(red, url=receiver.url("/sound"), seed=SEED)
    failed_job(tenant=red)
    write_notifications()
    deliver_due()
    assert receiver.heard()["path"] == "/sound"
    assert Delivery.objects.exclude(webhook=broken).get().state == "delivered"
    broken.refresh_from_db()
    assert broken.failures == 1


@pytest.mark.django_db
def test_what_cannot_be_sent_at_all_counts_as_a_failure(receiver: Receiver, monkeypatch: Any) -> None:
    red = make_tenant()
    webhook = make_webhook(red, url=receiver.url("/never"), seed=SEED)
    failed_job(tenant=red)
    write_notifications()

    def breaks(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(webhook_queue, "post", breaks)
    assert deliver_due() == 1
    webhook.refresh_from_db()
    assert (webhook.failures, Delivery.objects.get().problem) == (1, "RuntimeError")


@pytest.mark.django_db
def test_messages_keep_their_order_until_one_has_failed_three_times(
    receiver: Receiver, again: Callable[[], None]
) -> None:
    webhook = make_webhook(url=receiver.url("/fail"))
    first, second = make_delivery(webhook), make_delivery(webhook)
    order = []
    for _ in range(4):
        Webhook.objects.update(held_until=None)
        deliver_due()
        order.append(receiver.heard()["id"])
    assert order == [str(first.message)] * 3 + [str(second.message)]
    first.refresh_from_db()
    assert (first.status, first.tries) == (500, 3)
    webhook_change(by=viewer_of(make_user(operator=True)), webhook=webhook, url=receiver.url("/works"))
    again()
    assert deliver_due() == 2
    assert [receiver.heard()["id"] for _ in range(2)] == [str(first.message), str(second.message)]


@pytest.mark.django_db
def test_what_an_answer_may_not_do(receiver: Receiver, again: Callable[[], None]) -> None:
    redirected = make_delivery(make_webhook(url=receiver.url("/redirect")))
    long = make_delivery(make_webhook(url=receiver.url("/long")))
    gone = make_delivery(make_webhook(url=receiver.url("/gone")))
    old = make_delivery(
        make_webhook(url="http://127.0.0.1:9/", failing_since=timezone.now() - timedelta(days=6)),
        until=timezone.now(),
    )
    assert deliver_due() == 4
    assert {receiver.heard()["path"] for _ in range(3)} == {"/redirect", "/long", "/gone"}
    for delivery in (redirected, long, gone, old):
        delivery.refresh_from_db()
    assert (redirected.state, redirected.status) == ("waiting", 302)
    assert (long.state, len(long.reply)) == ("delivered", http_delivery.REPLY_BYTES)
    assert (gone.webhook.active, old.webhook.active) == (False, False)
    assert (old.state, old.status) == ("given_up", None)
    switched_off = Event.objects.filter(kind="webhook.disabled").values_list("subject_id", flat=True)
    assert set(switched_off) == {gone.webhook_id, old.webhook_id}
    again()
    deliver_due()
    # To the redirecting one alone, and not to where it pointed.
    assert receiver.heard()["path"] == "/redirect"


@pytest.mark.django_db(transaction=True)
def test_whoever_is_killed_after_sending_leaves_the_message_to_be_sent_again_with_its_id(
    receiver: Receiver, again: Callable[[], None]
) -> None:
    delivery = make_delivery(make_webhook(url=receiver.url("/hang-once"), seed=SEED))
    database = connection.settings_dict
    url = f"postgresql://{database['USER']}:{database['PASSWORD']}@{database['HOST']}:{database['PORT']}"
    code = (
        "import django; django.setup();"
        " from scheduler.notifications.services import webhook_queue as d; d.deliver_due()"
    )
    environment = os.environ | {
        "DATABASE_URL": f"{url}/{database['NAME']}",
        "ALLOT_WEBHOOK_PRIVATE_ADDRESSES": "true",
        "DJANGO_SETTINGS_MODULE": "controlplane.settings",
        "PYTHONPATH": f"{PROJECT_ROOT}:{PROJECT_ROOT / 'platform'}",
    }
    with subprocess.Popen([sys.executable, "-c", code], env=environment, cwd=PROJECT_ROOT) as sender:
        first = receiver.heard()
        sender.kill()
    with connection.cursor() as cursor:
        # Until the server has noticed that the other is gone.
        cursor.execute("SELECT pg_advisory_lock(%s), pg_advisory_unlock(%s)", [WEBHOOKS, WEBHOOKS])
    delivery.refresh_from_db()
    assert (delivery.state, delivery.tries) == ("waiting", 0)
    assert deliver_due() == 0, "it is still the other's"
    again()
    assert deliver_due() == 1
    assert receiver.heard() == first
    assert first["id"] == str(delivery.message)
    assert first["verified"]
    delivery.refresh_from_db()
    assert (delivery.state, delivery.tries) == ("delivered", 1)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0",
        "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1%eth0", "fd00::1", "ff02::1", "::ffff:10.0.0.1",
        "64:ff9b::a00:1", "2002:a00:1::", "2001:0:4136:e378::",
    ],
)  # fmt: skip
def test_addresses_that_only_the_server_reaches(address: str) -> None:
    assert not is_allowed(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8"])
def test_public_addresses(address: str) -> None:
    assert is_allowed(address)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("ftp://example.org/x", "is not a URL of https"),
        ("https:///x", "is not a URL of https"),
        ("http://example.org/x", "is not encrypted"),
        ("https://me:secret@example.org/", "holds a password"),
        ("https://127.0.0.1/", "is not a public address"),
        ("https://[::1]:8443/", "is not a public address"),
        ("https://example.org:99999/", "is not a URL"),
        ("https://hooks..example.org/", "has a host that is not a name"),
        (f"https://{'x' * 64}.example.org/", "has a host that is not a name"),
        ("https://example.org/a b", "has characters"),
        ("https://example.org/\r\nHost: x", "has characters"),
    ],
)
def test_urls_to_which_nothing_is_sent(url: str, problem: str) -> None:
    with pytest.raises(Invalid, match=problem) as refused:
        checked_url(url)
    assert [field.field for field in refused.value.fields] == ["url"]


def test_a_name_is_looked_at_when_it_is_used() -> None:
    # Whatever it was when the webhook was made: names lead elsewhere later.
    answer = post("https://localhost/", "{}", {})
    assert not answer.is_taken
    assert "not a public address" in answer.problem
