"""Invitations: admins make them, and anyone who has the link accepts, with an account or by making one."""

from __future__ import annotations

from collections.abc import Mapping

from django.contrib.auth import login
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.authentication import BaseAuthentication
from rest_framework.generics import ListAPIView
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from scheduler.notifications.services.mail import invite
from tenants.api.answers import created
from tenants.api.session import Me, MeTenant, me
from tenants.api.strict import NO_AUTHENTICATION, StrictSerializer
from tenants.api.users import USERNAME
from tenants.audit.entries import record
from tenants.audit.source import source
from tenants.invitations import (
    account_by_invitation,
    invitation_accept,
    invitation_found,
    invitation_revoke,
    invitations_open,
)
from tenants.models import Invitation, Role, Scope
from tenants.selectors import tenant_get, viewer, viewer_of

DAYS, DAYS_MOST = 7, 30


class InvitationInput(StrictSerializer):
    role = serializers.ChoiceField(choices=Role.choices)
    email = serializers.EmailField(
        max_length=254,
        allow_blank=True,
        default="",
        help_text=(
            "E-mail address to send the link to, if the server sends mail. Blank: you get the "
            "link to hand over."
        ),
    )
    expires_in_days = serializers.IntegerField(min_value=1, max_value=DAYS_MOST, default=DAYS)


class InvitationOutput(serializers.ModelSerializer[Invitation]):
    invited_by = serializers.CharField(source="invited_by.username")

    class Meta:
        model = Invitation
        fields = ["key", "role", "email", "mailed", "invited_by", "created_at", "expires_at"]
        read_only_fields = fields


class NewInvitationOutput(InvitationOutput):
    link = serializers.CharField(
        allow_null=True,
        help_text="The link, in this answer only; null if it was mailed. Anyone who has it can accept.",
    )

    class Meta(InvitationOutput.Meta):
        fields = [*InvitationOutput.Meta.fields, "link"]


class InvitationSecret(StrictSerializer):
    invitation = serializers.CharField(max_length=200, help_text="The part of the link after the #.")


class InvitationOffer(serializers.Serializer[Mapping[str, object]]):
    tenant = serializers.CharField()
    title = serializers.CharField(allow_blank=True)
    role = serializers.ChoiceField(choices=Role.choices)
    invited_by = serializers.CharField()
    expires_at = serializers.DateTimeField()


class NewAccount(InvitationSecret):
    username = serializers.CharField(validators=[USERNAME])
    password = serializers.CharField(max_length=200, trim_whitespace=False)


class Invitations(ListAPIView[Invitation]):
    """List the open invitations to a tenant, newest first. For its admins."""

    scope = Scope.MANAGE
    serializer_class = InvitationOutput
    queryset = Invitation.objects.none()

    def get_queryset(self) -> QuerySet[Invitation]:
        by = viewer(self.request)
        return invitations_open(by, tenant_get(by, self.kwargs["name"]))

    @extend_schema(request=InvitationInput, responses={201: NewInvitationOutput})
    def post(self, request: Request, name: str) -> Response:
        """Invite a person to a tenant, by e-mail or by a link to hand over. For its admins.

        The answer is the same whether or not a user with this address exists.
        """
        by = viewer(request)
        tenant = tenant_get(by, name)
        by.require(tenant, Role.ADMIN)
        given = InvitationInput(data=request.data)
        given.is_valid(raise_exception=True)
        body = given.validated_data
        invitation, link = invite(
            by=by,
            tenant=tenant,
            role=Role(body["role"]),
            email=body["email"],
            days=body["expires_in_days"],
        )
        return created(request, {**InvitationOutput(invitation).data, "link": link}, invitation.key)


class InvitationDetail(APIView):
    scope = Scope.MANAGE

    @extend_schema(responses={204: None})
    def delete(self, request: Request, name: str, key: str) -> Response:
        """Revoke an invitation: its link stops working. For admins of the tenant."""
        by = viewer(request)
        invitation_revoke(by=by, tenant=tenant_get(by, name), key=key)
        return Response(status=204)


class _ForAnybody(APIView):
    """For anyone who has a link, signed in or not; the link alone grants the right."""

    permission_classes = [AllowAny]

    def get_authenticators(self) -> list[BaseAuthentication]:
        return []


class InvitationLook(_ForAnybody):
    @extend_schema(request=InvitationSecret, responses={200: InvitationOffer}, auth=NO_AUTHENTICATION)
    def post(self, request: Request) -> Response:
        """Show what an invitation link invites to."""
        given = InvitationSecret(data=request.data)
        given.is_valid(raise_exception=True)
        found = invitation_found(given.validated_data["invitation"])
        offer = {
            "tenant": found.tenant.name,
            "title": found.tenant.title,
            "role": found.role,
            "invited_by": found.invited_by.username,
            "expires_at": found.expires_at,
        }
        return Response(InvitationOffer(offer).data)


class InvitationAccept(APIView):
    scope = Scope.MANAGE

    @extend_schema(request=InvitationSecret, responses={200: MeTenant})
    def post(self, request: Request) -> Response:
        """Accept an invitation and become a member. An invitation works once."""
        given = InvitationSecret(data=request.data)
        given.is_valid(raise_exception=True)
        membership = invitation_accept(by=viewer(request), text=given.validated_data["invitation"])
        return Response({"name": membership.tenant.name, "role": membership.role})


class InvitationJoin(_ForAnybody):
    @extend_schema(request=NewAccount, responses={201: Me}, auth=NO_AUTHENTICATION)
    def post(self, request: Request) -> Response:
        """Create an account with an invitation, become a member and sign in."""
        given = NewAccount(data=request.data)
        given.is_valid(raise_exception=True)
        body = given.validated_data
        user = account_by_invitation(
            text=body["invitation"], username=body["username"], password=body["password"]
        )
        login(request._request, user)
        source().is_by("user", f"user {user.username}")
        record("user.sign-in", object_kind="user", object_id=user.pk, subject=user.username)
        return Response(me(request, viewer_of(user)), status=201)
