"""Usage reports by mail: once for each week or month that is over, as text and as a CSV file.

No report is lost: its period stays due until it was sent, however long a server was away; the oldest comes
first. A process that is killed after the mail server took a mail, and before that is written down, sends it
again with the same Message-ID; no other report is sent twice.
"""

import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial

from django.db import transaction
from django.db.models import Q, QuerySet

from scheduler.models.notifications import NotificationSettings, ReportPeriod, UsageSubscription
from scheduler.notifications.services.advisory_lock import REPORTS, advisory_lock
from scheduler.notifications.services.dispatch import start_sender
from scheduler.notifications.services.mail import is_mail_configured, note_failure, note_success, send_one
from scheduler.notifications.services.topics import link
from scheduler.wiring.clock import database_now
from tenants.models import Role, Tenant
from tenants.selectors import Viewer, viewer_of

#: After its end a period waits this long for what nodes report late.
SETTLED_AFTER = timedelta(hours=1)
#: No period is shorter.
_SHORTEST = timedelta(days=7)
#: Message-IDs are made of it, so that a mail that goes out again has the same one.
_MESSAGES = uuid.UUID("8a1c5f0e-6f0b-4b43-9d4f-0c1e2a7f3b57")
#: Makes the text of a report and its CSV file, for a tenant or the cluster (None), between two instants.
Contents = Callable[[Viewer, Tenant | None, datetime, datetime], tuple[str, str]]


def beginning(period: str, at: datetime) -> datetime:
    """Return the beginning of the week or month, by UTC, that an instant is in."""
    day = at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return day.replace(day=1) if period == ReportPeriod.MONTH else day - timedelta(days=day.weekday())


def end(period: str, begin: datetime) -> datetime:
    """Return the end of the week or month that begins at an instant."""
    # The 32nd day from the first of a month is in the next one.
    is_month = period == ReportPeriod.MONTH
    return beginning(period, begin + (timedelta(days=32) if is_month else _SHORTEST))


def may_have(by: Viewer, tenant: Tenant | None) -> bool:
    """Whether a user may have reports of a tenant, or of the cluster (None)."""
    return by.is_operator if tenant is None else by.may(tenant, Role.ADMIN)


def subscriptions_of(by: Viewer) -> QuerySet[UsageSubscription]:
    return UsageSubscription.objects.filter(user=by.user).select_related("tenant")


@transaction.atomic
def subscribe(*, by: Viewer, tenant: Tenant | None, period: ReportPeriod | None) -> None:
    """Mail the caller reports from the period that runs now on; None: no more.

    Raises NotAllowed, or NotFound to strangers. Anyone may end reports of a tenant that the caller sees.
    """
    if period is None:
        subscriptions_of(by).filter(tenant=tenant).delete()
        return
    if tenant is None:
        by.require_operator()
    else:
        by.require(tenant, Role.ADMIN)
    row = subscriptions_of(by).filter(tenant=tenant).first()
    if row is not None and row.period == period:
        return
    begin = beginning(period, database_now())
    UsageSubscription.objects.update_or_create(
        user=by.user, tenant=tenant, defaults={"period": period, "reported_until": begin}
    )


def dispatch_reports(contents: Contents) -> None:
    """Send what is due in a thread, beside the worker's own work."""
    now = database_now()
    if is_mail_configured() and any(_is_over(row, now) for row in _ready(now)):
        start_sender("reports", partial(send_reports, contents))


def send_reports(contents: Contents) -> int:
    """Send each subscriber the oldest report that is due; return how many mails were sent."""
    with advisory_lock(REPORTS) as is_mine:
        if not is_mine:
            return 0
        now, sent = database_now(), set[int]()
        for row in _ready(now):
            # At most one mail a minute: the next one is sent by the next tick.
            if row.user_id not in sent and _is_over(row, now) and _send(row, contents):
                sent.add(row.user_id)
        return len(sent)


def _ready(now: datetime) -> QuerySet[UsageSubscription]:
    may = Q(user__notifications=None) | Q(user__notifications__mail_not_before=None)
    may |= Q(user__notifications__mail_not_before__lte=now)
    rows = UsageSubscription.objects.filter(may, reported_until__lt=now - _SHORTEST).exclude(user__email="")
    return rows.select_related("user", "tenant").order_by("reported_until", "id")


def _is_over(row: UsageSubscription, now: datetime) -> bool:
    return end(row.period, row.reported_until) + SETTLED_AFTER <= now


def _send(row: UsageSubscription, contents: Contents) -> bool:
    """Send one report, and record that it was sent; end the subscription of a user who may not have it."""
    by = viewer_of(row.user)
    if not row.user.is_active or not may_have(by, row.tenant):
        row.delete()
        return False
    chosen, _ = NotificationSettings.objects.get_or_create(user=row.user)
    since, until = row.reported_until, end(row.period, row.reported_until)
    whose = row.tenant.name if row.tenant else "the cluster"
    message = uuid.uuid5(_MESSAGES, f"{row.pk} {until.isoformat()}")
    text, file = contents(by, row.tenant, since, until)
    text += f"\n--\nYour notifications: {link('/account')}\n"
    name = f"usage-{row.tenant.name if row.tenant else 'cluster'}-{since:%Y-%m-%d}.csv"
    try:
        subject = f"Use of {whose} from {since:%Y-%m-%d} until {until:%Y-%m-%d}"
        send_one(row.user.email, subject, text, message=message, attached=[(name, file)])
    except OSError as error:
        note_failure(chosen, error)
        return False
    # Not where another period was chosen meanwhile: that begins by itself.
    UsageSubscription.objects.filter(pk=row.pk, reported_until=since).update(reported_until=until)
    note_success(chosen)
    return True
