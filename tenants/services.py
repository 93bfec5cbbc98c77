"""Changes to tenants, members, quotas, users and tokens. Each is one transaction.

Two rules hold throughout: no user grants more than they hold, and no tenant is left without an admin, nor the
platform without an operator, by mistake.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError, Q, QuerySet
from django.utils import timezone

from tenants import tokens
from tenants.audit.source import Source, acting
from tenants.errors import Conflict, FieldError, Invalid, NotAllowed, NotFound
from tenants.models import ANY_MODEL, Membership, Quota, Role, Scope, Tenant, Token, User
from tenants.rights import tell_changed
from tenants.selectors import RANK, Viewer, quota_of

TOKENS_PER_USER = 50

#: Returns what is wrong with the GPU models of a quota, which only the scheduler knows.
ProblemsWithModels = Callable[[Iterable[str]], Sequence[FieldError]]


# -- tenants, their members and their quota ----------------------------------------------------------


@transaction.atomic
def tenant_create(*, by: Viewer, name: str, title: str = "") -> Tenant:
    by.require_operator()
    try:
        with transaction.atomic():
            tenant = Tenant.objects.create(name=name, title=title)
    except IntegrityError:
        raise _taken("name", f"There is already a tenant named {name!r}.") from None
    return tenant


@transaction.atomic
def tenant_change(*, by: Viewer, tenant: Tenant, changes: Mapping[str, Any]) -> Tenant:
    """Change its title, or how many unfinished jobs it may have."""
    by.require_operator()
    tenant = _locked(tenant)
    for name, value in changes.items():
        setattr(tenant, name, value)
    tenant.version += 1
    tenant.save(update_fields=[*changes, "version"])
    return tenant


@transaction.atomic
def tenant_remove(*, by: Viewer, tenant: Tenant) -> None:
    """Forget a tenant that has no members and never had a job; its secrets and budget go with it."""
    by.require_operator()
    tenant = Tenant.objects.select_for_update().get(pk=tenant.pk)
    if tenant.memberships.exists():
        members = tenant.memberships.count()
        counted = "1 member" if members == 1 else f"{members} members"
        raise Conflict(f"Tenant {tenant.name!r} has {counted}: end the memberships first.")
    if names := tenant.virtual_clusters.order_by("pk").values_list("virtual_cluster__name", flat=True)[:5]:
        raise Conflict(f"Tenant {tenant.name!r} is a member of {', '.join(names)}: remove it there first.")
    try:
        with transaction.atomic():
            tenant.delete()
    except ProtectedError:
        raise Conflict(
            f"Tenant {tenant.name!r} has jobs in its history: remove its members instead."
        ) from None


@transaction.atomic
def member_set(*, by: Viewer, tenant: Tenant, username: str, role: Role) -> tuple[Membership, bool]:
    """Give a user this role in the tenant; also return whether the user is new there.

    Only operators make members of others: admins invite them (`tenants.invitations`), and do not learn by
    trying who exists.
    """
    by.require(tenant, Role.ADMIN)
    if not by.may(tenant, role):
        raise NotAllowed("You cannot grant a role above your own.")
    tenant = _locked(tenant)
    members = Membership.objects.select_related("user")
    membership = members.filter(tenant=tenant, user__username=username).first()
    before = membership.role if membership is not None else None
    if membership is None:
        if not by.is_operator:
            raise NotFound(f"{username!r} is not a member of tenant {tenant.name!r}: invite people instead.")
        user = User.objects.filter(username=username, is_active=True).first()
        if user is None:
            raise NotFound(f"There is no active user {username!r}; create one first.")
        membership = Membership(tenant=tenant, user=user)
    elif RANK[membership.role] > RANK[role]:
        _keep_an_admin(by, tenant, membership)
    if before != role:
        membership.role = role
        membership.save()
        tell_changed()
    return membership, before is None


@transaction.atomic
def member_remove(*, by: Viewer, tenant: Tenant, username: str) -> None:
    """End a membership. An admin may end any, a member their own."""
    by.require(tenant, Role.VIEWER if by.user.username == username else Role.ADMIN)
    tenant = _locked(tenant)
    membership = Membership.objects.filter(tenant=tenant, user__username=username).first()
    if membership is None:
        raise NotFound(f"{username!r} is not a member of tenant {tenant.name!r}.")
    _keep_an_admin(by, tenant, membership)
    membership.delete()
    tell_changed()


@transaction.atomic
def quota_set(
    *,
    by: Viewer,
    tenant: Tenant,
    limits: Mapping[str, int],
    cpus: float | None = None,
    memory_bytes: int | None = None,
    problems_with_models: ProblemsWithModels | None = None,
) -> Tenant:
    """Replace the tenant's quota; a GPU model without a line is not limited by itself.

    `problems_with_models` is asked about the models that have no line yet; None: each is taken as it is.
    Raises Invalid for those that it does not know.
    """
    by.require_operator()
    tenant = _locked(tenant)
    new = sorted(set(limits) - {ANY_MODEL} - set(quota_of(tenant)))
    if problems_with_models is not None and (wrong := problems_with_models(new)):
        raise Invalid.of(*wrong)
    # Limits that stay are left alone, so that the audit log has changes only.
    Quota.objects.filter(tenant=tenant).exclude(gpu_model__in=limits).delete()
    Quota.objects.bulk_create(
        [Quota(tenant=tenant, gpu_model=gpu_model, gpus=gpus) for gpu_model, gpus in limits.items()],
        update_conflicts=True,
        unique_fields=["tenant", "gpu_model"],
        update_fields=["gpus"],
    )
    tenant.quota_cpus, tenant.quota_memory_bytes = cpus, memory_bytes
    tenant.version += 1
    tenant.save(update_fields=["quota_cpus", "quota_memory_bytes", "version"])
    return tenant


def _locked(tenant: Tenant) -> Tenant:
    """The tenant's row, locked: changes to one tenant's members and quota come one after another."""
    return Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)


def _keep_an_admin(by: Viewer, tenant: Tenant, leaving: Membership) -> None:
    if leaving.role != Role.ADMIN or by.is_operator:
        return
    others = Membership.objects.filter(tenant=tenant, role=Role.ADMIN, user__is_active=True)
    if not others.exclude(pk=leaving.pk).exists():
        raise Conflict(
            f"{leaving.user.username!r} is the last admin of tenant {tenant.name!r}:"
            " make another member an admin first."
        )


# -- users ------------------------------------------------------------------------------------------


@transaction.atomic
def user_create(
    *,
    by: Viewer | str | None,
    username: str,
    email: str = "",
    password: str | None = None,
    is_operator: bool = False,
) -> tuple[User, str | None]:
    """Return a new user, and the password to hand over when none was given.

    `by` may name a program; None: the new user makes the account, by an invitation that the caller has
    checked.
    """
    if isinstance(by, Viewer):
        by.require_operator()
        if is_operator:
            by.require_password("create operators")
    user = User(username=username, email=email, is_operator=is_operator)
    generated = None
    if password is None:
        password = generated = secrets.token_urlsafe(15)
    else:
        _check_password(password, user, "password")
    user.set_password(password)
    try:
        with transaction.atomic(), _in_name_of(by):
            user.save()
    except IntegrityError:
        raise _taken("username", f"There is already a user named {username!r}.") from None
    return user, generated


@transaction.atomic
def user_change(
    *,
    by: Viewer,
    username: str,
    email: str | None = None,
    is_active: bool | None = None,
    is_operator: bool | None = None,
    password: str | None = None,
    end_tokens: bool = True,
) -> User:
    """Change what is not None. A user who is made inactive is signed out at once, and all the user's tokens
    end for good. `scheduler.jobs.services.leaving`, which calls this, decides what becomes of the jobs.

    With a new password all sessions must sign in again, and all tokens end unless `end_tokens` is False.
    """
    by.require_operator()
    if is_operator:
        by.require_password("make operators")
    if password is not None:
        by.require_password("reset passwords")
    # All operators, in one order: two of them could otherwise demote each other at the same moment.
    operators = list(
        User.objects.select_for_update(no_key=True).filter(is_operator=True, is_active=True).order_by("pk")
    )
    user = User.objects.select_for_update(no_key=True).filter(username=username).first()
    if user is None:
        raise NotFound(f"There is no user {username!r}.")
    if (is_active is False or is_operator is False) and [one.pk for one in operators] == [user.pk]:
        raise Conflict(f"{username!r} is the last operator: make another user an operator first.")
    desired = {"email": email, "is_active": is_active, "is_operator": is_operator}
    changed = {name: value for name, value in desired.items() if value not in (None, getattr(user, name))}
    for name, value in changed.items():
        setattr(user, name, value)
    if password is not None:
        _set_password(user, password, field="password", end_tokens=end_tokens)
    if changed.get("is_active") is False:
        now = timezone.now()
        user.tokens.exclude(expires_at__lte=now).update(expires_at=now)
    user.save()
    if changed or password is not None:
        tell_changed()
    return user


@transaction.atomic
def password_reset(*, by: str, username: str, end_tokens: bool = True) -> str:
    """Give a user a random password, and return it. `by` names the program that does it."""
    user = User.objects.select_for_update(no_key=True).filter(username=username).first()
    if user is None:
        raise NotFound(f"There is no user {username!r}.")
    password = secrets.token_urlsafe(15)
    with _in_name_of(by):
        _set_password(user, password, field="password", end_tokens=end_tokens)
        user.save(update_fields=["password"])
    tell_changed()
    return password


@transaction.atomic
def password_change(*, by: Viewer, new: str, end_tokens: bool = True) -> User:
    """Change one's own password, after `signin.confirm_password`; all sessions must sign in again, and all
    tokens end unless `end_tokens` is False."""
    user = User.objects.select_for_update(no_key=True).get(pk=by.user.pk)
    _set_password(user, new, field="new", end_tokens=end_tokens)
    user.save(update_fields=["password"])
    tell_changed()
    return user


def tour_seen(*, by: Viewer, seen: bool) -> None:
    """Store whether the page still offers its tour to the caller at sign-in."""
    User.objects.filter(pk=by.user.pk).update(saw_tour=seen)


def _in_name_of(by: Viewer | str | None) -> AbstractContextManager[object]:
    """A program names itself; a viewer is named by the request."""
    return acting(Source(kind="system", actor=by)) if isinstance(by, str) else nullcontext()


def _set_password(user: User, password: str, *, field: str, end_tokens: bool) -> None:
    """Set it on the user, which the caller saves."""
    _check_password(password, user, field)
    user.set_password(password)
    if end_tokens:
        Token.objects.filter(user=user).delete()


@transaction.atomic
def address_change(*, by: Viewer, address: str) -> None:
    """Change one's own e-mail address."""
    user = User.objects.select_for_update(no_key=True).get(pk=by.user.pk)
    user.email = by.user.email = address
    user.save(update_fields=["email"])


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
    *,
    by: Viewer,
    name: str,
    scopes: Collection[str] = (Scope.READ, Scope.SUBMIT),
    expires_in_days: int | None = None,
    never_expires: bool = False,
) -> tuple[Token, str]:
    """A new token of the viewer's own, and its text, which is not kept.

    A token made by means of a token alone is no wider and does not outlive that one: a leaked token cannot
    be made to last, or into a better one. Each includes the scope to read.
    """
    needed = {Scope.READ.value, *scopes}
    _check_scopes(by, needed)
    days = _checked_days(expires_in_days, never_expires)
    User.objects.select_for_update(no_key=True).get(pk=by.user.pk)
    _check_room_for_token(by.user)
    token, text = _token_new(by.user, name=name, scopes=needed, expires_at=_end(by, days))
    return token, text


