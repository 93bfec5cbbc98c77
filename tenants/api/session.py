"""Who is signed in; signing in and out; one's own password."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib.auth import login, logout, update_session_auth_hash
from django.middleware.csrf import get_token
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from tenants.api.strict import NO_AUTHENTICATION, StrictSerializer
from tenants.audit.entries import record
from tenants.audit.source import source
from tenants.models import Role, Scope
from tenants.rights import tell_changed
from tenants.selectors import Viewer, viewer, viewer_of
from tenants.services import password_change, tour_seen
from tenants.signin import confirm_password, remember_browser, sign_in

#: An operator counts as admin of every tenant; the operator's own page lists no more of them than this.
TENANTS_LISTED = 200


class SignIn(StrictSerializer):
    username = serializers.CharField(max_length=150)
    password = serializers.CharField(max_length=200, trim_whitespace=False)


class PasswordChange(StrictSerializer):
    current = serializers.CharField(max_length=200, trim_whitespace=False)
    new = serializers.CharField(max_length=200, trim_whitespace=False)
    end_tokens = serializers.BooleanField(default=True, help_text="Whether your API tokens are revoked too.")


class TourInput(StrictSerializer):
    seen = serializers.BooleanField(help_text="false: the page offers its tour again.")


class MeUser(serializers.Serializer[Mapping[str, object]]):
    username = serializers.CharField()
    email = serializers.CharField(allow_blank=True)


class MeTenant(serializers.Serializer[Mapping[str, object]]):
    name = serializers.CharField()
    role = serializers.ChoiceField(choices=Role.choices)


class Me(serializers.Serializer[Mapping[str, object]]):
    user = MeUser()
    is_operator = serializers.BooleanField()
    saw_tour = serializers.BooleanField(help_text="Whether the user completed or closed the page's tour.")
    tenants = MeTenant(many=True)
    csrf_token = serializers.CharField(
        allow_blank=True,
        help_text="Value for the header X-CSRFToken; empty if a token was used to sign in.",
    )


def me(request: Request, viewer: Viewer) -> dict[str, Any]:
    if viewer.is_operator:
        names = viewer.tenants().order_by("name").values_list("name", flat=True)[:TENANTS_LISTED]
        tenants = [{"name": name, "role": Role.ADMIN} for name in names]
    else:
        tenants = [{"name": held.tenant, "role": held.role} for held in viewer.held]
    return {
        "user": {"username": viewer.user.username, "email": viewer.user.email},
        "is_operator": viewer.is_operator,
        "saw_tour": viewer.user.saw_tour,
        "tenants": tenants,
        "csrf_token": get_token(request._request) if viewer.token_id is None else "",
    }


class SessionView(APIView):
    scope = Scope.READ

    def get_authenticators(self) -> list[BaseAuthentication]:
        # Signing in ignores any earlier session, so that a stale cookie cannot be in the way. Another site
        # cannot sign a browser in as another user either: it would have to send JSON, for which a browser
        # asks this server first, and this server does not allow it.
        if self.request is not None and self.request.method == "POST":
            return []
        return super().get_authenticators()

    def get_permissions(self) -> Sequence[Any]:
        signing_in = self.request is not None and self.request.method == "POST"
        return [AllowAny()] if signing_in else super().get_permissions()

    @extend_schema(responses=Me)
    def get(self, request: Request) -> Response:
        """Show who is signed in."""
        return Response(me(request, viewer(request)))

    @extend_schema(request=SignIn, responses={200: Me}, auth=NO_AUTHENTICATION)
    def post(self, request: Request) -> Response:
        """Sign in with a password. Sets the session cookie."""
        given = SignIn(data=request.data)
        given.is_valid(raise_exception=True)
        # Of who is refused, the log names the account, if there is one of that name.
        request._request.audit_tried_user = given.validated_data["username"]  # type: ignore[attr-defined]
        user = sign_in(request._request, **given.validated_data)
        login(request._request, user)
        source().is_by("user", f"user {user.username}")
        record("user.sign-in", object_kind="user", object_id=user.pk, subject=user.username)
        response = Response(me(request, viewer_of(user)))
        remember_browser(request._request, response, user)
        return response

    @extend_schema(responses={204: None})
    def delete(self, request: Request) -> Response:
        """Sign out. With a token there is nothing to end."""
        user = viewer(request).user
        logout(request._request)
        tell_changed()
        record("user.sign-out", object_kind="user", object_id=user.pk, subject=user.username)
        return Response(status=204)


class PasswordView(APIView):
    scope = Scope.MANAGE

    @extend_schema(request=PasswordChange, responses={204: None})
    def post(self, request: Request) -> Response:
        """Change your own password. Other browsers must sign in again. API tokens are revoked or kept, as you
        choose.
        """
        given = PasswordChange(data=request.data)
        given.is_valid(raise_exception=True)
        by = viewer(request)
        confirm_password(request._request, user=by.user, password=given.validated_data["current"])
        body = given.validated_data
        user = password_change(by=by, new=body["new"], end_tokens=body["end_tokens"])
        update_session_auth_hash(request._request, user)
        return Response(status=204)


class TourView(APIView):
    scope = Scope.MANAGE

    @extend_schema(request=TourInput, responses={204: None})
    def put(self, request: Request) -> Response:
        """Store whether the caller saw the page's tour, so that no other browser offers it again."""
        given = TourInput(data=request.data)
        given.is_valid(raise_exception=True)
        tour_seen(by=viewer(request), **given.validated_data)
        return Response(status=204)
