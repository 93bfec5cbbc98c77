"""Changes to tenants, members, quotas, users and tokens. Each is one transaction with its audit entry.

Two rules hold throughout: nobody grants more than he holds, and nobody can leave a tenant without an
admin or the platform without an operator by mistake.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone

from tenants import tokens
from tenants.errors import Conflict, FieldError, Invalid, NotAllowed, NotFound
from tenants.models import AuditEntry, Membership, Quota, Role, Tenant, Token, User
from tenants.rights import tell_changed
from tenants.selectors import RANK, Viewer, quota_of

TOKENS_PER_USER = 50


def audit(
    by: Viewer | str,
    action: str,
    subject: str,
    *,
    before: Any = None,
    after: Any = None,
    tenant: Tenant | None = None,
) -> None:
    """Record who changed what; call it in the transaction of the change. `by` may name a program."""
    AuditEntry.objects.create(
        actor=by if isinstance(by, str) else by.actor,
        action=action,
        subject=subject,
        tenant=tenant,
        before=before,
        after=after,
    )


# -- tenants, their members and their quota ----------------------------------------------------------


@transaction.atomic
def tenant_create(*, by: Viewer, name: str, title: str = "") -> Tenant:
    by.require_operator()
    try:
        with transaction.atomic():
            tenant = Tenant.objects.create(name=name, title=title)
    except IntegrityError:
        raise _taken("name", f"There is already a tenant named {name!r}.") from None
    audit(by, "tenant.create", name, after={"title": title}, tenant=tenant)
    return tenant


@transaction.atomic
def tenant_change(*, by: Viewer, tenant: Tenant, title: str) -> Tenant:
    by.require_operator()
    tenant = _locked(tenant)
    before, tenant.title, tenant.version = tenant.title, title, tenant.version + 1
    tenant.save(update_fields=["title", "version"])
    audit(by, "tenant.change", tenant.name, before={"title": before}, after={"title": title}, tenant=tenant)
    return tenant


@transaction.atomic
def member_set(*, by: Viewer, tenant: Tenant, username: str, role: Role) -> tuple[Membership, bool]:
    """Give a user this role in the tenant; also return whether he is new there."""
    by.require(tenant, Role.ADMIN)
    if not by.may(tenant, role):
        raise NotAllowed("You can not grant a role above your own.")
    tenant = _locked(tenant)
    user = User.objects.filter(username=username, is_active=True).first()
    if user is None:
        raise NotFound(f"There is no active user {username!r}; an operator can create one.")
    membership = Membership.objects.filter(tenant=tenant, user=user).first()
    before = membership.role if membership is not None else None
    if membership is None:
        membership = Membership(tenant=tenant, user=user)
    elif RANK[membership.role] > RANK[role]:
        _keep_an_admin(by, tenant, membership)
    membership.role = role
    membership.save()
    if before != role:
        audit(by, "member.set", username, before=before, after=role, tenant=tenant)
        tell_changed()
    return membership, before is None


@transaction.atomic
def member_remove(*, by: Viewer, tenant: Tenant, username: str) -> None:
    """End a membership: an admin that of anybody, a member his own."""
    by.require(tenant, Role.VIEWER if by.user.username == username else Role.ADMIN)
    tenant = _locked(tenant)
    membership = Membership.objects.filter(tenant=tenant, user__username=username).first()
    if membership is None:
        raise NotFound(f"{username!r} is not a member of tenant {tenant.name!r}.")
    _keep_an_admin(by, tenant, membership)
    membership.delete()
    audit(by, "member.remove", username, before=membership.role, tenant=tenant)
    tell_changed()


@transaction.atomic
def quota_set(*, by: Viewer, tenant: Tenant, limits: Mapping[str, int]) -> dict[str, int]:
    """Replace the tenant's quota; a GPU model without a line is not limited by itself."""
    by.require_operator()
    tenant = _locked(tenant)
    before = quota_of(tenant)
    Quota.objects.filter(tenant=tenant).delete()
    Quota.objects.bulk_create(
        Quota(tenant=tenant, gpu_model=gpu_model, gpus=gpus) for gpu_model, gpus in limits.items()
    )
    tenant.version += 1
    tenant.save(update_fields=["version"])
    after = quota_of(tenant)
    if after != before:
        audit(by, "quota.set", tenant.name, before=before, after=after, tenant=tenant)
    return after


def _locked(tenant: Tenant) -> Tenant:
    """The tenant's row, locked: changes to one tenant's members and quota come one after another."""
    return Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)


def _keep_an_admin(by: Viewer, tenant: Tenant, leaving: Membership) -> None:
    if leaving.role != Role.ADMIN or by.is_operator:
        return
    if not Membership.objects.filter(tenant=tenant, role=Role.ADMIN).exclude(pk=leaving.pk).exists():
        raise Conflict(
            f"{leaving.user.username!r} is the last admin of tenant {tenant.name!r}: make another one first."
        )


# -- users ------------------------------------------------------------------------------------------


