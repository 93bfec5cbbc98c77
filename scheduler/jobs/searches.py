"""Saved searches of the page of jobs: one's own, and those that tenants share."""

from urllib.parse import parse_qsl, urlencode

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from scheduler.models.jobs import SavedSearch
from tenants.api.answers import created
from tenants.api.strict import StrictSerializer
from tenants.errors import Conflict, FieldError, Invalid, NotFound
from tenants.models import Role, Scope, Tenant
from tenants.selectors import Viewer, tenant_get, viewer

#: The most searches of one user, and of one tenant.
MOST = 100


class SavedSearchInput(StrictSerializer):
    name = serializers.CharField(max_length=63)
    search = serializers.CharField(
        max_length=2_000, help_text='The search as it is in the page\'s address: "state=running&by=vera".'
    )
    tenant = serializers.CharField(
        required=False, allow_null=True, help_text="Share the search with the members of this tenant."
    )


class SavedSearchOutput(serializers.Serializer[SavedSearch]):
    id = serializers.IntegerField()
    name = serializers.CharField()
    search = serializers.CharField()
    tenant = serializers.CharField(source="tenant.name", default=None, allow_null=True)
    owner = serializers.CharField(source="owner.username")
    may_delete = serializers.SerializerMethodField()

    def get_may_delete(self, row: SavedSearch) -> bool:
        return _may_delete(viewer(self.context["request"]), row)


def _own_or_of(tenants: QuerySet[Tenant], by: Viewer) -> QuerySet[SavedSearch]:
    seen = Q(tenant=None, owner=by.user) | Q(tenant__in=tenants)
    return SavedSearch.objects.filter(seen).select_related("tenant", "owner")


class SavedSearches(ListAPIView[SavedSearch]):
    """List the caller's saved job searches and those shared with the caller's tenants, by name."""

    scope = Scope.SUBMIT
    queryset = SavedSearch.objects.none()
    serializer_class = SavedSearchOutput
    ordering = "name"

    def get_queryset(self) -> QuerySet[SavedSearch]:
        by = viewer(self.request)
        return _own_or_of(Tenant.objects.filter(id__in=list(by.roles)), by)

    @extend_schema(request=SavedSearchInput, responses={201: SavedSearchOutput})
    def post(self, request: Request) -> Response:
        """Save a job search under a name. 409 if the name is in use."""
        given = SavedSearchInput(data=request.data)
        given.is_valid(raise_exception=True)
        by, body = viewer(request), given.validated_data
        tenant = tenant_get(by, body["tenant"]) if body.get("tenant") else None
        if tenant is not None:
            by.require(tenant, Role.MEMBER)
        row = _save(by, tenant, body["name"], _normal(body["search"]))
        return created(request, SavedSearchOutput(row, context={"request": request}).data, row.id)


def _normal(search: str) -> str:
    """Return the search as an address has it; raise Invalid if it is not a search."""
    pairs = parse_qsl(search, keep_blank_values=False)
    if not pairs:
        expected = "names and values, such as state=running&by=vera"
        raise Invalid("search: is empty.", [FieldError("search", "is empty", expected)])
    return urlencode(pairs)


def _save(by: Viewer, tenant: Tenant | None, name: str, search: str) -> SavedSearch:
    alike = SavedSearch.objects.filter(tenant=tenant) if tenant else _own(by)
    if alike.count() >= MOST:
        whose = f"Tenant {tenant.name}" if tenant else "You"
        raise Conflict(f"{whose} can have {MOST} saved searches: delete one first.")
    try:
        with transaction.atomic():
            return SavedSearch.objects.create(owner=by.user, tenant=tenant, name=name, search=search)
    except IntegrityError:
        problem = FieldError("name", "is taken", "another name, or delete that search first")
        raise Conflict(f"There is a saved search {name!r} already.", [problem]) from None


def _own(by: Viewer) -> QuerySet[SavedSearch]:
    return SavedSearch.objects.filter(tenant=None, owner=by.user)


def _may_delete(by: Viewer, row: SavedSearch) -> bool:
    """A shared search belongs to its author, while a member, and to admins."""
    if row.owner_id == by.user.pk:
        return True
    return row.tenant is not None and by.may(row.tenant, Role.ADMIN)


class SavedSearchDetail(APIView):
    scope = Scope.SUBMIT

    @extend_schema(responses={204: None})
    def delete(self, request: Request, search_id: int) -> Response:
        """Delete a saved search: one that you saved or shared, or as an admin any of the tenant's."""
        by = viewer(request)
        row = _own_or_of(by.tenants(), by).filter(id=search_id).first()
        if row is None:
            raise NotFound(f"There is no saved search {search_id}, or it is not shared with you.")
        if not _may_delete(by, row) and row.tenant is not None:
            by.require(row.tenant, Role.ADMIN)
        row.delete()
        return Response(status=204)
