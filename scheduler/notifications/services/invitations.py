"""Invitations by mail; where none can be sent, the admin hands the link over himself."""

import uuid

from django.db import transaction

from scheduler.notifications.services.mail import is_mail_configured, send_one
from scheduler.notifications.services.topics import link
from tenants.errors import Conflict
from tenants.invitations import invitation_create
from tenants.models import Invitation, Role, Tenant
from tenants.selectors import Viewer


@transaction.atomic
def invite(*, by: Viewer, tenant: Tenant, role: Role, email: str, days: int) -> tuple[Invitation, str | None]:
    """Invite somebody; return the invitation, and its link unless that went by mail.

    A link that was mailed is told to nobody else, so that whoever has it reads the mail at that address.
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
        f"open\n\n{address}\n\nby {invitation.expires_at:%Y-%m-%d %H:%M} UTC. You need no account before.\n"
        "Otherwise do nothing: no more mail will come.\n"
    )
    try:
        send_one(email, f"You are invited to {tenant.name}", text, message=uuid.uuid4())
    except OSError as error:
        raise Conflict(f"The mail server did not take it: {error}") from None
    return invitation, None
