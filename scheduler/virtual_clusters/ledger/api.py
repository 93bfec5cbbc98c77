"""The ledger: what was bid, won, paid, traded and lent, and each line decided once more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView, ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from scheduler.core.model.wording import either
from scheduler.models.ledger import LedgerLine
from scheduler.models.selectors.jobs import job_visible
from scheduler.virtual_clusters.ledger.selectors import (
    COLUMNS,
    Sight,
    line_get,
    lines_of_party,
    lines_visible,
)
from scheduler.wiring.exports import FILE_ANSWERS, AnyFile, FileQuery, exported
from tenants.api.instants import InstantFilter
from tenants.errors import FieldError, Invalid
from tenants.selectors import viewer


class Line(serializers.Serializer[Mapping[str, object]]):
    """A line of the ledger; docs/ledger.md describes each kind."""

    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    round_number = serializers.IntegerField(
        allow_null=True, help_text="Number of the scheduling round; null if a person caused the line."
    )
    view = serializers.CharField(help_text='A virtual cluster, "spare" or "market".')
    position = serializers.IntegerField(help_text="Position among the lines of its round and view.")
    kind = serializers.CharField()
    party = serializers.CharField(
        allow_blank=True, help_text="A tenant, or in the market a virtual cluster; empty: all in the view."
    )
    counterparty = serializers.CharField(allow_blank=True)
    jobs = serializers.ListField(child=serializers.IntegerField())
    gpus = serializers.DictField(
        child=serializers.FloatField(), help_text="GPUs that the party gets, by model."
    )
    given = serializers.DictField(
        child=serializers.FloatField(), help_text="GPUs that the party gives, by model."
    )
    price = serializers.FloatField(allow_null=True)
    seconds = serializers.FloatField(allow_null=True)
    rho_before = serializers.FloatField(allow_null=True)
    rho_after = serializers.FloatField(allow_null=True)
    message = serializers.CharField(allow_blank=True)
    details = serializers.DictField()
    person = serializers.CharField(
        allow_blank=True, help_text="Person who caused the line; empty for lines of a round."
    )


#: Those of docs/ledger.md. A policy from elsewhere may write others.
KINDS = (
    "auction",
    "bid",
    "win",
    "leftover",
    "entitled",
    "trade",
    "offer",
    "withdraw",
    "expire",
    "take",
    "end",
)


class LedgerFilter(filters.FilterSet):
    kind = filters.CharFilter(
        method="by_kind",
        help_text=f"Only lines of this kind: {either(KINDS)}, or one that a policy of your own writes.",
    )
    view = filters.CharFilter(field_name="view")
    party = filters.CharFilter(method="by_party", help_text="Only lines with this party on one side.")
    job = filters.NumberFilter(
        method="by_job",
        min_value=0,
        max_value=2**63 - 1,
        decimal_places=0,
        help_text="Only lines that name the job with this number.",
    )
    round = filters.NumberFilter(
        field_name="round_number", min_value=0, max_value=2**63 - 1, decimal_places=0
    )
    since = InstantFilter(field_name="at", lookup_expr="gte")
    until = InstantFilter(field_name="at", lookup_expr="lt")

    class Meta:
        model = LedgerLine
        fields: list[str] = []

    def by_kind(self, queryset: QuerySet[LedgerLine], name: str, value: str) -> QuerySet[LedgerLine]:
        found = queryset.filter(kind=value)
        if value not in KINDS and not found.exists():
            problem = f"{value[:40]!r} is not a choice here"
            raise Invalid(f"kind: {problem}", [FieldError(name, problem, f"one of {', '.join(KINDS)}")])
        return found

    def by_party(self, queryset: QuerySet[LedgerLine], name: str, value: str) -> QuerySet[LedgerLine]:
        return lines_of_party(queryset, viewer(self.request), value)

    def by_job(self, queryset: QuerySet[LedgerLine], name: str, value: int) -> QuerySet[LedgerLine]:
        if not job_visible(viewer(self.request), int(value)):
            return queryset.none()
        return queryset.filter(jobs__contains=[int(value)])


class Ledger(ListAPIView[Any]):
    """List the ledger, newest line first. Members see the lines that concern their tenants, operators all.
    Other tenants are not named.
    """

    queryset = LedgerLine.objects.none()
    serializer_class = Line
    filterset_class = LedgerFilter

    def get_queryset(self) -> QuerySet[LedgerLine]:
        return lines_visible(viewer(self.request))

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response(Sight.of(viewer(request)).lines(page or ()))


class LedgerDetail(APIView):
    @extend_schema(responses=Line)
    def get(self, request: Request, line_id: int) -> Response:
        """Get one line of the ledger."""
        by = viewer(request)
        return Response(Sight.of(by).lines([line_get(by, line_id)])[0])


class LedgerExport(GenericAPIView[LedgerLine]):
    is_heavy = True
    queryset = LedgerLine.objects.none()
    filterset_class = LedgerFilter
    query_serializer = FileQuery
    content_negotiation_class = AnyFile
    pagination_class = None

    @extend_schema(parameters=[FileQuery], responses=FILE_ANSWERS)
    def get(self, request: Request) -> StreamingHttpResponse:
        """Export the ledger as CSV or Parquet, oldest line first. At most the newest 100,000 lines are
        exported; the file states if there are more.
        """
        by = viewer(request)
        lines = self.filter_queryset(lines_visible(by))
        return exported(request, "ledger", lines, COLUMNS, Sight.of(by).lines)
