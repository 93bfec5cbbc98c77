"""E-mail: the notices for a user, gathered for some seconds and sent as one plain text.

At least once: a mail is given its notices and its id first, then it is sent, then they are deleted. What a
killed process may have sent already goes out again, as it was and with the same Message-ID.
"""

import logging
import smtplib
import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from email.utils import parseaddr
from typing import Any

from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.db import transaction
from django.db.models import F, Min, Q, QuerySet

from scheduler.models.notifications import EmailNotice, NotificationSettings
from scheduler.notifications.services.advisory_lock import MAIL, advisory_lock
from scheduler.notifications.services.topics import link
from scheduler.wiring.clock import database_now
from tenants.errors import Conflict
from tenants.invitations import invitation_create
from tenants.models import Invitation, Role, Tenant, User
from tenants.selectors import Viewer
from tenants.times import in_words

log = logging.getLogger(__name__)

#: Events within some seconds go into one mail, and no user gets more than one mail a minute.
GATHERED_FOR = timedelta(seconds=5)
APART = timedelta(minutes=1)
#: Waits after the first, second... failure in a row.
WAITS = tuple(timedelta(minutes=minutes) for minutes in (1, 5, 15, 60))
#: A mail that could not be sent for this long is no longer news.
KEPT = timedelta(days=1)
_USERS_AT_ONCE = 100
#: Of more notices, the mail says how many there are.
_MOST_IN_A_MAIL = 100


def is_mail_configured() -> bool:
    return bool(settings.EMAIL_HOST)


def mail_is_due() -> bool:
    return _due(database_now()).exists()


def send_due() -> int:
    """Send what is due; return how many mails were sent."""
    with advisory_lock(MAIL) as is_mine:
        return _send_all() if is_mine else 0


def send_one(
    user_email: str, subject: str, text: str, *, message: uuid.UUID, attached: Sequence[tuple[str, str]] = ()
) -> None:
    """Send a mail now, with CSV files as (name, content) attached.

    Raises OSError (smtplib's errors are) when the server does not take it."""
    domain = parseaddr(settings.DEFAULT_FROM_EMAIL)[1].rpartition("@")[2] or "localhost"
    EmailMessage(
        subject=f"[Allotment] {' '.join(subject.split())}",
        body=text,
        to=[user_email],
        # Programs that answer mail by themselves leave such a one alone.
        headers={"Message-ID": f"<{message}@{domain}>", "Auto-Submitted": "auto-generated"},
        connection=get_connection(),
        attachments=[(name, content, "text/csv") for name, content in attached],
    ).send()


def _due(now: datetime) -> QuerySet[EmailNotice, Any]:
    """Return the users who have notices to send now, as (user id, time of the oldest notice)."""
    may = Q(user__notifications=None) | Q(user__notifications__mail_not_before=None)
    may |= Q(user__notifications__mail_not_before__lte=now)
    rows = EmailNotice.objects.filter(may).order_by().values_list("user_id")
    return rows.annotate(oldest=Min("at")).filter(oldest__lte=now - GATHERED_FOR)


def _send_all() -> int:
    now = database_now()
    EmailNotice.objects.filter(at__lt=now - KEPT).delete()
    users = User.objects.in_bulk([user for user, _ in _due(now)[:_USERS_AT_ONCE]])
    return sum(_send_to(user) for user in users.values())


def _send_to(user: User) -> bool:
    chosen, _ = NotificationSettings.objects.get_or_create(user=user)
    message, notices = _next_mail(user)
    try:
        send_one(user.email, _subject(notices), _text(notices), message=message)
    except OSError as error:
        note_failure(chosen, error)
        return False
    EmailNotice.objects.filter(user=user, mail=message).delete()
    note_success(chosen)
    return True


def _next_mail(user: User) -> tuple[uuid.UUID, list[EmailNotice]]:
    """Return the mail that may have been sent already, else a new one of all notices that wait."""
    rows = EmailNotice.objects.filter(user=user)
    message = rows.exclude(mail=None).values_list("mail", flat=True).first()
    if message is None:
        message = uuid.uuid4()
        rows.filter(mail=None).update(mail=message)
    return message, list(rows.filter(mail=message).order_by("id"))


def note_success(chosen: NotificationSettings) -> None:
    after = {"mail_not_before": database_now() + APART, "mail_failures": 0, "mail_problem": ""}
    NotificationSettings.objects.filter(pk=chosen.pk).update(**after)


def note_failure(chosen: NotificationSettings, error: OSError) -> None:
    wait = WAITS[min(chosen.mail_failures, len(WAITS) - 1)]
    refused = isinstance(error, smtplib.SMTPRecipientsRefused)
    problem = "The mail server refuses the address." if refused else f"The mail server: {error}"
    log.warning("a mail to %s could not be sent: %s", chosen.user.username, error)
    NotificationSettings.objects.filter(pk=chosen.pk).update(
        mail_not_before=database_now() + wait,
        mail_failures=F("mail_failures") + 1,
        mail_problem=problem.replace("\0", "")[:300],
    )


def _subject(notices: Sequence[EmailNotice]) -> str:
    return notices[0].subject if len(notices) == 1 else f"{len(notices)} notices: {notices[0].subject}, ..."


def _text(notices: Sequence[EmailNotice]) -> str:
    paragraphs = [f"{notice.at:%Y-%m-%d %H:%M:%S} UTC\n{notice.text}" for notice in notices[:_MOST_IN_A_MAIL]]
    if len(notices) > _MOST_IN_A_MAIL:
        paragraphs.append(f"And {len(notices) - _MOST_IN_A_MAIL} more.")
    paragraphs.append(f"--\nYour notifications: {settings.CONFIG.public_url}/account")
    return "\n\n".join(paragraphs) + "\n"


@transaction.atomic
def invite(*, by: Viewer, tenant: Tenant, role: Role, email: str, days: int) -> tuple[Invitation, str | None]:
    """Invite a person; return the invitation, and its link unless that went by mail.

    A link that was mailed is shown nowhere else, so that anyone who has it reads the mail at that address.
    """
    mailed = bool(email) and is_mail_configured()
    invitation, secret = invitation_create(
        by=by, tenant=tenant, role=role, email=email, mailed=mailed, days=days
    )
    # Behind the #: browsers keep that part to themselves, so no log on the way has it.
    address = f"{link('/invitation')}#{secret}"
    if not mailed:
        return invitation, address
    text = (
        f"{by.user.username} invites you to tenant {tenant.name} of Allotment, as {role.value}. To accept,\n"
        f"open\n\n{address}\n\nby {in_words(invitation.expires_at)}. You need no account yet.\n"
        "Otherwise do nothing: no more mail will come.\n"
    )
    try:
        send_one(email, f"You are invited to {tenant.name}", text, message=uuid.uuid4())
    except OSError as error:
        raise Conflict(f"The mail server refused the mail: {error}") from None
    return invitation, None
