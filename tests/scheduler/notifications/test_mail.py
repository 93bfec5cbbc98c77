"""Mail through a real server: to whom, of what, many in one, and again with the same id after a failure."""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from scheduler.models import EmailNotice, Event, Job, NotificationSettings
from scheduler.notifications.services.fan_out import write_notifications
from scheduler.notifications.services.mail import APART, GATHERED_FOR, send_due
from scheduler.notifications.services.preferences import (
    address_confirm,
    address_set,
    settings_change,
    settings_of,
)
from tenants.errors import Invalid, TooManyRequests
from tenants.models import Membership, Role, User
from tenants.selectors import viewer_of
from tests.scheduler.builders import make_job, make_node, make_tenant, make_user
from tests.scheduler.notifications.mail_sink import MailSink

pytestmark = pytest.mark.django_db


@pytest.fixture
def sink(settings: Any) -> Iterator[MailSink]:
    with MailSink() as sink:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", sink.port
        yield sink


@pytest.fixture
def ada() -> User:
    user = make_user("ada")
    user.email = "ada@example.org"
    user.save()
    make_tenant("red", members={user: Role.ADMIN})
    return user


def job_of(user: User, *, notify: list[str] | None = None, **columns: Any) -> Job:
    held = Membership.objects.select_related("tenant").get(user=user)
    job = make_job(tenant=held.tenant, submitted_by=user, **columns)
    if notify is not None:
        job.spec["notify"] = {"email": notify}
        job.save()
    return job


def happened(kind: str, job: Job, **columns: Any) -> None:
    if kind == "job.started" and job.started_at is None:
        job.started_at = columns["at"] = timezone.now()
        job.save()
    Event.objects.create(
        **{
            "at": timezone.now(),
            "kind": kind,
            "subject": kind.partition(".")[0],
            "subject_id": job.id,
            "job_id": job.id,
            "tenant": job.tenant,
            "message": "ValueError: no",
            **columns,
        }
    )


def preempted(job: Job) -> None:
    data = {"outcome": "preempted", "cause": "preempted", "preempted_by": [7, 8], "lost_seconds": 90.0}
    happened("attempt.ended", job, from_state="running", subject_id=0, data=data)


def send() -> int:
    """Send what waits, as if some seconds had passed."""
    EmailNotice.objects.update(at=timezone.now() - GATHERED_FOR)
    return send_due()


def test_a_job_with_a_part_of_a_gpu_runs_on_that(sink: MailSink, ada: User) -> None:
    job = job_of(ada, name="small", notify=["start"])
    job.shape["tasks"][0].append([300, 1_000, 0])
    job.save()
    happened("job.started", job)
    write_notifications()
    assert send() == 1
    assert "(small) runs on 0.3 GPU." in sink.mails[0].get_payload(decode=True).decode()


def test_what_happens_within_seconds_is_one_mail_and_the_next_comes_a_minute_later(
    sink: MailSink, ada: User
) -> None:
    job = job_of(ada, name="train", notify=["start", "end", "preemption"])
    happened("job.started", job)
    preempted(job)
    happened("job.succeeded", job, to_state="succeeded")
    write_notifications()
    assert send_due() == 0, "something more may come in a moment"
    assert send() == 1
    (mail,) = sink.mails
    assert (mail["To"], mail["Auto-Submitted"]) == ("ada@example.org", "auto-generated")
    assert mail["Subject"] == f"[Allotment] 3 notices: Job {job.id} (train) started, ..."
    text = mail.get_payload(decode=True).decode()
    assert f"/jobs/{job.id}\r\n" in text
    assert "other jobs needed its GPUs (jobs 7 and 8). About 90 s of work were lost." in text
    happened("job.started", job)
    preempted(job)
    write_notifications()
    assert send() == 0
    NotificationSettings.objects.update(mail_not_before=timezone.now())
    assert send() == 1
    # Not of its second start.
    assert sink.mails[1]["Subject"] == f"[Allotment] Job {job.id} (train) was stopped and waits again"
    assert not EmailNotice.objects.exists()


