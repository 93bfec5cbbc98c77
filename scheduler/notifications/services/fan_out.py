"""From events to their recipients: events that were not read yet become notices and deliveries.

An event is its own outbox, written with the change that it reports. One transaction takes the oldest, writes
what follows from them and marks them. If it is killed in the middle, it has done nothing, and is done again.
"""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from django.db import transaction

from scheduler.models.events import TOLD_KINDS, Event
from scheduler.models.jobs import Job
from scheduler.models.notifications import Delivery, EmailNotice, JobNotices, NotificationSettings, Webhook
from scheduler.notifications.services.advisory_lock import DISPATCH, advisory_lock
from scheduler.notifications.services.mail import is_mail_configured
from scheduler.notifications.services.topics import EMAIL_TOPICS, JOB_TOPICS, Notice, notices_of
from scheduler.wiring.clock import database_now
from tenants.models import Membership, Role, User

#: Events taken at once, and taken in one call: what is left is for the next.
_AT_ONCE = 500
_MOST = 5_000
#: A delivery that fails is tried again for this long.
TRIED_FOR = timedelta(days=1)


def write_notifications() -> int:
    """Write the notices of what happened since the last call; return the number of events."""
    handled = 0
    # One at a time, so that webhooks get things in the order of their events.
    with advisory_lock(DISPATCH) as is_mine:
        while is_mine and handled < _MOST and (count := _tell_some()):
            handled += count
    return handled


@transaction.atomic
def _tell_some() -> int:
    untold = Event.objects.filter(told=False, kind__in=TOLD_KINDS)
    events = list(untold.order_by("id")[:_AT_ONCE])
    if not events:
        return 0
    notices = notices_of(events)
    _write_deliveries(notices)
    if is_mail_configured():
        _write_mail(notices)
    Event.objects.filter(id__in=[event.id for event in events]).update(told=True)
    return len(events)


def _write_deliveries(notices: Sequence[Notice]) -> None:
    webhooks = list(Webhook.objects.filter(active=True).order_by("id")) if notices else []
    now = database_now()
    Delivery.objects.bulk_create(
        delivery_of(webhook, notice.topic, json.dumps(notice.body()), at=now)
        for notice in notices
        for webhook in webhooks
        if notice.topic in webhook.topics and _may_hear(webhook, notice)
    )


def delivery_of(webhook: Webhook, topic: str, body: str, *, at: datetime) -> Delivery:
    """Return an unsaved delivery, due at once."""
    return Delivery(webhook=webhook, topic=topic, body=body, created_at=at, next_at=at, until=at + TRIED_FOR)


def _may_hear(webhook: Webhook, notice: Notice) -> bool:
    """Whether the webhook may get it: the operators' webhooks all, a tenant's what belongs to the tenant."""
    return webhook.tenant_id is None or (notice.tenant is not None and webhook.tenant_id == notice.tenant.id)


def _write_mail(notices: Sequence[Notice]) -> None:
    readers = _Readers(notices)
    EmailNotice.objects.bulk_create(
        EmailNotice(user=user, at=notice.at, subject=notice.subject, text=f"{notice.text}\n{notice.url}")
        for notice in notices
        for user in readers.of(notice)
        if user.is_active and user.email
    )


class _Readers:
    """Which users want which of some notices by e-mail, and may see them."""

    def __init__(self, notices: Sequence[Notice]) -> None:
        owners = {notice.job.submitted_by_id for notice in notices if notice.job}
        chosen = NotificationSettings.objects.filter(user__in=owners)
        self._chosen = dict(chosen.values_list("user_id", "jobs"))
        members = Membership.objects.filter(user__in=owners)
        self._members = set(members.values_list("tenant_id", "user_id"))

    def of(self, notice: Notice) -> Iterable[User]:
        if notice.job is not None:
            owner = notice.job.submitted_by
            # A user who left a tenant gets no more of it.
            may_see = owner.is_operator or (notice.job.tenant_id, owner.pk) in self._members
            # People want to know when it began; programs may want to know whenever it begins again.
            is_news = notice.data.get("is_first_start", True)
            wants = self._wants(owner, notice.topic, notice.job)
            return [owner] if may_see and is_news and wants else []
        if notice.tenant is None:
            return User.objects.filter(is_operator=True).exclude(notifications__cluster=False)
        admins = User.objects.filter(memberships__tenant=notice.tenant, memberships__role=Role.ADMIN)
        return admins.exclude(notifications__tenants=False)

    def _wants(self, owner: User, topic: str, job: Job) -> bool:
        """Whether a mail is wanted: as the job says, or else as its owner says."""
        stated = job.specification.notify_email
        if stated is not None:
            return any(topic in EMAIL_TOPICS[one] for one in stated)
        chosen = self._chosen.get(owner.pk, JobNotices.FAILURES)
        topics = {JobNotices.ALL: JOB_TOPICS, JobNotices.FAILURES: EMAIL_TOPICS["failure"]}
        return topic in topics.get(JobNotices(chosen), ())
