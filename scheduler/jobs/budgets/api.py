"""What a tenant, and a member of it, may hold at once and use up in a period, and what of it is used."""

from __future__ import annotations

from collections.abc import Mapping

from django.db.models import Q, QuerySet
from django.http import StreamingHttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from scheduler.jobs.budgets.figures import columns, shown, shown_row
from scheduler.jobs.budgets.schemas import (
    Held,
    LimitsOfUser,
    UsageFileQuery,
    UsageQuery,
    UsageReport,
    UserQuotaInput,
    UserQuotaState,
)
from scheduler.jobs.budgets.selectors import (
    GROUPINGS,
    UsageQuestion,
    held_now,
    member_get,
    usage,
    user_quota_state,
)
from scheduler.jobs.budgets.services import Owner, budget_remove, budget_set, budget_state, user_quota_set
from scheduler.models.budgets import Budget, BudgetAction, BudgetPeriod, BudgetUnit
from scheduler.models.selectors.money import currency
from scheduler.wiring.clock import database_now
from scheduler.wiring.exports import FILE_ANSWERS, AnyFile, file_of, format_of
from scheduler.wiring.rest import checked
from scheduler.wiring.schemas import Currency
from tenants.api.editions import Edited
from tenants.api.strict import StrictSerializer
from tenants.errors import FieldError, Invalid
from tenants.models import Membership, Role, Scope
from tenants.selectors import tenant_get, viewer

_MOST = 1e12


class BudgetTerms(serializers.Serializer[Mapping[str, object]]):
    amount = serializers.FloatField()
    unit = serializers.ChoiceField(choices=BudgetUnit.choices)
    period = serializers.ChoiceField(choices=BudgetPeriod.choices)
    action = serializers.ChoiceField(choices=BudgetAction.choices)
    starts_at = serializers.DateTimeField(help_text="Use before this time does not count.")


class BudgetState(serializers.Serializer[Mapping[str, object]]):
    budget = BudgetTerms(
        allow_null=True, help_text="The budget. null: none; the figures are then GPU-hours of this month."
    )
    used = serializers.FloatField(help_text="Used by all jobs until now, running jobs included.")
    counts_from = serializers.DateTimeField()
    ends_at = serializers.DateTimeField(allow_null=True, help_text="When the budget is renewed; null: never.")
    used_last_day = serializers.FloatField(help_text="Used in the last 24 hours.")
    expected = serializers.FloatField(
        allow_null=True,
        help_text="Expected use at the end of the period, if use goes on as in the last 24 hours.",
    )
    reached_at = serializers.DateTimeField(
        allow_null=True,
        help_text="When the budget will then be used up; null: not in this period, or it is used up already.",
    )
    currency = Currency()
    is_holding = serializers.BooleanField(
        help_text="Whether the budget is used up and no further job of the tenant starts."
    )


class BudgetInput(StrictSerializer):
    amount = serializers.FloatField(min_value=0.001, max_value=_MOST)
    unit = serializers.ChoiceField(choices=BudgetUnit.choices, default=BudgetUnit.GPU_HOURS)
    period = serializers.ChoiceField(choices=BudgetPeriod.choices, default=BudgetPeriod.MONTH)
    action = serializers.ChoiceField(choices=BudgetAction.choices, default=BudgetAction.WARN)
    starts_at = serializers.DateTimeField(
        required=False,
        help_text=(
            "Count use from this time. Default: the start of the current period, or now if there "
            "are no periods."
        ),
    )


class BudgetOfTenant(serializers.ModelSerializer[Budget]):
    tenant = serializers.CharField(source="tenant.name")
    is_spent = serializers.BooleanField(help_text="Whether it was used up at the last check.")

    class Meta:
        model = Budget
        fields = ["tenant", "amount", "unit", "period", "action", "starts_at", "is_spent"]
        read_only_fields = fields


class Budgets(ListAPIView[Budget]):
    """List the budgets of the caller's tenants, newest tenant first; operators see all.

    `/tenants/{name}/budget` computes how much of one budget is used.
    """

    serializer_class = BudgetOfTenant
    queryset = Budget.objects.none()
    ordering = "-tenant_id"

    def get_queryset(self) -> QuerySet[Budget]:
        return Budget.objects.filter(tenant__in=viewer(self.request).tenants()).select_related("tenant")


class TenantBudget(Edited):
    scope = Scope.OPERATE
    edition = ("budget",)

    @extend_schema(responses=BudgetState)
    def get(self, request: Request, name: str) -> Response:
        """Show a tenant's budget, its use so far, and its expected use."""
        return Response(budget_state(Owner(tenant_get(viewer(request), name))))

    @extend_schema(request=BudgetInput, responses=BudgetState)
    def put(self, request: Request, name: str) -> Response:
        """Set the budget of a tenant. For operators."""
        by = viewer(request)
        tenant = tenant_get(by, name)
        by.require_operator()
        given = BudgetInput(data=request.data)
        given.is_valid(raise_exception=True)
        budget_set(by=by, owner=Owner(tenant), **given.validated_data)
        return Response(budget_state(Owner(tenant)))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, name: str) -> Response:
        """Remove the budget of a tenant; its use is then unlimited. For operators."""
        by = viewer(request)
        tenant = tenant_get(by, name)
        by.require_operator()
        budget_remove(by=by, owner=Owner(tenant))
        return Response(status=204)


