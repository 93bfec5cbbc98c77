"""How virtual clusters are divided among their tenants, over time, and which tenants lose by sharing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView, ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.pagination import ByPosition, NewestFirst
from scheduler.core.fairness.properties import WINDOW_SECONDS
from scheduler.forecasts.fairness.selectors import (
    may_see_credits,
    paid_by_minute,
    sample,
    sample_of_others,
    samples_of_others,
    samples_visible,
    tenants_seen,
    violations_visible,
    with_tiers,
)
from scheduler.models.fairness import FairnessSample, FairnessState, FairnessViolation
from scheduler.models.selectors.virtual_clusters import virtual_cluster_get
from scheduler.wiring.clock import database_now
from scheduler.wiring.representation import OTHERS
from scheduler.wiring.rest import checked
from tenants.models import VirtualCluster
from tenants.selectors import Viewer, viewer
from tenants.times import iso

HOURS = 24.0
MOST_HOURS = 24.0 * 14
_MINUTE = timedelta(minutes=1)


class _ByModel(serializers.DictField):
    child = serializers.FloatField()


class TenantFairness(serializers.Serializer[Mapping[str, object]]):
    tenant = serializers.CharField(
        help_text=f'Name, or "{OTHERS}": all tenants together that are not the reader\'s.'
    )
    weight = serializers.FloatField()
    jobs_running = serializers.IntegerField()
    jobs_waiting = serializers.IntegerField()
    demand_gpus = serializers.FloatField(
        help_text="Number of GPUs that its guaranteed jobs could use at once."
    )
    own_part = _ByModel(help_text="Its part, by weight, of the virtual cluster's own guarantee, in GPUs.")
    entitled = _ByModel(
        help_text=(
            "GPUs that it is entitled to: its own part as far as it can use it, and a share of "
            "what others leave."
        )
    )
    received = _ByModel(help_text="Number of GPUs that its guaranteed jobs hold now.")
    received_mean = serializers.FloatField(help_text="Mean number of GPUs that they held over the window.")
    entitled_mean = serializers.FloatField()
    rho_worst = serializers.FloatField(allow_null=True)
    rho_mean = serializers.FloatField(allow_null=True)
    envy = serializers.FloatField(
        help_text="0: no envy. 0.25: its own GPUs are worth a quarter less to it than another tenant's."
    )
    envies = serializers.CharField(allow_null=True)
    borrowed = serializers.FloatField()
    lent = serializers.FloatField()
    traded_in = _ByModel()
    traded_out = _ByModel()
    paid = serializers.FloatField(help_text="Credits that the virtual cluster paid in the window.")
    speed_here = serializers.FloatField(help_text="Speed of its jobs now, in GPUs of each job's best model.")
    speed_alone = serializers.FloatField(
        help_text="Speed that its jobs would have on its own part alone, in the same unit."
    )
    gain = serializers.FloatField(
        allow_null=True, help_text="speed_here divided by speed_alone, over the window."
    )
    better_off_alone = serializers.BooleanField()
    tier = serializers.CharField(
        allow_null=True,
        help_text=(
            'Tier ("premium", "standard" or "basic"), if the policy has tiers. An operator '
            "assigns tenants by the policy's parameters `premium` and `basic`."
        ),
    )
    guaranteed_fraction = serializers.FloatField(
        allow_null=True, help_text="Fraction of the demanded GPU time that the tier promises its jobs."
    )
    gpu_fraction = serializers.FloatField(
        allow_null=True,
        help_text=(
            "Fraction of the demanded GPU time that its guaranteed jobs received over the "
            "fraction's window. GPUs beyond a job's own size do not count. null: they demanded "
            "none."
        ),
    )


class Fairness(serializers.Serializer[Mapping[str, object]]):
    at = serializers.DateTimeField(allow_null=True)
    window_seconds = serializers.FloatField()
    fraction_seconds = serializers.FloatField(help_text="Window of `gpu_fraction`, in seconds.")
    policy = serializers.CharField()
    tenants = TenantFairness(many=True)
    open_violations = serializers.IntegerField(help_text="Number of open violations that the reader may see.")


class FairnessMinute(serializers.Serializer[Mapping[str, object]]):
    at = serializers.DateTimeField(help_text="Start of the minute.")
    tenant = serializers.CharField()
    entitled = serializers.FloatField()
    received = serializers.FloatField()
    rho_worst = serializers.FloatField(allow_null=True)
    rho_mean = serializers.FloatField(allow_null=True)
    envy = serializers.FloatField()
    borrowed = serializers.FloatField()
    lent = serializers.FloatField()
    traded = serializers.FloatField()
    paid = serializers.FloatField()
    gain = serializers.FloatField(allow_null=True)
    gpu_fraction = serializers.FloatField(allow_null=True)


class Violation(serializers.Serializer[Mapping[str, object]]):
    id = serializers.IntegerField()
    virtual_cluster = serializers.CharField()
    tenant = serializers.CharField()
    began_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)
    worst = serializers.FloatField(help_text="Lowest speed of its jobs relative to their speed alone.")
    lost_gpu_seconds = serializers.FloatField()
    cause = serializers.CharField()
    message = serializers.CharField()
    round_number = serializers.IntegerField()


class HistoryQuery(serializers.Serializer[Mapping[str, object]]):
    tenant = serializers.CharField(
        required=False,
        max_length=63,
        help_text=f'Only this tenant. "{OTHERS}": the sum of all that are not the reader\'s.',
    )
    hours = serializers.FloatField(
        default=HOURS,
        min_value=0.01,
        max_value=MOST_HOURS,
        help_text="Length of the period that ends now, in hours.",
    )


class ViolationFilter(filters.FilterSet):
    virtual_cluster = filters.CharFilter(field_name="virtual_cluster")
    tenant = filters.CharFilter(field_name="tenant")
    open = filters.BooleanFilter(
        field_name="ended_at", lookup_expr="isnull", help_text="Only violations that have not ended."
    )

    class Meta:
        model = FairnessViolation
        fields: list[str] = []


class VirtualClusterFairness(APIView):
    @extend_schema(responses=Fairness)
    def get(self, request: Request, name: str) -> Response:
        """Show how a virtual cluster is divided among its tenants: the reader's by name, all others
        together."""
        by, virtual_cluster = viewer(request), virtual_cluster_get(name)
        state = FairnessState.objects.filter(virtual_cluster=name).first()
        goes_on = violations_visible(by).filter(virtual_cluster=name, ended_at__isnull=True)
        rows, fraction_seconds = with_tiers(
            state.tenants if state else [], virtual_cluster, state.at if state else database_now()
        )
        tenants = tenants_seen(by, rows)
        paid = _paid(by, name, state.at) if state else 0.0
        return Response(
            {
                "at": iso(state.at) if state else None,
                "window_seconds": WINDOW_SECONDS,
                "fraction_seconds": fraction_seconds,
                "policy": state.policy if state else virtual_cluster.policy,
                "tenants": [
                    {**tenant, "paid": 0.0 if tenant["tenant"] == OTHERS else paid} for tenant in tenants
                ],
                "open_violations": goes_on.count(),
            }
        )


def _paid(by: Viewer, name: str, at: datetime) -> float:
    """Return the credits that the virtual cluster paid in the window, if that is the reader's business."""
    if not may_see_credits(by, name):
        return 0.0
    return sum(paid_by_minute(name, at - timedelta(seconds=WINDOW_SECONDS), at + _MINUTE).values())


