"""Usage reports by mail: once for each period, equal to `allot usage`, while their readers may have them."""

import csv
import io
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.message import Message
from typing import Any
from urllib.parse import urlencode

import pytest

from scheduler.jobs.budgets.report import report
from scheduler.models import NotificationSettings, UsageSubscription
from scheduler.models.notifications import ReportPeriod
from scheduler.notifications.services import usage_reports
from scheduler.notifications.services.usage_reports import beginning, end, send_reports
from scheduler.tasks import send_usage_reports
from tenants.models import Membership, Role, Tenant, User
from tests.api.caller import caller, is_error
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_node, make_tenant, make_user
from tests.scheduler.notifications.mail_sink import MailSink

pytestmark = pytest.mark.django_db

MONDAY = datetime(2026, 3, 9, tzinfo=UTC)
WEEK = timedelta(days=7)
REPORTS = "/api/v1/notifications/reports"


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
    return user


@pytest.fixture
def red(ada: User) -> Tenant:
    """A tenant of which one job had a GPU for three hours on a Tuesday."""
    tenant = make_tenant("red", members={ada: Role.ADMIN})
    began = MONDAY + timedelta(days=1)
    attempt = make_attempt(
        make_job(tenant=tenant, submitted_by=ada),
        [gpus_of(make_node(gpus=1))[0]],
        starting_at=began,
        running_at=began,
        ended_at=began + timedelta(hours=3),
        state="ended",
        outcome="succeeded",
    )
    attempt.allocation.gpus.update(released_at=attempt.ended_at)
    return tenant


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets the time of the reports; a minute after each mail another may go out."""

    def set_time(now: datetime) -> None:
        monkeypatch.setattr(usage_reports, "database_now", lambda: now)
        NotificationSettings.objects.update(mail_not_before=None)

    return set_time


def subscribed(user: User, tenant: Tenant | None, period: str = "week", since: datetime = MONDAY) -> Any:
    return UsageSubscription.objects.create(user=user, tenant=tenant, period=period, reported_until=since)


def attached(mail: Message) -> list[dict[str, str]]:
    (part,) = [each for each in mail.walk() if each.get_content_type() == "text/csv"]
    return list(csv.DictReader(io.StringIO(part.get_payload(decode=True).decode())))


def test_weeks_begin_on_monday_and_months_on_the_first() -> None:
    at = datetime(2026, 3, 12, 15, 30, tzinfo=UTC)
    assert (beginning("week", at), end("week", MONDAY)) == (MONDAY, MONDAY + WEEK)
    assert beginning("month", at) == datetime(2026, 3, 1, tzinfo=UTC)
    assert [end("month", datetime(2026, month, 1, tzinfo=UTC)).month for month in (1, 2, 4, 12)] == [
        2,
        3,
        5,
        1,
    ]


def test_a_week_is_reported_once_when_it_is_over_as_the_api_tells_it(
    sink: MailSink, ada: User, red: Tenant, at: Any
) -> None:
    subscribed(ada, red)
    at(MONDAY + WEEK)
    assert send_reports(report) == 0
    at(MONDAY + WEEK + timedelta(hours=1))
    assert send_reports(report) == 1
    at(MONDAY + WEEK + timedelta(hours=2))
    assert send_reports(report) == 0
    (mail,) = sink.mails
    assert mail["Subject"] == "[Allotment] Use of red from 2026-03-09 until 2026-03-16"
    question = {
        "by": "user",
        "tenant": "red",
        "since": MONDAY.isoformat(),
        "until": (MONDAY + WEEK).isoformat(),
    }
    told = caller(ada).get(f"/usage/export?{urlencode(question)}")
    assert list(csv.DictReader(io.StringIO(told.content.decode()))) == attached(mail)
    assert attached(mail)[0]["gpu_hours"] == "3.0"


def test_missed_periods_are_made_good_the_oldest_first(
    sink: MailSink, ada: User, red: Tenant, at: Any
) -> None:
    subscribed(ada, red)
    for _ in range(4):
        at(MONDAY + 3 * WEEK + timedelta(days=2))
        send_reports(report)
    subjects = [mail["Subject"].rpartition("from ")[2] for mail in sink.mails]
    assert subjects == [
        "2026-03-09 until 2026-03-16",
        "2026-03-16 until 2026-03-23",
        "2026-03-23 until 2026-03-30",
    ]


def test_a_report_outlives_a_mail_server_that_is_away_for_days(
    sink: MailSink, ada: User, red: Tenant, at: Any, settings: Any
) -> None:
    subscribed(ada, red)
    port, settings.EMAIL_PORT = settings.EMAIL_PORT, 1
    for days in (0, 1, 2, 3):
        at(MONDAY + WEEK + timedelta(days=days, hours=2))
        assert send_reports(report) == 0
    assert "mail server" in NotificationSettings.objects.get(user=ada).mail_problem
    settings.EMAIL_PORT = port
    at(MONDAY + WEEK + timedelta(days=4))
    assert send_reports(report) == 1
    assert NotificationSettings.objects.get(user=ada).mail_problem == ""
    assert attached(sink.mails[0])[0]["user"] == "ada"


def test_what_a_killed_process_sent_goes_out_with_the_same_id(
    sink: MailSink, ada: User, red: Tenant, at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscribed(ada, red)
    at(MONDAY + WEEK + timedelta(hours=2))
    send = usage_reports.send_one

    def killed_after(*arguments: Any, **options: Any) -> None:
        send(*arguments, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(usage_reports, "send_one", killed_after)
    with pytest.raises(KeyboardInterrupt):
        send_reports(report)
    monkeypatch.setattr(usage_reports, "send_one", send)
    assert send_reports(report) == 1
    first, again = sink.mails
    assert first["Message-ID"] == again["Message-ID"]


def test_the_beat_sends_what_is_due_and_starts_nothing_otherwise(
    sink: MailSink, ada: User, red: Tenant, at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []

    def at_once(name: str, send: Any) -> None:
        started.append(name)
        send()

    monkeypatch.setattr(usage_reports, "start_sender", at_once)
    subscribed(ada, red)
    for hours in (0, 2, 3):
        at(MONDAY + WEEK + timedelta(hours=hours))
        send_usage_reports()
    assert (len(sink.mails), started) == (1, ["reports"])
    assert "gpu_hours" in sink.mails[0].get_payload()[0].get_payload(decode=True).decode()


def test_rights_withdrawn_end_the_mails(sink: MailSink, ada: User, red: Tenant, at: Any) -> None:
    subscribed(ada, red)
    subscribed(ada, None)
    Membership.objects.filter(user=ada, tenant=red).update(role=Role.MEMBER)
    at(MONDAY + WEEK + timedelta(hours=2))
    assert send_reports(report) == 0
    assert (sink.mails, UsageSubscription.objects.count()) == ([], 0)


def test_admins_subscribe_to_their_tenant_and_operators_to_the_cluster(ada: User, red: Tenant) -> None:
    api = caller(ada)
    assert is_error(api.post(REPORTS, {"period": "week"}), 403, "not_allowed")
    assert api.post(REPORTS, {"tenant": "red", "period": "week"}).status_code == 200
    assert api.post(REPORTS, {"tenant": "red", "period": "month"}).status_code == 200
    (row,) = api.get(REPORTS).json()["results"]
    assert (row["tenant"], row["period"], row["reported_until"][8:10]) == ("red", "month", "01")
    operator = caller(make_user("otto", operator=True))
    assert operator.get(REPORTS).json()["results"] == []
    assert operator.post(REPORTS, {"period": "month"}).status_code == 200
    Membership.objects.filter(user=ada).update(role=Role.VIEWER)
    assert is_error(caller(ada).post(REPORTS, {"tenant": "red", "period": "week"}), 403, "not_allowed")
    assert caller(ada).post(REPORTS, {"tenant": "red", "period": None}).status_code == 200
    assert UsageSubscription.objects.get().tenant is None
    assert ReportPeriod(UsageSubscription.objects.get().period) is ReportPeriod.MONTH
