"""Who asks: a token in the Authorization header, or the session of a signed-in browser.

Either way `request.auth` is the Viewer and knowing him costs one query (plus the session's own). The
answer is remembered on Django's request, because the idempotency middleware asks before the view does.
"""

from __future__ import annotations

from datetime import timedelta

from django.contrib.auth.backends import ModelBackend
from django.db.models import Q
from django.http import HttpRequest
from django.utils import timezone
from rest_framework import authentication
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request

from tenants.callers import user_with_roles
from tenants.errors import NotAllowed
from tenants.models import Token, User
from tenants.selectors import Viewer, token_of_header, viewer_of

LAST_USED_PRECISION = timedelta(minutes=1)


class UserBackend(ModelBackend):
    """Django's passwords; a session's user arrives with his roles in the same query."""

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
            note_use(token)
            viewer = viewer_of(token.user, token=token)
            django_request.token_viewer = viewer  # type: ignore[attr-defined]
        if viewer.read_only and request.method not in SAFE_METHODS:
            raise NotAllowed(
                f"This token is read-only: it may not {request.method}. Use a token without read_only."
            )
        return viewer.user, viewer

    def authenticate_header(self, request: Request) -> str:
        return self.keyword


class SessionAuthentication(authentication.SessionAuthentication):
    """The session cookie; every changing method needs the matching X-CSRFToken."""

    def authenticate(self, request: Request) -> tuple[User, Viewer] | None:
        signed_in = super().authenticate(request)
        if signed_in is None:
            return None
        user = signed_in[0]
        return user, viewer_of(user)


def note_use(token: Token) -> None:
    """Remember when the token was last used, to the minute: not a write on every request."""
    due = timezone.now() - LAST_USED_PRECISION
    if token.last_used_at is None or token.last_used_at <= due:
        # Compared again in the database: of many requests at once only one writes.
        stale = Q(last_used_at=None) | Q(last_used_at__lte=due)
        Token.objects.filter(stale, pk=token.pk).update(last_used_at=timezone.now())
