"""Which usage reports the caller gets by mail."""

from __future__ import annotations

from collections.abc import Mapping

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from scheduler.models.notifications import ReportPeriod, UsageSubscription
from scheduler.notifications.services.usage_reports import subscribe, subscriptions_of
from tenants.api.strict import StrictSerializer
from tenants.models import Scope
from tenants.selectors import tenant_get, viewer


class UsageSubscriptionOutput(serializers.ModelSerializer[UsageSubscription]):
    tenant = serializers.CharField(
        source="tenant.name",
        allow_null=True,
        default=None,
        help_text="Tenant of the report; null: the whole cluster.",
    )
    period = serializers.ChoiceField(choices=ReportPeriod.choices)
    reported_until = serializers.DateTimeField(help_text="The next report starts at this time.")

    class Meta:
        model = UsageSubscription
        ref_name = "UsageSubscription"
        fields = ["tenant", "period", "reported_until"]
        read_only_fields = fields


class UsageSubscriptionInput(StrictSerializer):
    tenant = serializers.CharField(
        max_length=63,
        required=False,
        allow_null=True,
        default=None,
        help_text="Tenant of the report. Default: the whole cluster, for operators.",
    )
    period = serializers.ChoiceField(
        choices=ReportPeriod.choices,
        allow_null=True,
        help_text="How often the report is sent; null: no more reports.",
    )


class UsageSubscriptionAnswer(serializers.Serializer[Mapping[str, object]]):
    tenant = serializers.CharField(allow_null=True)
    period = serializers.ChoiceField(choices=ReportPeriod.choices, allow_null=True)


class UsageReports(ListAPIView[UsageSubscription]):
    """List the usage reports that the caller gets by e-mail."""

    scope = Scope.MANAGE
    serializer_class = UsageSubscriptionOutput
    queryset = UsageSubscription.objects.none()

    def get_queryset(self) -> QuerySet[UsageSubscription]:
        return subscriptions_of(viewer(self.request))

    @extend_schema(request=UsageSubscriptionInput, responses={200: UsageSubscriptionAnswer})
    def post(self, request: Request) -> Response:
        """Subscribe to usage reports of a tenant by e-mail, change how often they come, or end them. For
        admins of the tenant; operators can also subscribe to the whole cluster.
        """
        by = viewer(request)
        given = UsageSubscriptionInput(data=request.data)
        given.is_valid(raise_exception=True)
        name, period = given.validated_data["tenant"], given.validated_data["period"]
        tenant = tenant_get(by, name) if name is not None else None
        subscribe(by=by, tenant=tenant, period=ReportPeriod(period) if period else None)
        return Response({"tenant": name, "period": period})
