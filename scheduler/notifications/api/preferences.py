"""What the caller wants by e-mail, and where it goes."""

from __future__ import annotations

from collections.abc import Mapping

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from scheduler.models.notifications import JobNotices
from scheduler.notifications.services.preferences import (
    address_confirm,
    address_set,
    settings_change,
    settings_of,
)
from tenants.api.editions import Edited
from tenants.api.strict import StrictSerializer
from tenants.models import Scope
from tenants.selectors import viewer


class NotificationSettings(serializers.Serializer[Mapping[str, object]]):
    address = serializers.CharField(
        allow_blank=True, help_text="E-mail address for mail; empty: no mail is sent."
    )
    can_send = serializers.BooleanField(help_text="Whether the server can send mail.")
    jobs = serializers.ChoiceField(
        choices=JobNotices.choices,
        help_text="E-mail about your own jobs, unless a job sets `notify`.",
    )
    tenants = serializers.BooleanField(
        help_text=(
            "E-mail about budgets and webhooks of the tenants that you administer; for "
            "operators, of the cluster."
        )
    )
    cluster = serializers.BooleanField(help_text="E-mail about lost and cordoned nodes, for operators.")
    problem = serializers.CharField(
        allow_blank=True, help_text="Why the last mail could not be sent; sending is retried."
    )


class NotificationChange(StrictSerializer):
    """Changes to an object. Fields that are left out stay as they are."""

    jobs = serializers.ChoiceField(choices=JobNotices.choices, required=False)
    tenants = serializers.BooleanField(required=False)
    cluster = serializers.BooleanField(required=False)


class AddressInput(StrictSerializer):
    address = serializers.EmailField(max_length=254, allow_blank=True)


class AddressAnswer(serializers.Serializer[Mapping[str, object]]):
    address = serializers.CharField(allow_blank=True, help_text="The address in use now.")
    confirmation_sent = serializers.BooleanField(
        help_text=(
            "Whether a confirmation link was mailed to the new address. The address is used "
            "after the link is opened."
        )
    )


class AddressToken(StrictSerializer):
    token = serializers.CharField(max_length=1_000, help_text="The token in the mailed link.")


class Notifications(Edited):
    scope = Scope.MANAGE

    @extend_schema(responses=NotificationSettings)
    def get(self, request: Request) -> Response:
        """Show which e-mails the caller gets."""
        return Response(settings_of(viewer(request)))

    @extend_schema(request=NotificationChange, responses=NotificationSettings)
    def patch(self, request: Request) -> Response:
        """Change which e-mails the caller gets."""
        given = NotificationChange(data=request.data)
        given.is_valid(raise_exception=True)
        return Response(settings_change(by=viewer(request), **given.validated_data))


class NotificationAddress(APIView):
    scope = Scope.MANAGE

    @extend_schema(request=AddressInput, responses=AddressAnswer)
    def put(self, request: Request) -> Response:
        """Change the caller's e-mail address. If the server sends mail, the address has to be confirmed."""
        by, given = viewer(request), AddressInput(data=request.data)
        given.is_valid(raise_exception=True)
        counts = address_set(by=by, address=given.validated_data["address"])
        return Response({"address": by.user.email, "confirmation_sent": not counts})


class NotificationAddressConfirm(APIView):
    scope = Scope.MANAGE

    @extend_schema(request=AddressToken, responses=AddressAnswer)
    def post(self, request: Request) -> Response:
        """Confirm an e-mail address by the link that was mailed to it."""
        given = AddressToken(data=request.data)
        given.is_valid(raise_exception=True)
        address = address_confirm(by=viewer(request), token=given.validated_data["token"])
        return Response({"address": address, "confirmation_sent": False})
