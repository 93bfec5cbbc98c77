"""Invitations: how an admin gets a person into a tenant without knowing, or learning, who has an account."""

from __future__ import annotations

from datetime import timedelta

from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from tenants import tokens
from tenants.errors import Conflict, NotAllowed, NotFound, TooManyRequests
from tenants.models import Invitation, Membership, Role, Tenant, User
from tenants.rights import tell_changed
from tenants.selectors import RANK, Viewer, viewer_of
from tenants.services import user_create

#: In one day and tenant, revoked ones too: each may send a mail.
INVITATIONS_PER_DAY = 100
#: User names that may be found taken with one invitation.
NAMES_TRIED_MOST = 10
#: What has ended or expired is forgotten after this time.
KEPT = timedelta(days=30)


def invitations_open(by: Viewer, tenant: Tenant) -> QuerySet[Invitation]:
    """Those of the tenant that were neither accepted nor revoked; some may have expired."""
    by.require(tenant, Role.ADMIN)
    return Invitation.objects.filter(tenant=tenant, ended_at=None).select_related("tenant", "invited_by")


@transaction.atomic
def invitation_create(
    *, by: Viewer, tenant: Tenant, role: Role, email: str = "", mailed: bool = False, days: int
) -> tuple[Invitation, str]:
    """A new invitation, and the secret for its link, which is not kept. Whether the address has an account
    makes no difference."""
    by.require(tenant, Role.ADMIN)
    if not by.may(tenant, role):
        raise NotAllowed("You cannot grant a role above your own.")
    now = timezone.now()
    of_tenant = Invitation.objects.filter(tenant=tenant)
    of_tenant.filter(Q(ended_at__lt=now - KEPT) | Q(expires_at__lt=now - KEPT)).delete()
    if of_tenant.filter(created_at__gt=now - timedelta(days=1)).count() >= INVITATIONS_PER_DAY:
        message = f"Tenant {tenant.name!r} has invited {INVITATIONS_PER_DAY} within a day, which is the most."
        raise TooManyRequests(message, retry_after_seconds=3_600)
    secret = tokens.new_secret(tokens.INVITATION_PREFIX)
    invitation = Invitation.objects.create(
        tenant=tenant,
        role=role,
        email=email,
        mailed=mailed,
        key=secret.key,
        digest=secret.digest,
        invited_by=by.user,
        expires_at=now + timedelta(days=days),
    )
    return invitation, secret.text


def invitation_revoke(*, by: Viewer, tenant: Tenant, key: str) -> None:
    if not invitations_open(by, tenant).filter(key=key).update(ended_at=timezone.now()):
        raise NotFound(f"Tenant {tenant.name!r} has no open invitation {key!r}.")


def invitation_found(text: str, *, lock: bool = False) -> Invitation:
    """The invitation behind a link, if it is still valid; else NotFound without details."""
    parts = tokens.split(text.strip(), tokens.INVITATION_PREFIX)
    rows = Invitation.objects.select_related("tenant", "invited_by")
    if lock:
        rows = rows.select_for_update(of=("self",), no_key=True)
    now = timezone.now()
    found = rows.filter(key=parts[0], ended_at=None, expires_at__gt=now).first() if parts else None
    if (
        parts is None
        or found is None
        or not tokens.matches(parts[1], found.digest)
        # An invitation does not count if its author may no longer make members.
        or not found.invited_by.is_active
        or not viewer_of(found.invited_by).may(found.tenant, Role.ADMIN)
    ):
        raise NotFound("This invitation is not valid: it was used or revoked, has expired, or never existed.")
    return found


@transaction.atomic
def invitation_accept(*, by: Viewer, text: str) -> Membership:
    """Make the viewer a member, as the viewer asked. An invitation works once."""
    invitation = invitation_found(text, lock=True)
    membership = Membership.objects.filter(tenant=invitation.tenant, user=by.user).first()
    if membership is None:
        membership = Membership(tenant=invitation.tenant, user=by.user)
    elif RANK[membership.role] >= RANK[invitation.role]:
        raise Conflict(f"You are {membership.role} of tenant {invitation.tenant.name!r} already.")
    membership.role = invitation.role
    membership.save()
    invitation.ended_at, invitation.accepted_by = timezone.now(), by.user
    invitation.save(update_fields=["ended_at", "accepted_by"])
    tell_changed()
    return membership


def account_by_invitation(*, text: str, username: str, password: str) -> User:
    """A new user who accepts the invitation; the address is that of the mail, if it came by mail."""
    invitation = invitation_found(text)
    if invitation.names_tried >= NAMES_TRIED_MOST:
        raise Conflict("Too many user names were tried with this invitation. Ask for a new one.")
    try:
        with transaction.atomic():
            email = invitation.email if invitation.mailed else ""
            user, _ = user_create(by=None, username=username, email=email, password=password)
            invitation_accept(by=viewer_of(user), text=text)
    except Conflict:
        # After the transaction, for it is to stay.
        Invitation.objects.filter(pk=invitation.pk).update(names_tried=F("names_tried") + 1)
        raise
    return user