class UserLimits(ListAPIView[Membership]):
    """List quotas and budgets of a tenant's members; members without limits are left out.

    Members see their own, admins of the tenant and operators see all.
    """

    serializer_class = LimitsOfUser
    queryset = Membership.objects.none()

    def get_queryset(self) -> QuerySet[Membership]:
        by = viewer(self.request)
        tenant = tenant_get(by, self.kwargs["name"])
        limited = Q(quota__isnull=False) | Q(budget__isnull=False)
        rows = Membership.objects.filter(limited, tenant=tenant).select_related("user", "quota", "budget")
        return rows if by.may(tenant, Role.ADMIN) else rows.filter(user=by.user)


class UserQuotaView(Edited):
    scope = Scope.MANAGE
    edition = ("gpus", "cpus", "memory_bytes")

    @extend_schema(responses=UserQuotaState)
    def get(self, request: Request, name: str, username: str) -> Response:
        """Show a member's quota, and what the member holds now. For the member, and for admins of the
        tenant."""
        return Response(user_quota_state(member_get(viewer(request), name, username)))

    @extend_schema(request=UserQuotaInput, responses=UserQuotaState)
    def put(self, request: Request, name: str, username: str) -> Response:
        """Set the quota of a member, within the tenant's. null: no limit besides the tenant's. For admins of
        the tenant.
        """
        by = viewer(request)
        membership = member_get(by, name, username, role=Role.ADMIN)
        given = UserQuotaInput(data=request.data)
        given.is_valid(raise_exception=True)
        user_quota_set(by=by, membership=membership, **given.validated_data)
        return Response(user_quota_state(membership))


class UserBudgetView(Edited):
    scope = Scope.MANAGE
    edition = ("budget",)

    @extend_schema(responses=BudgetState)
    def get(self, request: Request, name: str, username: str) -> Response:
        """Show a member's budget, its use so far, and its expected use. For the member, and for admins of the
        tenant.
        """
        return Response(budget_state(_owner(member_get(viewer(request), name, username))))

    @extend_schema(request=BudgetInput, responses=BudgetState)
    def put(self, request: Request, name: str, username: str) -> Response:
        """Set the budget of a member, within the tenant's. For admins of the tenant."""
        by = viewer(request)
        owner = _owner(member_get(by, name, username, role=Role.ADMIN))
        given = BudgetInput(data=request.data)
        given.is_valid(raise_exception=True)
        budget_set(by=by, owner=owner, **given.validated_data)
        return Response(budget_state(owner))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, name: str, username: str) -> Response:
        """Remove the budget of a member. For admins of the tenant."""
        by = viewer(request)
        budget_remove(by=by, owner=_owner(member_get(by, name, username, role=Role.ADMIN)))
        return Response(status=204)


def _owner(membership: Membership) -> Owner:
    return Owner(membership.tenant, membership)


class TenantHeld(APIView):
    @extend_schema(responses=Held)
    def get(self, request: Request, name: str) -> Response:
        """Show what a tenant's jobs hold now, as its quota counts it."""
        return Response(held_now(tenant_get(viewer(request), name)))


def _question(request: Request, known: type[UsageQuery] = UsageQuery) -> UsageQuestion:
    given, now = checked(known, request), database_now()
    given.pop("format", None)
    by = [name.strip() for name in given.pop("by").split(",")]
    unknown = [name for name in by if name not in GROUPINGS]
    if unknown or len(set(by)) < len(by):
        problem = f"{unknown[0][:80]!r} is not a grouping" if unknown else ("names a grouping twice")
        expected = f"one or more of: {', '.join(GROUPINGS)}"
        raise Invalid.of(FieldError("by", problem, expected))
    first = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    since, until = given.pop("since", first), min(given.pop("until", now), now)
    if since >= until:
        problem, expected = "is not before until, or in the future", "an instant before until"
        raise Invalid(f"since {problem}.", [FieldError("since", problem, expected)])
    return UsageQuestion(since=since, until=until, by=by, **given)


class UsageOfGpus(APIView):
    is_heavy = True

    @extend_schema(parameters=[UsageQuery], responses=UsageReport)
    def get(self, request: Request) -> Response:
        """Show GPU-hours used and their cost, grouped by tenant, user or other properties.

        Members see the use of their tenants; admins of a tenant can also group it by user. Operators see all
        tenants.
        """
        question = _question(request)
        found, code = usage(viewer(request), question), currency()
        return Response(
            {
                "since": question.since,
                "until": question.until,
                "by": question.by,
                "rows": [shown_row(row, code) for row in found.rows],
                "total": shown(found.total, code),
            }
        )


class UsageExport(APIView):
    is_heavy = True
    content_negotiation_class = AnyFile

    @extend_schema(parameters=[UsageFileQuery], responses=FILE_ANSWERS)
    def get(self, request: Request) -> StreamingHttpResponse:
        """Export the use as a CSV or Parquet file, without the total."""
        question = _question(request, UsageFileQuery)
        code = currency()
        rows = [shown_row(row, code) for row in usage(viewer(request), question).rows]
        return file_of(format_of(request), "usage", columns(question.by), [rows])
