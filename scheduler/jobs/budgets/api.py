"""What a tenant may use up in a period, and what of it is used."""

from __future__ import annotations

from collections.abc import Mapping

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from scheduler.jobs.budgets.services import budget_remove, budget_set, budget_state
from scheduler.models.budgets import BudgetAction, BudgetPeriod, BudgetUnit
from tenants.api.strict import StrictSerializer
from tenants.models import Scope
from tenants.selectors import tenant_get, viewer

_MOST = 1e12


class BudgetTerms(serializers.Serializer[Mapping[str, object]]):
    amount = serializers.FloatField()
    unit = serializers.ChoiceField(choices=BudgetUnit.choices)
    period = serializers.ChoiceField(choices=BudgetPeriod.choices)
    action = serializers.ChoiceField(choices=BudgetAction.choices)
    starts_at = serializers.DateTimeField(help_text="Nothing before this counts.")


class BudgetState(serializers.Serializer[Mapping[str, object]]):
    budget = BudgetTerms(allow_null=True, help_text="null: none; the GPU-hours are then the month's.")
    used = serializers.FloatField(help_text="By all jobs until now, those that run included.")
    counts_from = serializers.DateTimeField()
    ends_at = serializers.DateTimeField(allow_null=True, help_text="When it is renewed; null: never.")
    used_last_day = serializers.FloatField(help_text="In the last 24 hours.")
    expected = serializers.FloatField(
        allow_null=True, help_text="Used by the end of the period if all goes on as in the last 24 hours."
    )
    reached_at = serializers.DateTimeField(
        allow_null=True, help_text="When the budget will then be used up; null: not in this period, or it is."
    )
    is_holding = serializers.BooleanField(help_text="It is used up, and nothing of the tenant is started.")


class BudgetInput(StrictSerializer):
    amount = serializers.FloatField(min_value=0.001, max_value=_MOST)
    unit = serializers.ChoiceField(choices=BudgetUnit.choices, default=BudgetUnit.GPU_HOURS)
    period = serializers.ChoiceField(choices=BudgetPeriod.choices, default=BudgetPeriod.MONTH)
    action = serializers.ChoiceField(choices=BudgetAction.choices, default=BudgetAction.WARN)
    starts_at = serializers.DateTimeField(
        required=False,
        help_text="Left out: the beginning of the period that runs, or now where there are no periods.",
    )


class TenantBudget(APIView):
    scope = Scope.OPERATE

    @extend_schema(responses=BudgetState)
    def get(self, request: Request, name: str) -> Response:
        """A tenant's budget, what of it is used, and what is expected."""
        return Response(budget_state(tenant_get(viewer(request), name)))

    @extend_schema(request=BudgetInput, responses=BudgetState)
    def put(self, request: Request, name: str) -> Response:
        """Give a tenant a budget, or another one. For operators."""
        by = viewer(request)
        tenant = tenant_get(by, name)
        by.require_operator()
        given = BudgetInput(data=request.data)
        given.is_valid(raise_exception=True)
        budget_set(by=by, tenant=tenant, **given.validated_data)
        return Response(budget_state(tenant))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, name: str) -> Response:
        """Take a tenant's budget away, so that nothing limits what it uses up. For operators."""
        by = viewer(request)
        tenant = tenant_get(by, name)
        by.require_operator()
        budget_remove(by=by, tenant=tenant)
        return Response(status=204)
