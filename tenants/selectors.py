"""The objects of tenants, and which of them a viewer may see. Every selector of tenants' data takes the
viewer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from channels.db import database_sync_to_async
from django.contrib.auth import get_user
from django.contrib.sessions.backends.db import SessionStore
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from tenants import tokens
from tenants.callers import RoleInTenant, token_with_user
from tenants.errors import FieldError, NotAllowed, NotFound, NotSignedIn
from tenants.models import Membership, Quota, Role, Scope, Tenant, Token, User
from tenants.times import in_words

#: Each role includes the ones before it.
RANK: Mapping[str, int] = {Role.VIEWER: 1, Role.MEMBER: 2, Role.ADMIN: 3}


@dataclass(frozen=True, slots=True)
class Viewer:
    """The caller, and what the caller may do. An operator counts as admin of every tenant."""

    user: User
    held: tuple[RoleInTenant, ...] = ()
    #: What the token that was presented may be used for; a session may be used for everything.
    scopes: frozenset[str] = frozenset(Scope.values)
    #: The token that was presented; None for a session.
    token_id: int | None = None
    #: When that token ends, if ever.
    token_expires_at: datetime | None = None
    #: Whether the password came with the request, and was right.
    gave_password: bool = False
    #: False while a token without the scope to operate changes something: an operator is then one of many.
    acts_as_operator: bool = True
    _roles: Mapping[int, Role] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_roles", {held.tenant_id: held.role for held in self.held})

    @property
    def is_operator(self) -> bool:
        return self.user.is_operator and self.acts_as_operator

    @property
    def roles(self) -> Mapping[int, Role]:
        """Role by tenant id, of memberships only."""
        return self._roles

    @property
    def tenant_names(self) -> tuple[str, ...]:
        """Names of the tenants in which the viewer is a member."""
        return tuple(held.tenant for held in self.held)

    @property
    def actor(self) -> str:
        """How events and audit entries name this person."""
        return f"user {self.user.username}"

    @property
    def rights(self) -> frozenset[str]:
        """What the caller may do, right by right; a role has those of the roles that it includes."""
        held = [
            f"{role.value} of {held.tenant_id}"
            for held in self.held
            for role in Role
            if RANK[role] <= RANK[held.role]
        ]
        return frozenset([*self.scopes, *held, *(["operator"] if self.is_operator else [])])

    def may(self, tenant: Tenant | int, role: Role) -> bool:
        """Whether the viewer holds `role`, or one that includes it, in the tenant (or its id)."""
        if self.is_operator:
            return True
        held = self._roles.get(tenant if isinstance(tenant, int) else tenant.pk)
        return held is not None and RANK[held] >= RANK[role]

    def require(self, tenant: Tenant, role: Role) -> None:
        """Raise unless the viewer may: NotFound for a stranger, NotAllowed for a lesser role."""
        if self.may(tenant, role):
            return
        if not self.may(tenant, Role.VIEWER):
            raise NotFound(f"There is no tenant {tenant.name!r}, or you are not a member of it.")
        raise NotAllowed(
            f"This needs the role {role.value} in tenant {tenant.name!r}; yours is {self._roles[tenant.pk]}."
        )

    def require_operator(self) -> None:
        if self.is_operator:
            return
        if self.user.is_operator:
            self.require_scope(Scope.OPERATE)
        raise NotAllowed("This is for operators of the platform only.")

    def require_scope(self, scope: Scope) -> None:
        if scope not in self.scopes:
            has = ", ".join(one for one in Scope.values if one in self.scopes)
            raise NotAllowed(f"This needs a token with the scope {scope.value}; this one has: {has}.")

    def require_password(self, what: str) -> None:
        """Raise when a token asks for something that only the person, with the password, may do."""
        if self.token_id is not None and not self.gave_password:
            expected = "the password of the token's owner"
            problem = FieldError("your_password", "is missing", expected)
            raise NotAllowed(f"A token alone cannot {what}: send your_password too.", [problem])

    def tenants(self) -> QuerySet[Tenant]:
        """The tenants whose things the viewer may see."""
        if self.is_operator:
            return Tenant.objects.all()
        return Tenant.objects.filter(pk__in=list(self._roles))


def viewer_of(user: User, *, token: Token | None = None, changes: bool = False) -> Viewer:
    """The viewer for a user; without queries if the roles are loaded. `changes`: it changes things."""
    held = getattr(user, "held", None)
    if held is None:
        rows = Membership.objects.filter(user=user).order_by("tenant_id")
        held = tuple(
            RoleInTenant(tenant_id, tenant, Role(role))
            for tenant_id, tenant, role in rows.values_list("tenant_id", "tenant__name", "role")
        )
    if token is None:
        return Viewer(user=user, held=held)
    return Viewer(
        user=user,
        held=held,
        scopes=frozenset(token.scopes),
        token_id=token.pk,
        token_expires_at=token.expires_at,
        acts_as_operator=Scope.OPERATE in token.scopes or not changes,
    )


def viewer(source: Any) -> Viewer:
    """The viewer behind a request (where authentication put it) or a user."""
    if isinstance(source, User):
        return viewer_of(source)
    auth = getattr(source, "auth", None)
    return auth if isinstance(auth, Viewer) else viewer_of(source.user)


def token_of_header(header: str) -> Token:
    """The valid token in an Authorization header, with its user's roles loaded; else NotSignedIn."""
    keyword, _, text = header.partition(" ")
    if keyword.lower() != "bearer":
        raise NotSignedIn("Send 'Authorization: Bearer alt_...' with an API token.")
    parts = tokens.split(text.strip(), tokens.USER_PREFIX)
    if parts is None:
        raise NotSignedIn("This is not an API token: one looks like alt_<key>_<secret>.")
    key, secret = parts
    token = token_with_user(key)
    if token is None or not tokens.matches(secret, token.digest) or not token.user.is_active:
        raise NotSignedIn("This token is unknown, or was revoked.")
    if token.expires_at is not None and token.expires_at <= timezone.now():
        raise NotSignedIn(f"This token expired at {in_words(token.expires_at)}.")
    return token


