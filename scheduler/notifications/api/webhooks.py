"""Webhooks of tenants, for their admins, and of the cluster, for operators; and what was sent to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from scheduler.models.notifications import Delivery, DeliveryState, Webhook
from scheduler.notifications.services.delivery import MOST_CHARACTERS
from scheduler.notifications.services.topics import TOPICS
from scheduler.notifications.services.webhooks import (
    redeliver,
    require_owner,
    secret_rotate,
    webhook_change,
    webhook_get,
    webhook_make,
    webhook_remove,
    webhook_test,
)
from scheduler.wiring.rest import checked
from tenants.api.answers import created
from tenants.api.editions import Edited
from tenants.api.strict import StrictSerializer
from tenants.models import Scope
from tenants.selectors import tenant_get, viewer

_TOPICS = [(topic, topic) for topic in TOPICS]


class WebhookOutput(serializers.ModelSerializer[Webhook]):
    tenant = serializers.CharField(
        source="tenant.name",
        allow_null=True,
        default=None,
        help_text="Tenant of the webhook; null: the operators', for events of all tenants.",
    )
    title = serializers.CharField(allow_blank=True)
    topics = serializers.ListField(child=serializers.ChoiceField(choices=_TOPICS))
    active = serializers.BooleanField()
    failures = serializers.IntegerField(help_text="Number of consecutive failed attempts.")
    failing_since = serializers.DateTimeField(
        allow_null=True, help_text="Time of the first of these failures; nothing was delivered since."
    )
    problem = serializers.CharField(
        allow_blank=True, help_text="Why the platform switched it off; empty if it did not."
    )
    held_until = serializers.DateTimeField(
        allow_null=True, help_text="End of the back-off: nothing is sent before; null: no failure."
    )
    old_secret_ends_at = serializers.DateTimeField(
        source="old_seed_ends_at",
        allow_null=True,
        help_text="Until this time each message is also signed with the old secret.",
    )

    class Meta:
        model = Webhook
        ref_name = "Webhook"
        fields = [
            "id", "tenant", "url", "title", "topics", "active", "created_at", "created_by", "failures",
            "failing_since", "held_until", "old_secret_ends_at", "problem",
        ]  # fmt: skip


class NewWebhookOutput(WebhookOutput):
    secret = serializers.CharField(allow_null=True, help_text="The secret, in this answer only.")

    class Meta(WebhookOutput.Meta):
        ref_name = "NewWebhook"
        fields = [*WebhookOutput.Meta.fields, "secret"]


class WebhookInput(StrictSerializer):
    tenant = serializers.CharField(
        max_length=63,
        required=False,
        allow_null=True,
        help_text="Tenant of the webhook. Default: the cluster, for operators.",
    )
    url = serializers.CharField(max_length=MOST_CHARACTERS, help_text="https://host/path")
    title = serializers.CharField(max_length=120, required=False, allow_blank=True, default="")
    topics = serializers.ListField(
        child=serializers.ChoiceField(choices=_TOPICS), allow_empty=False, max_length=len(TOPICS)
    )
    active = serializers.BooleanField(required=False, default=True)


class WebhookChange(StrictSerializer):
    """Changes to an object. Fields that are left out stay as they are."""

    url = serializers.CharField(max_length=MOST_CHARACTERS, required=False)
    title = serializers.CharField(max_length=120, required=False, allow_blank=True)
    topics = serializers.ListField(
        child=serializers.ChoiceField(choices=_TOPICS),
        allow_empty=False,
        max_length=len(TOPICS),
        required=False,
    )
    active = serializers.BooleanField(required=False)


class WebhookQuery(serializers.Serializer[Mapping[str, object]]):
    tenant = serializers.CharField(
        max_length=63,
        required=False,
        help_text="Only webhooks of this tenant. Default: those of the cluster, for operators.",
    )


class DeliveryOutput(serializers.ModelSerializer[Delivery]):
    message = serializers.UUIDField(help_text="Message id, sent as `webhook-id`; the same in each attempt.")
    topic = serializers.CharField(help_text="`test`, or one of the webhook's topics.")
    body = serializers.CharField(help_text="Body of the message, as it is sent.")
    state = serializers.ChoiceField(choices=DeliveryState.choices)
    tries = serializers.IntegerField()
    status = serializers.IntegerField(
        allow_null=True, help_text="HTTP status of the last attempt's response."
    )
    reply = serializers.CharField(help_text="First bytes of that response's body.")
    tried_at = serializers.DateTimeField(allow_null=True)
    seconds = serializers.FloatField(allow_null=True, help_text="Duration of the last attempt, in seconds.")
    problem = serializers.CharField(help_text="Why the last attempt got no response.")
    until = serializers.DateTimeField(help_text="After this time a failed attempt is the last one.")

    class Meta:
        model = Delivery
        ref_name = "Delivery"
        fields = [
            "id", "message", "topic", "body", "created_at", "state", "tries", "tried_at", "next_at", "until",
            "status", "reply", "seconds", "problem",
        ]  # fmt: skip


class DeliveryQuery(serializers.Serializer[Mapping[str, object]]):
    state = serializers.ChoiceField(choices=DeliveryState.choices, required=False)


class Webhooks(ListAPIView[Webhook]):
    scope = Scope.MANAGE
    queryset = Webhook.objects.none()
    serializer_class = WebhookOutput
    query_serializer = WebhookQuery

    def get_queryset(self) -> QuerySet[Webhook]:
        by = viewer(self.request)
        name = checked(WebhookQuery, self.request).get("tenant")
        tenant = tenant_get(by, name) if name else None
        require_owner(by, tenant)
        return Webhook.objects.filter(tenant=tenant).select_related("tenant")

    @extend_schema(parameters=[WebhookQuery])
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """List webhooks, newest first. Admins list those of their tenant, operators also those of the
        cluster."""
        return self.list(request, *args, **kwargs)

    @extend_schema(request=WebhookInput, responses={201: NewWebhookOutput})
    def post(self, request: Request) -> Response:
        """Create a webhook; its secret is shown once. For admins of the tenant, and operators."""
        by, given = viewer(request), WebhookInput(data=request.data)
        name = request.data.get("tenant") if isinstance(request.data, dict) else None
        tenant = tenant_get(by, name) if isinstance(name, str) else None
        require_owner(by, tenant)
        given.is_valid(raise_exception=True)
        body = {key: value for key, value in given.validated_data.items() if key != "tenant"}
        webhook, secret = webhook_make(by=by, tenant=tenant, **body)
        return created(request, _with_secret(webhook, secret), webhook.id)


class WebhookDetail(Edited):
    scope = Scope.MANAGE
    edition = ("id", "url", "title", "topics", "active")

    @extend_schema(responses=WebhookOutput)
    def get(self, request: Request, webhook_id: int) -> Response:
        """Get one webhook. For admins of its tenant, and operators."""
        return Response(WebhookOutput(webhook_get(viewer(request), webhook_id)).data)

    @extend_schema(request=WebhookChange, responses=WebhookOutput)
    def patch(self, request: Request, webhook_id: int) -> Response:
        """Change a webhook. Switching it on again resets its failures."""
        by = viewer(request)
        webhook, given = webhook_get(by, webhook_id), WebhookChange(data=request.data)
        given.is_valid(raise_exception=True)
        return Response(WebhookOutput(webhook_change(by=by, webhook=webhook, **given.validated_data)).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, webhook_id: int) -> Response:
        """Remove a webhook and the messages that wait for it."""
        by = viewer(request)
        webhook_remove(by=by, webhook=webhook_get(by, webhook_id))
        return Response(status=204)


class WebhookSecret(APIView):
    scope = Scope.MANAGE

    @extend_schema(request=None, responses=NewWebhookOutput)
    def post(self, request: Request, webhook_id: int) -> Response:
        """Create a new secret for a webhook, shown once. The old secret also signs messages for one more
        day."""
        by = viewer(request)
        return Response(_with_secret(*secret_rotate(by=by, webhook=webhook_get(by, webhook_id))))


class WebhookTest(APIView):
    scope = Scope.MANAGE

    @extend_schema(request=None, responses={202: DeliveryOutput})
    def post(self, request: Request, webhook_id: int) -> Response:
        """Send a test message, which reports no event."""
        by = viewer(request)
        delivery = webhook_test(by=by, webhook=webhook_get(by, webhook_id))
        return Response(DeliveryOutput(delivery).data, status=202)


class Deliveries(ListAPIView[Delivery]):
    queryset = Delivery.objects.none()
    serializer_class = DeliveryOutput
    query_serializer = DeliveryQuery

    def get_queryset(self) -> QuerySet[Delivery]:
        webhook = webhook_get(viewer(self.request), self.kwargs["webhook_id"])
        state = checked(DeliveryQuery, self.request).get("state")
        rows = Delivery.objects.filter(webhook=webhook)
        return rows.filter(state=state) if state else rows

    @extend_schema(parameters=[DeliveryQuery])
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """List messages sent to a webhook or waiting for it, newest first. They are kept for 30 days."""
        return self.list(request, *args, **kwargs)


class Redelivery(APIView):
    scope = Scope.MANAGE

    @extend_schema(request=None, responses={202: DeliveryOutput})
    def post(self, request: Request, webhook_id: int, delivery_id: int) -> Response:
        """Send a message again, with the same id."""
        by = viewer(request)
        delivery = redeliver(by=by, webhook=webhook_get(by, webhook_id), delivery_id=delivery_id)
        return Response(DeliveryOutput(delivery).data, status=202)


def _with_secret(webhook: Webhook, secret: str) -> dict[str, Any]:
    webhook.secret = secret  # type: ignore[attr-defined]
    return dict(NewWebhookOutput(webhook).data)