@transaction.atomic
def token_rotate(*, by: Viewer, key: str, overlap_seconds: float) -> tuple[Token, str]:
    """A token in the place of one of the viewer's own, and its text; the old one works for the overlap only.

    The new one lasts as long as the old one was made for, from now; where a token alone asks, no longer
    than that token.
    """
    User.objects.select_for_update(no_key=True).get(pk=by.user.pk)
    old = _own_token(by, Token.objects.filter(user=by.user), key)
    now = timezone.now()
    if old.replaced_by_id is not None or (old.expires_at is not None and old.expires_at <= now):
        raise Conflict(f"The token {key!r} has ended or was replaced: create a new one.")
    scopes = set(old.scopes) if by.user.is_operator else {*old.scopes} - {Scope.OPERATE.value}
    _check_scopes(by, scopes)
    _check_room_for_token(by.user)
    days = None
    if old.expires_at is not None:
        made_for = math.ceil((old.expires_at - old.created_at) / timedelta(days=1))
        days = min(made_for, settings.CONFIG.token_days_most)
    elif not settings.CONFIG.tokens_may_never_expire:
        days = settings.CONFIG.token_days
    token, text = _token_new(by.user, name=old.name, scopes=scopes, expires_at=_end(by, days))
    old.replaced_by = token
    old.expires_at = min(filter(None, (old.expires_at, now + timedelta(seconds=overlap_seconds))))
    old.save(update_fields=["replaced_by", "expires_at"])
    tell_changed()
    return token, text


