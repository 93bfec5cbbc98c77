"""What a user wants by e-mail, and the address it goes to, which has to be confirmed from its own mailbox."""

import uuid
from datetime import timedelta
from typing import Any

from django.core import signing
from django.db import transaction

from scheduler.models.notifications import NotificationSettings
from scheduler.notifications.services.mail import is_mail_configured, send_one
from scheduler.notifications.services.topics import link
from scheduler.wiring.clock import database_now
from tenants.errors import Conflict, Invalid, TooManyRequests
from tenants.selectors import Viewer
from tenants.services import address_change

_SALT = "email-address"
#: A link in a mail is valid for this long.
_CONFIRMED_WITHIN = timedelta(days=1)
_ASKED_APART = timedelta(minutes=1)


def settings_of(by: Viewer) -> dict[str, Any]:
    """Return what the user chose, JSON-ready, and whether mail can be sent at all."""
    row = NotificationSettings.objects.filter(user=by.user).first() or NotificationSettings(user=by.user)
    return {
        "address": by.user.email,
        "can_send": is_mail_configured(),
        "jobs": row.jobs,
        "tenants": row.tenants,
        "cluster": row.cluster,
        "problem": row.mail_problem,
    }


@transaction.atomic
def settings_change(*, by: Viewer, **changes: Any) -> dict[str, Any]:
    row, _ = NotificationSettings.objects.get_or_create(user=by.user)
    for name, value in changes.items():
        setattr(row, name, value)
    row.save(update_fields=list(changes))
    return settings_of(by)


def address_set(*, by: Viewer, address: str) -> bool:
    """Set a new address; return whether it counts already.

    Where mail can be sent, it counts once its reader has confirmed it: no user can direct mail to another's
    address.
    """
    if not address or not is_mail_configured():
        address_change(by=by, address=address)
        return True
    _ask_once_a_minute(by)
    token = signing.dumps([by.user.pk, address], salt=_SALT)
    text = (
        f"{by.user.username} wants notices of Allotment to go to this address. If that is you, open\n\n"
        f"{link('/account')}?confirm={token}\n\nOtherwise do nothing: no more mail will come.\n"
    )
    try:
        send_one(address, "Confirm your address", text, message=uuid.uuid4())
    except OSError as error:
        raise Conflict(f"The mail server refused the mail: {error}") from None
    return False


def address_confirm(*, by: Viewer, token: str) -> str:
    """Return the address that the token, out of a mail to it, confirms as the user's."""
    try:
        user, address = signing.loads(token, salt=_SALT, max_age=_CONFIRMED_WITHIN)
    except signing.BadSignature:
        raise Invalid("This link is not valid, or older than a day: ask for a new one.") from None
    if user != by.user.pk:
        raise Invalid("This link is for another user: sign in as that one.")
    address_change(by=by, address=address)
    return str(address)


@transaction.atomic
def _ask_once_a_minute(by: Viewer) -> None:
    NotificationSettings.objects.get_or_create(user=by.user)
    row = NotificationSettings.objects.select_for_update().get(user=by.user)
    now = database_now()
    if row.confirmation_asked_at is not None and now - row.confirmation_asked_at < _ASKED_APART:
        wait = row.confirmation_asked_at + _ASKED_APART - now
        seconds = max(1, round(wait.total_seconds()))
        raise TooManyRequests(f"Try again in {seconds} seconds.", retry_after_seconds=seconds)
    row.confirmation_asked_at = now
    row.save(update_fields=["confirmation_asked_at"])