@transaction.atomic
def user_create(
    *,
    by: Viewer | str,
    username: str,
    email: str = "",
    password: str | None = None,
    is_operator: bool = False,
) -> tuple[User, str | None]:
    """A new user, and the password to tell him when none was given. `by` may name a program."""
    if isinstance(by, Viewer):
        by.require_operator()
    user = User(username=username, email=email, is_operator=is_operator)
    told = None
    if password is None:
        password = told = secrets.token_urlsafe(15)
    else:
        _check_password(password, user, "password")
    user.set_password(password)
    try:
        with transaction.atomic():
            user.save()
    except IntegrityError:
        raise _taken("username", f"There is already a user named {username!r}.") from None
    audit(by, "user.create", username, after={"email": email, "is_operator": is_operator})
    return user, told


@transaction.atomic
def user_change(
    *,
    by: Viewer,
    username: str,
    email: str | None = None,
    is_active: bool | None = None,
    is_operator: bool | None = None,
    password: str | None = None,
) -> User:
    """Change what is not None. Who is made inactive is signed out at once, tokens included."""
    by.require_operator()
    # All operators, in one order: two of them could otherwise demote each other at the same moment.
    operators = list(
        User.objects.select_for_update(no_key=True).filter(is_operator=True, is_active=True).order_by("pk")
    )
    user = User.objects.select_for_update(no_key=True).filter(username=username).first()
    if user is None:
        raise NotFound(f"There is no user {username!r}.")
    if (is_active is False or is_operator is False) and [one.pk for one in operators] == [user.pk]:
        raise Conflict(f"{username!r} is the last operator: make another one first.")
    wanted = {"email": email, "is_active": is_active, "is_operator": is_operator}
    changed = {name: value for name, value in wanted.items() if value not in (None, getattr(user, name))}
    before = {name: getattr(user, name) for name in changed}
    for name, value in changed.items():
        setattr(user, name, value)
    if password is not None:
        _check_password(password, user, "password")
        user.set_password(password)
    user.save()
    if changed or password is not None:
        note = {"password": "set"} if password is not None else {}
        audit(by, "user.change", username, before=before, after=changed | note)
        tell_changed()
    return user


@transaction.atomic
def password_change(*, by: Viewer, new: str) -> User:
    """Change one's own password, after `signin.confirm_password`; all sessions must sign in again."""
    user = User.objects.select_for_update(no_key=True).get(pk=by.user.pk)
    _check_password(new, user, "new")
    user.set_password(new)
    user.save(update_fields=["password"])
    audit(by, "user.password", user.username)
    tell_changed()
    return user


@transaction.atomic
def address_change(*, by: Viewer, address: str) -> None:
    """Change one's own e-mail address."""
    user = User.objects.select_for_update(no_key=True).get(pk=by.user.pk)
    before, user.email = user.email, address
    user.save(update_fields=["email"])
    by.user.email = address
    if before != address:
        audit(by, "user.address", user.username, before={"email": before}, after={"email": address})


def _check_password(password: str, user: User, field: str) -> None:
    try:
        validate_password(password, user)
    except ValidationError as error:
        problem = " ".join(error.messages)
        expected = "10 or more characters that are hard to guess"
        raise Invalid(f"{field}: {problem}", [FieldError(field, problem, expected)]) from None


# -- tokens -----------------------------------------------------------------------------------------


@transaction.atomic
def token_create(
    *, by: Viewer, name: str, expires_in_days: int | None = None, read_only: bool = False
) -> tuple[Token, str]:
    """A new token of the viewer's own, and its text, which is not kept.

    One made by means of a token does not outlive that one: a leaked token can not be made to last.
    """
    ends = [timezone.now() + timedelta(days=expires_in_days)] if expires_in_days is not None else []
    if by.token_expires_at is not None:
        ends.append(by.token_expires_at)
    User.objects.select_for_update(no_key=True).get(pk=by.user.pk)
    if Token.objects.filter(user=by.user).count() >= TOKENS_PER_USER:
        raise Conflict(f"You have {TOKENS_PER_USER} tokens, which is the most: revoke one first.")
    secret = tokens.new_secret(tokens.USER_PREFIX)
    token = Token.objects.create(
        user=by.user,
        name=name,
        key=secret.key,
        digest=secret.digest,
        read_only=read_only,
        expires_at=min(ends, default=None),
    )
    audit(by, "token.create", secret.key, after={"name": name, "read_only": read_only})
    return token, secret.text


@transaction.atomic
def token_revoke(*, by: Viewer, key: str) -> None:
    """Revoke a token of one's own; an operator may revoke anybody's."""
    owned = Token.objects.all() if by.is_operator else Token.objects.filter(user=by.user)
    token = owned.filter(key=key).select_related("user").first()
    if token is None:
        raise NotFound(f"You have no token with the key {key!r}.")
    token.delete()
    audit(by, "token.revoke", key, before={"name": token.name, "user": token.user.username})
    tell_changed()


def _taken(field: str, message: str) -> Conflict:
    return Conflict(message, [FieldError(field, "is taken", "one that is not in use")])