@transaction.atomic
def token_revoke(*, by: Viewer, key: str) -> None:
    """Revoke a token of one's own; an operator may revoke any."""
    owned = Token.objects.all() if by.is_operator else Token.objects.filter(user=by.user)
    token = _own_token(by, owned.select_related("user"), key)
    token.delete()
    tell_changed()


def _own_token(by: Viewer, owned: QuerySet[Token], key: str) -> Token:
    """The token with this key. Without the scope to manage, a token can act only on itself."""
    token = owned.filter(key=key).first()
    if token is None:
        raise NotFound(f"You have no token with the key {key!r}.")
    if token.pk != by.token_id:
        by.require_scope(Scope.MANAGE)
    return token


def _check_scopes(by: Viewer, needed: set[str]) -> None:
    if Scope.OPERATE in needed and not by.user.is_operator:
        problem = FieldError("scopes", "operate is for operators", "scopes that your own role allows")
        raise NotAllowed("Only an operator's token can have the scope operate.", [problem])
    if not needed <= by.scopes:
        by.require_password("make one with more scopes than its own")


def _checked_days(days: int | None, never: bool) -> int | None:
    """The days for which a token works; None: for ever."""
    most, may_never = settings.CONFIG.token_days_most, settings.CONFIG.tokens_may_never_expire
    if never and not may_never:
        problem, expected = "a token has to expire here", f"a whole number from 1 to {most}"
    elif days is not None and days > most:
        problem, expected = f"{days} days are too many", f"a whole number from 1 to {most}"
    else:
        return None if never else (days or settings.CONFIG.token_days)
    raise Invalid(f"expires_in_days: {problem}", [FieldError("expires_in_days", problem, expected)])


