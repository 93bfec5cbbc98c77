"""Tenants, their members and their quota."""

from __future__ import annotations

import re
from collections.abc import Mapping

from django.db.models import Count, Q, QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from tenants.api.answers import created
from tenants.api.editions import Edited
from tenants.api.strict import StrictSerializer
from tenants.models import ANY_MODEL, SLUG, Membership, Role, Scope, Tenant
from tenants.selectors import Viewer, quota_of, tenant_get, viewer
from tenants.services import (
    ProblemsWithModels,
    member_remove,
    member_set,
    quota_set,
    tenant_change,
    tenant_create,
    tenant_remove,
)

QUOTA_LINES = 64
MOST_CPUS = 10_000_000
#: An exbibyte.
MOST_MEMORY_BYTES = 2**60
GPU_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


class TenantInput(StrictSerializer):
    name = serializers.CharField(max_length=63, validators=[SLUG])
    title = serializers.CharField(max_length=120, allow_blank=True, default="")


class TenantChange(StrictSerializer):
    title = serializers.CharField(max_length=120, allow_blank=True, required=False)
    most_unfinished_jobs = serializers.IntegerField(
        min_value=0,
        max_value=10_000_000,
        required=False,
        allow_null=True,
        help_text="Maximum number of jobs that it has queued or running; null: the server's setting.",
    )


class TenantOutput(serializers.ModelSerializer[Tenant]):
    role = serializers.SerializerMethodField(help_text="The viewer's role; an operator counts as admin.")
    members = serializers.IntegerField(help_text="Number of members.")
    quota = serializers.SerializerMethodField(
        help_text=f'Maximum number of GPUs held at once, by model; "{ANY_MODEL}" caps all models together.'
    )

    class Meta:
        model = Tenant
        fields = [
            "name",
            "title",
            "role",
            "members",
            "most_unfinished_jobs",
            "quota",
            "quota_cpus",
            "quota_memory_bytes",
            "created_at",
            "version",
        ]

    @extend_schema_field(serializers.ChoiceField(choices=Role.choices))
    def get_role(self, tenant: Tenant) -> str:
        viewer: Viewer = self.context["viewer"]
        return Role.ADMIN if viewer.is_operator else viewer.roles[tenant.pk]

    def get_quota(self, tenant: Tenant) -> dict[str, int]:
        # Sorted here, for a list has fetched the lines of all its tenants.
        return dict(sorted((line.gpu_model, line.gpus) for line in tenant.quotas.all()))


class MemberInput(StrictSerializer):
    role = serializers.ChoiceField(choices=Role.choices)


class MemberOutput(serializers.ModelSerializer[Membership]):
    username = serializers.CharField(source="user.username")
    email = serializers.CharField(source="user.email")

    class Meta:
        model = Membership
        fields = ["username", "email", "role"]


class Quota(StrictSerializer):
    limits = serializers.DictField(
        child=serializers.IntegerField(min_value=0, max_value=1_000_000),
        help_text=f'Maximum number of GPUs held at once, by model; "{ANY_MODEL}" caps all models together.',
    )
    cpus = serializers.FloatField(
        min_value=0,
        max_value=MOST_CPUS,
        default=None,
        allow_null=True,
        help_text="Maximum number of CPUs held at once, as jobs state them; null: no limit.",
    )
    memory_bytes = serializers.IntegerField(
        min_value=0,
        max_value=MOST_MEMORY_BYTES,
        default=None,
        allow_null=True,
        help_text="Maximum memory held at once, in bytes; null: no limit.",
    )

    def validate_limits(self, limits: Mapping[str, int]) -> Mapping[str, int]:
        if len(limits) > QUOTA_LINES:
            raise serializers.ValidationError(f"has {len(limits)} lines, more than {QUOTA_LINES}")
        wrong = [name for name in limits if name != ANY_MODEL and not GPU_MODEL.fullmatch(name)]
        if wrong:
            raise serializers.ValidationError({name: "is not the name of a GPU model" for name in wrong})
        return limits


class TenantFilter(filters.FilterSet):
    q = filters.CharFilter(method="by_text", help_text="Only tenants whose name or title contains this text.")

    def by_text(self, tenants: QuerySet[Tenant], name: str, value: str) -> QuerySet[Tenant]:
        return tenants.filter(Q(name__icontains=value) | Q(title__icontains=value))


class MemberFilter(filters.FilterSet):
    q = filters.CharFilter(
        field_name="user__username",
        lookup_expr="icontains",
        help_text="Only users whose name contains this text.",
    )