class VirtualClusterFairnessHistory(GenericAPIView[Any]):
    """List what the reader's tenants had in a virtual cluster in each minute, oldest first."""

    is_heavy = True
    queryset = FairnessSample.objects.none()
    serializer_class = FairnessMinute
    ordering = "id"

    @extend_schema(parameters=[HistoryQuery], responses=FairnessMinute(many=True))
    def get(self, request: Request, name: str) -> Response:
        query = checked(HistoryQuery, request)
        by, virtual_cluster = viewer(request), virtual_cluster_get(name)
        since = database_now() - timedelta(hours=query["hours"])
        if query.get("tenant") == OTHERS:
            return self._others(by, virtual_cluster, since)
        samples = samples_visible(by, name).filter(at__gte=since)
        if "tenant" in query:
            samples = samples.filter(tenant=query["tenant"])
        pages = NewestFirst()
        rows: Sequence[Any] = pages.paginate_queryset(samples, request, self)
        paid = self._paid(by, name, [row.at for row in rows])
        return pages.get_paginated_response([sample(row, paid.get(row.at, 0.0)) for row in rows])

    def _others(self, by: Viewer, virtual_cluster: VirtualCluster, since: datetime) -> Response:
        minutes: QuerySet[Any, Any] = samples_of_others(by, virtual_cluster.name).filter(at__gte=since)
        pages = ByPosition()
        page = pages.page_of(minutes.count(), self.request)
        return pages.get_paginated_response(
            [sample_of_others(row, 0.0) for row in minutes[page.start : page.stop]]
        )

    def _paid(self, by: Viewer, name: str, minutes: Sequence[datetime]) -> Mapping[datetime, float]:
        if not minutes or not may_see_credits(by, name):
            return {}
        return paid_by_minute(name, min(minutes), max(minutes) + _MINUTE)


class Violations(ListAPIView[Any]):
    """List fairness violations, newest first. A violation is a period in which a tenant's jobs ran slower
    than they would have on the tenant's own part alone. Members see their tenants, operators all.
    """

    queryset = FairnessViolation.objects.none()
    serializer_class = Violation
    filterset_class = ViolationFilter

    def get_queryset(self) -> QuerySet[FairnessViolation]:
        return violations_visible(viewer(self.request))

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response([_violation(row) for row in page or ()])


def _violation(row: FairnessViolation) -> dict[str, Any]:
    return {
        "id": row.id,
        "virtual_cluster": row.virtual_cluster,
        "tenant": row.tenant,
        "began_at": iso(row.began_at),
        "ended_at": iso(row.ended_at),
        "worst": round(row.worst, 3),
        "lost_gpu_seconds": round(row.lost_gpu_seconds, 1),
        "cause": row.cause,
        "message": row.message,
        "round_number": row.round_number,
    }
