"""The caller of a request: a token in the Authorization header, or the session of a signed-in browser.

Either way `request.auth` is the Viewer, which costs one query (plus the session's own). The answer
is remembered on Django's request, because the idempotency middleware asks before the view does.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from django.contrib.auth.backends import ModelBackend
from django.db.models import Q
from django.http import HttpRequest
from django.utils import timezone
from rest_framework import authentication
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from tenants.audit.entries import record_token_use
from tenants.audit.source import source
from tenants.callers import user_with_roles
from tenants.models import Scope, Token, User
from tenants.selectors import Viewer, token_of_header, viewer_of

if TYPE_CHECKING:
    from rest_framework.views import APIView

LAST_USED_PRECISION = timedelta(minutes=1)


class UserBackend(ModelBackend):
    """Django's passwords; a session's user and the user's roles come with the same query."""

    def get_user(self, user_id: int) -> User | None:
        user = user_with_roles(user_id)
        return user if user is not None and self.user_can_authenticate(user) else None


class TokenAuthentication(authentication.BaseAuthentication):
    """`Authorization: Bearer alt_<key>_<secret>`."""

    keyword = "Bearer"

    def authenticate(self, request: Request) -> tuple[User, Viewer] | None:
        django_request: HttpRequest = request._request
        header = django_request.META.get("HTTP_AUTHORIZATION", "")
        if not header:
            return None
        viewer = getattr(django_request, "token_viewer", None)
        if viewer is None:
            token = token_of_header(header)
            note_use(token, django_request.META.get("REMOTE_ADDR", ""))
            changes = request.method not in SAFE_METHODS
            viewer = viewer_of(token.user, token=token, changes=changes)
            source().is_by("token", viewer.actor, token=token.key)
            record_token_use(token)
            django_request.token_viewer = viewer  # type: ignore[attr-defined]
        return viewer.user, viewer

    def authenticate_header(self, request: Request) -> str:
        return self.keyword


class SessionAuthentication(authentication.SessionAuthentication):
    """The session cookie; every changing method needs the matching X-CSRFToken."""

    def authenticate(self, request: Request) -> tuple[User, Viewer] | None:
        signed_in = super().authenticate(request)
        if signed_in is None:
            return None
        viewer = viewer_of(signed_in[0])
        source().is_by("user", viewer.actor)
        return viewer.user, viewer


class HasScope(BasePermission):
    """Tokens change only what their scopes allow; to read, any of them will do.

    A view states it by `scope`, for all of its changing methods or for each: {"POST": Scope.SUBMIT}. Without
    it, only a token with every scope may change anything.
    """

    def has_permission(self, request: Request, view: APIView) -> bool:
        if request.method not in SAFE_METHODS and isinstance(request.auth, Viewer):
            for scope in scopes_needed(view, str(request.method)):
                request.auth.require_scope(scope)
        return True


def scopes_needed(view: APIView | type[APIView], method: str) -> tuple[Scope, ...]:
    """What a token needs for a changing method of a view."""
    declared: Scope | Mapping[str, Scope] | None = getattr(view, "scope", None)
    scope = declared.get(method) if isinstance(declared, Mapping) else declared
    return tuple(Scope) if scope is None else (scope,)


def note_use(token: Token, address: str) -> None:
    """Remember when and from where the token was used, to the minute: not a write on every request."""
    now = timezone.now()
    due = now - LAST_USED_PRECISION
    if token.last_used_at is not None and token.last_used_at > due:
        return
    # Compared again in the database: of many requests at once only one writes.
    stale = Token.objects.filter(Q(last_used_at=None) | Q(last_used_at__lte=due), pk=token.pk)
    used: dict[str, Any] = {"last_used_at": now, "last_used_from": _ip(address)}
    if token.first_used_at is None:
        used |= {"first_used_at": now, "first_used_from": _ip(address)}
    stale.update(**used)


def _ip(address: str) -> str | None:
    """An address as the database accepts it: a proxy may have sent anything."""
    try:
        return str(ip_address(address))
    except ValueError:
        return None
