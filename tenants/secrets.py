"""Secrets: kept by tenants and users, given to jobs. Nothing here returns a value but `secret_values`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from tenants.audit.entries import record_read
from tenants.errors import ApplicationError, Conflict, FieldError, Invalid, NotFound
from tenants.models import Membership, Role, Secret, Tenant, User
from tenants.sealing import Keyring, SealedValue, SealError, read_keys
from tenants.selectors import RANK, Viewer

#: The most secrets of one tenant, and of one user.
SECRETS_PER_OWNER = 100
#: A job's environment takes no more than 128 KiB of one variable, and all of it goes over one answer.
VALUE_BYTES = 32 * 1024


class NoKeys(ApplicationError):
    """This installation has no key to keep secrets with."""

    code, status = "no_keys", 503


@transaction.atomic
def secret_set(*, by: Viewer, tenant: Tenant | None, name: str, value: str) -> tuple[Secret, bool]:
    """Give a secret this value; also return whether it is new. `tenant` None: one's own.

    A tenant's is for its admins to set; its members use it.
    """
    owner = _owner_locked(by, tenant)
    content = value.encode()
    if not 1 <= len(content) <= VALUE_BYTES:
        problem = "is empty" if not content else f"has {len(content):,} bytes"
        expected = f"text of 1 to {VALUE_BYTES:,} bytes"
        raise Invalid.of(FieldError("value", problem, expected))
    secret = owner.secrets.filter(name=name).first()
    is_new = secret is None
    if secret is None:
        if owner.secrets.count() >= SECRETS_PER_OWNER:
            whose = "You have" if tenant is None else f"Tenant {tenant.name!r} has"
            raise Conflict(f"{whose} {SECRETS_PER_OWNER} secrets, the maximum: delete one first.")
        secret = Secret(tenant=tenant, user=by.user if tenant is None else None, name=name)
    try:
        sealed = keyring().seal(content, secret.owner)
    except SealError as error:
        raise NoKeys(str(error)) from None
    secret.sealed, secret.key_id = sealed.content, sealed.key_id
    secret.changed_at, secret.changed_by = timezone.now(), by.user.username
    secret.save()
    return secret, is_new


@transaction.atomic
def secret_delete(*, by: Viewer, tenant: Tenant | None, name: str) -> None:
    """Delete a secret for good: attempts that have not started without it never will."""
    owner = _owner_locked(by, tenant)
    secret = owner.secrets.filter(name=name).first()
    if secret is None:
        whose = "You have" if tenant is None else f"Tenant {tenant.name!r} has"
        raise NotFound(f"{whose} no secret {name!r}.")
    secret.delete()


def secrets_of(by: Viewer, tenant: Tenant | None) -> QuerySet[Secret]:
    """The secrets of a tenant that the viewer may see, or the viewer's own, without what is sealed."""
    if tenant is not None:
        by.require(tenant, Role.VIEWER)
    owner = by.user if tenant is None else tenant
    return owner.secrets.defer("sealed")


def scopes_by_name(user: User, tenant_id: int) -> Mapping[str, frozenset[str]]:
    """Return whose secrets a job of this user in this tenant can name, by their names."""
    found: dict[str, frozenset[str]] = {}
    rows = Secret.objects.filter(Q(tenant_id=tenant_id) | Q(user=user)).defer("sealed")
    for secret in rows:
        found[secret.name] = found.get(secret.name, frozenset()) | {secret.scope}
    return found


def secret_values(
    named: Iterable[tuple[str, str]], *, user: User, tenant: Tenant
) -> tuple[dict[tuple[str, str], str], str]:
    """Return values by (scope, name) for a job of this user in this tenant, and "" or why there are none.

    All are read, or none: a right that ended since the job was submitted counts, and so does a secret that is
    gone. What is read counts as used.
    """
    keys = list(named)
    if not _may_use(user, tenant):
        return {}, f"{user.username} may no longer use secrets in tenant {tenant.name}"
    rows = Secret.objects.filter(Q(tenant=tenant) | Q(user=user), name__in=[name for _, name in keys])
    found = {(secret.scope, secret.name): secret for secret in rows}
    values = {}
    for scope, name in keys:
        is_own = scope == "user"
        said = (
            f"{user.username}'s own secret {name}" if is_own else f"the secret {name} of tenant {tenant.name}"
        )
        secret = found.get((scope, name))
        if secret is None:
            return {}, f"{said} was deleted"
        try:
            values[scope, name] = keyring().open(_sealed(secret), secret.owner).decode()
        except SealError as error:
            return {}, f"{said} cannot be read: {error}"
    used = [found[key].pk for key in keys]
    Secret.objects.filter(pk__in=used).update(last_used_at=timezone.now())
    for key in keys:
        secret = found[key]
        subject = f"{secret.name} of {user.username}" if secret.tenant_id is None else secret.name
        record_read("secret.read", object_kind="secret", object_id=secret.pk, subject=subject, tenant=tenant)
    return values, ""


def reseal_all() -> int:
    """Seal again what is sealed by any key but the first; return their number.

    Row by row, each locked: it may be changed meanwhile. Raise SealError when one cannot be opened.
    """
    ring, count = keyring(), 0
    for pk in list(Secret.objects.exclude(key_id=ring.current).values_list("pk", flat=True)):
        with transaction.atomic():
            secret = Secret.objects.select_for_update(no_key=True).filter(pk=pk).first()
            if secret is None or secret.key_id == ring.current:
                continue
            try:
                value = ring.open(_sealed(secret), secret.owner)
            except SealError as error:
                raise SealError(f"Secret {secret.owner!r}: {error}.") from None
            sealed = ring.seal(value, secret.owner)
            secret.sealed, secret.key_id = sealed.content, sealed.key_id
            secret.save(update_fields=["sealed", "key_id"])
            count += 1
    return count


def keyring() -> Keyring:
    """The keys of the settings."""
    return _keyring(settings.CONFIG.secrets_keys.get_secret_value())


@lru_cache(maxsize=4)
def _keyring(text: str) -> Keyring:
    return Keyring(read_keys(text))


def _sealed(secret: Secret) -> SealedValue:
    return SealedValue(secret.key_id, bytes(secret.sealed))


def _owner_locked(by: Viewer, tenant: Tenant | None) -> Tenant | User:
    """The owner's row, locked: changes to the secrets of one owner come one after another."""
    if tenant is None:
        return User.objects.select_for_update(no_key=True).get(pk=by.user.pk)
    by.require(tenant, Role.ADMIN)
    return Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)


def _may_use(user: User, tenant: Tenant) -> bool:
    if not user.is_active:
        return False
    role = Membership.objects.filter(user=user, tenant=tenant).values_list("role", flat=True).first()
    return user.is_operator or (role is not None and RANK[role] >= RANK[Role.MEMBER])