def _end(by: Viewer, days: int | None) -> datetime | None:
    ends = [] if days is None else [timezone.now() + timedelta(days=days)]
    if by.token_expires_at is not None and not by.gave_password:
        ends.append(by.token_expires_at)
    return min(ends, default=None)


def _check_room_for_token(user: User) -> None:
    """Raise Conflict where the user has too many; as many expired ones are kept."""
    is_over = Q(expires_at__lte=timezone.now())
    mine = Token.objects.filter(user=user)
    if mine.exclude(is_over).count() >= TOKENS_PER_USER:
        raise Conflict(f"You have {TOKENS_PER_USER} tokens, the maximum: revoke one first.")
    kept = mine.filter(is_over).order_by("-expires_at")[:TOKENS_PER_USER]
    mine.filter(is_over).exclude(pk__in=list(kept.values_list("pk", flat=True))).delete()


def _token_new(user: User, *, name: str, scopes: set[str], expires_at: datetime | None) -> tuple[Token, str]:
    secret = tokens.new_secret(tokens.USER_PREFIX)
    token = Token.objects.create(
        user=user,
        name=name,
        key=secret.key,
        digest=secret.digest,
        scopes=[scope for scope in Scope.values if scope in scopes],
        expires_at=expires_at,
    )
    return token, secret.text


def _taken(field: str, message: str) -> Conflict:
    return Conflict(message, [FieldError(field, "is taken", "one that is not in use")])