@pytest.mark.parametrize(
    ("chosen", "notify", "told"),
    [
        (None, None, {"job.failed", "attempt.stuck"}),
        ("all", None, {"job.started", "job.failed", "attempt.stuck", "attempt.ended"}),
        ("none", None, set()),
        ("none", ["preemption"], {"attempt.ended"}),
        ("all", [], set()),
    ],
)
def test_users_choose_and_jobs_may_say_otherwise(
    settings: Any, ada: User, chosen: str | None, notify: list[str] | None, told: set[str]
) -> None:
    settings.EMAIL_HOST = "mail.example.org"
    if chosen is not None:
        settings_change(by=viewer_of(ada), jobs=chosen)
    job, found = job_of(ada, notify=notify), set()
    for kind in ("job.started", "job.failed", "attempt.stuck"):
        happened(kind, job)
        write_notifications()
        found |= {kind} if EmailNotice.objects.all().delete()[0] else set()
    preempted(job)
    write_notifications()
    found |= {"attempt.ended"} if EmailNotice.objects.exists() else set()
    assert found == told


def test_who_hears_of_nodes_and_budgets_and_who_hears_no_more(settings: Any, ada: User) -> None:
    settings.EMAIL_HOST = "mail.example.org"
    operator = make_user(operator=True)
    User.objects.filter(pk=operator.pk).update(email="op@example.org")
    node, tenant = make_node(), ada.memberships.get().tenant
    now = timezone.now()
    Event.objects.create(at=now, kind="node.lost", subject="node", subject_id=node.id, node_id=node.id)
    data = {"percent": 80}
    Event.objects.create(
        at=now, kind="budget.reached", subject="tenant", subject_id=1, tenant=tenant, data=data
    )
    happened("job.failed", job_of(ada))
    ada.memberships.all().delete()
    write_notifications()
    told = EmailNotice.objects.order_by("id").values_list("user__username", "subject")
    # The budget's admin left the tenant in the same moment, and with it the job.
    assert list(told) == [(operator.username, f"Node {node.name} was lost")]


def test_a_mail_that_may_have_been_sent_goes_out_again_as_it_was(sink: MailSink, ada: User) -> None:
    happened("job.failed", job_of(ada))
    write_notifications()
    sink.refuses_at = "DATA"
    assert send() == 0
    assert "try again later" in settings_of(viewer_of(ada))["problem"]
    (kept,) = EmailNotice.objects.all()
    happened("job.failed", job_of(ada))
    write_notifications()
    sink.refuses_at = ""
    assert send() == 0, "there is back-off"
    NotificationSettings.objects.update(mail_not_before=timezone.now() - APART)
    assert send() == 1
    assert sink.mails[0]["Message-ID"].startswith(f"<{kept.mail}@")
    assert settings_of(viewer_of(ada))["problem"] == ""
    assert EmailNotice.objects.count() == 1, "what happened later is another mail"
    EmailNotice.objects.update(at=timezone.now() - timedelta(days=2))
    assert send_due() == 0
    assert not EmailNotice.objects.exists()


def test_without_a_mail_server_nothing_is_queued(settings: Any, ada: User) -> None:
    settings.EMAIL_HOST = ""
    happened("job.failed", job_of(ada))
    assert write_notifications() == 1
    assert not EmailNotice.objects.exists()
    assert not settings_of(viewer_of(ada))["can_send"]


def test_a_new_address_counts_once_its_reader_says_so(sink: MailSink, ada: User) -> None:
    by = viewer_of(ada)
    assert not address_set(by=by, address="new@example.org")
    ada.refresh_from_db()
    assert ada.email == "ada@example.org"
    with pytest.raises(TooManyRequests):
        address_set(by=by, address="victim@example.org")
    (mail,) = sink.mails
    assert mail["To"] == "new@example.org"
    token = re.search(r"confirm=(\S+)", mail.get_payload(decode=True).decode()).group(1)
    with pytest.raises(Invalid, match="another user"):
        address_confirm(by=viewer_of(make_user()), token=token)
    with pytest.raises(Invalid, match="not valid"):
        address_confirm(by=by, token=token[:-1])
    assert address_confirm(by=by, token=token) == "new@example.org"
    ada.refresh_from_db()
    assert ada.email == "new@example.org"