async def viewer_of_scope(scope: Mapping[str, Any]) -> Viewer | None:
    """The user behind a WebSocket now: asked again later, a sign-out or a revoked token shows."""
    found: Viewer | None = await database_sync_to_async(_viewer_of_scope)(scope)
    return found


def _viewer_of_scope(scope: Mapping[str, Any]) -> Viewer | None:
    header = dict(scope["headers"]).get(b"authorization")
    if header is not None:
        try:
            token = token_of_header(header.decode("latin-1"))
        except NotSignedIn:
            return None
        return viewer_of(token.user, token=token)
    session = scope.get("session")
    if session is None or session.session_key is None:
        return None
    return viewer_again(session_key=session.session_key, token_id=None)


def viewer_again(*, session_key: str, token_id: int | None) -> Viewer | None:
    """The user who signed in with this session, or else this token, if that is still valid."""
    if token_id is not None:
        token = Token.objects.select_related("user").filter(pk=token_id, user__is_active=True).first()
        if token is None or (token.expires_at is not None and token.expires_at <= timezone.now()):
            return None
        return viewer_of(token.user, token=token)
    # A fresh read: the session in a scope remembers what it held when the socket was opened.
    request = HttpRequest()
    request.session = SessionStore(session_key)
    user = get_user(request)
    return viewer_of(user) if isinstance(user, User) else None


def tenant_get(viewer: Viewer, name: str) -> Tenant:
    """A tenant that the viewer may see, else NotFound."""
    tenant = viewer.tenants().filter(name=name).first()
    if tenant is None:
        raise NotFound(f"There is no tenant {name!r}, or you are not a member of it.")
    return tenant


def quota_of(tenant: Tenant) -> dict[str, int]:
    """GPUs that the tenant may hold at once, by GPU model; "*" caps all together, absent means no cap."""
    return dict(Quota.objects.filter(tenant=tenant).order_by("gpu_model").values_list("gpu_model", "gpus"))