class TenantsView(ListAPIView[Tenant]):
    """List the caller's tenants, newest first; operators see all."""

    scope = Scope.OPERATE
    serializer_class = TenantOutput
    queryset = Tenant.objects.none()
    filterset_class = TenantFilter

    def get_queryset(self) -> QuerySet[Tenant]:
        tenants = viewer(self.request).tenants()
        return tenants.annotate(members=Count("memberships")).prefetch_related("quotas")

    def get_serializer_context(self) -> dict[str, object]:
        return {"viewer": viewer(self.request)}

    @extend_schema(request=TenantInput, responses={201: TenantOutput})
    def post(self, request: Request) -> Response:
        """Create a tenant. For operators."""
        by = viewer(request)
        by.require_operator()
        given = TenantInput(data=request.data)
        given.is_valid(raise_exception=True)
        tenant = tenant_create(by=by, **given.validated_data)
        return created(request, represent(tenant, by), tenant.name)


class TenantView(Edited):
    scope = Scope.OPERATE
    edition = ("name", "version")

    @extend_schema(responses=TenantOutput)
    def get(self, request: Request, name: str) -> Response:
        """Get one tenant."""
        by = viewer(request)
        return Response(represent(tenant_get(by, name), by))

    @extend_schema(request=TenantChange, responses=TenantOutput)
    def patch(self, request: Request, name: str) -> Response:
        """Change a tenant's title, or its maximum number of unfinished jobs. For operators."""
        by = viewer(request)
        tenant = tenant_get(by, name)
        by.require_operator()
        given = TenantChange(data=request.data)
        given.is_valid(raise_exception=True)
        return Response(represent(tenant_change(by=by, tenant=tenant, changes=given.validated_data), by))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, name: str) -> Response:
        """Remove a tenant that has no members and never had a job. For operators."""
        by = viewer(request)
        tenant = tenant_get(by, name)
        by.require_operator()
        tenant_remove(by=by, tenant=tenant)
        return Response(status=204)


class MembersView(ListAPIView[Membership]):
    """List the members of a tenant and their roles."""

    serializer_class = MemberOutput
    queryset = Membership.objects.none()
    filterset_class = MemberFilter

    def get_queryset(self) -> QuerySet[Membership]:
        tenant = tenant_get(viewer(self.request), self.kwargs["name"])
        return Membership.objects.filter(tenant=tenant).select_related("user")


class MemberView(APIView):
    scope = Scope.MANAGE

    @extend_schema(request=MemberInput, responses={200: MemberOutput, 201: MemberOutput})
    def put(self, request: Request, name: str, username: str) -> Response:
        """Set the role of a user in a tenant, up to your own role. For admins of the tenant."""
        by = viewer(request)
        tenant = tenant_get(by, name)
        by.require(tenant, Role.ADMIN)
        given = MemberInput(data=request.data)
        given.is_valid(raise_exception=True)
        membership, is_new = member_set(
            by=by, tenant=tenant, username=username, role=Role(given.validated_data["role"])
        )
        return Response(MemberOutput(membership).data, status=201 if is_new else 200)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, name: str, username: str) -> Response:
        """Remove a member from a tenant. For admins of the tenant; members can remove themselves."""
        by = viewer(request)
        member_remove(by=by, tenant=tenant_get(by, name), username=username)
        return Response(status=204)


class QuotaView(Edited):
    scope = Scope.OPERATE
    #: Which models there are, only the scheduler knows (`scheduler/nodes/api.py`).
    problems_with_models: ProblemsWithModels | None = None

    @extend_schema(responses=Quota)
    def get(self, request: Request, name: str) -> Response:
        """Show the quota of a tenant: the GPUs, CPUs and memory that it may hold at once."""
        return Response(_quota(tenant_get(viewer(request), name)))

    @extend_schema(request=Quota, responses=Quota)
    def put(self, request: Request, name: str) -> Response:
        """Replace the quota of a tenant. A resource that is left out has no limit of its own. Once nodes
        have registered, a new line must name a GPU model that one of them has or had. For operators."""
        by = viewer(request)
        tenant = tenant_get(by, name)
        by.require_operator()
        given = Quota(data=request.data)
        given.is_valid(raise_exception=True)
        changed = quota_set(
            by=by, tenant=tenant, **given.validated_data, problems_with_models=self.problems_with_models
        )
        return Response(_quota(changed))


def _quota(tenant: Tenant) -> dict[str, object]:
    return {
        "limits": quota_of(tenant),
        "cpus": tenant.quota_cpus,
        "memory_bytes": tenant.quota_memory_bytes,
    }


def represent(tenant: Tenant, viewer: Viewer) -> dict[str, object]:
    tenant.members = tenant.memberships.count()  # type: ignore[attr-defined]
    return TenantOutput(tenant, context={"viewer": viewer}).data
