"""The audit log: searched page by page, and exported as JSON lines."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterator, Mapping
from typing import Any

from django.conf import settings
from django.db.models import Q, QuerySet
from django.http import StreamingHttpResponse
from django_filters import rest_framework as filters
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView, ListAPIView
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from tenants.api.instants import InstantFilter
from tenants.audit.reading import all_entries, entries_visible, receivers, represented
from tenants.audit.triggers import expected_version, installed_version
from tenants.errors import FieldError, Invalid
from tenants.models import AuditEntry, Outcome
from tenants.selectors import viewer

KINDS = ["user", "token", "node", "system", "database", "nobody"]
_LARGEST_ID = 2**63 - 1


class AuditFilter(filters.FilterSet):
    who = filters.CharFilter(
        method="by_who", help_text="Only actions of this user, node or token (by its key)."
    )
    kind = filters.ChoiceFilter(choices=[(kind, kind) for kind in KINDS], help_text="What it was done by.")
    action = filters.CharFilter(
        lookup_expr="startswith",
        help_text=(
            'Only this action, or actions that begin with this text, such as "node." or "user.sign-in".'
        ),
    )
    object = filters.CharFilter(
        field_name="object_kind",
        help_text='Only actions on this kind of object, such as "job" or "virtual cluster".',
    )
    subject = filters.CharFilter(
        method="by_subject", help_text="Only actions on the object with this name or id."
    )
    tenant = filters.CharFilter(field_name="tenant")
    address = filters.CharFilter(
        method="by_address", help_text="Only requests from this address or network, such as 10.1.0.0/16."
    )
    outcome = filters.ChoiceFilter(choices=Outcome.choices)
    since = InstantFilter(field_name="at", lookup_expr="gte")
    until = InstantFilter(field_name="at", lookup_expr="lt")

    class Meta:
        model = AuditEntry
        fields: list[str] = []

    def by_who(self, queryset: QuerySet[AuditEntry], name: str, value: str) -> QuerySet[AuditEntry]:
        return queryset.filter(Q(actor__in=[value, f"user {value}", f"node {value}"]) | Q(token=value))

    def by_subject(self, queryset: QuerySet[AuditEntry], name: str, value: str) -> QuerySet[AuditEntry]:
        condition = Q(subject=value) | Q(object_id=value)
        if value.isdecimal() and int(value) <= _LARGEST_ID:
            condition |= Q(after__has_key="ids", after__contains={"ids": [int(value)]})
        return queryset.filter(condition)

    def by_address(self, queryset: QuerySet[AuditEntry], name: str, value: str) -> QuerySet[AuditEntry]:
        try:
            network = ipaddress.ip_network(value.strip(), strict=False)
        except ValueError:
            problem = FieldError(
                "address",
                f"{value[:80]!r} is not an address or a network",
                "10.1.2.3, 10.1.0.0/16 or 2001:db8::/32",
            )
            raise Invalid(f"address: {problem.problem}.", [problem]) from None
        return queryset.extra(where=["address <<= %s::inet"], params=[str(network)])


class AuditEntryOutput(serializers.Serializer[Mapping[str, object]]):
    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    kind = serializers.ChoiceField(choices=KINDS, help_text="What it was done by.")
    actor = serializers.CharField(help_text='Who acted, in the form that events use: "user vera".')
    token = serializers.CharField(
        allow_blank=True, help_text="Key of the token that authenticated the request."
    )
    address = serializers.CharField(allow_null=True)
    request = serializers.CharField(allow_blank=True, help_text="Method and route of the request.")
    action = serializers.CharField()
    outcome = serializers.ChoiceField(choices=Outcome.choices)
    object = serializers.CharField(allow_blank=True, help_text="Kind of the object that was acted on.")
    object_id = serializers.CharField(allow_blank=True)
    subject = serializers.CharField(allow_blank=True, help_text="Name or id of the object.")
    tenant = serializers.CharField(allow_null=True)
    sentence = serializers.CharField(help_text="The whole entry as a sentence.")
    before = serializers.JSONField(allow_null=True)
    after = serializers.JSONField(allow_null=True)


class AuditView(ListAPIView[Any]):
    """List the audit log: who changed, read or was refused what, and from where. Operators see all entries,
    admins of a tenant the entries of that tenant.
    """

    serializer_class = AuditEntryOutput
    queryset = AuditEntry.objects.none()
    filterset_class = AuditFilter

    def get_queryset(self) -> QuerySet[AuditEntry]:
        return entries_visible(viewer(self.request))

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response([represented(entry) for entry in page or ()])


class ExportQuery(serializers.Serializer[Mapping[str, object]]):
    after = serializers.CharField(required=False)


#: The second is for clients that leave what is not JSON or text to their users, as generated ones do.
_EXPORT_TYPES = ("application/jsonl", "text/plain")


def _export_type(request: Request) -> str:
    """Return the one that the caller would take; the first where either is right."""
    accepted = request.headers.get("Accept", "")
    return next((kind for kind in _EXPORT_TYPES if kind in accepted), _EXPORT_TYPES[0])


class _WhateverIsAccepted(BaseContentNegotiation):
    """The view itself says what it sends; refusals are JSON."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        return parsers[0]

    def select_renderer(self, request: Request, renderers: Any, format_suffix: Any = None) -> Any:
        return renderers[0], renderers[0].media_type


class AuditExport(GenericAPIView[AuditEntry]):
    """The audit log as JSON lines, the oldest entry first."""

    content_negotiation_class = _WhateverIsAccepted

    queryset = AuditEntry.objects.none()
    filterset_class = AuditFilter
    pagination_class = None
    query_serializer = ExportQuery

    def get_queryset(self) -> QuerySet[AuditEntry]:
        return entries_visible(viewer(self.request))

    @extend_schema(
        parameters=[
            OpenApiParameter("after", int, description="Start after the entry with this id. Default: 0.")
        ],
        responses={(200, kind): OpenApiResponse(OpenApiTypes.STR) for kind in _EXPORT_TYPES},
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        """Export all entries that match. A reader that continues after the last id it received misses no
        entry.
        """
        entries = self.filter_queryset(self.get_queryset())
        text = request.query_params.get("after") or "0"
        if not (text.isascii() and text.isdecimal() and int(text) <= _LARGEST_ID):
            problem = FieldError("after", f"{text[:80]!r} is not an id", "the id of an entry, or 0")
            raise Invalid("after is wrong.", [problem])
        return StreamingHttpResponse(
            _lines(entries, int(text)),
            content_type=_export_type(request),
            headers={"Content-Disposition": 'attachment; filename="audit.jsonl"'},
        )


class ReceiverOutput(serializers.Serializer[Mapping[str, object]]):
    address = serializers.CharField(
        help_text="Address of the receiver, without its path, which may contain a password."
    )
    sent_id = serializers.IntegerField(help_text="Id of the last entry that it accepted.")
    sent_at = serializers.DateTimeField(allow_null=True)
    behind = serializers.IntegerField(
        help_text="Number of entries that it has not received yet; 100,000 may mean more."
    )
    failures = serializers.IntegerField(help_text="Number of consecutive failed attempts.")
    failing_since = serializers.DateTimeField(allow_null=True)
    problem = serializers.CharField(allow_blank=True)


class AuditStatusOutput(serializers.Serializer[Mapping[str, object]]):
    days_kept = serializers.IntegerField()
    is_complete = serializers.BooleanField(
        help_text=(
            "Whether all database triggers exist. If not, changes are not recorded until "
            "`manage.py migrate` runs."
        )
    )
    receivers = ReceiverOutput(many=True)


class AuditStatus(APIView):
    @extend_schema(responses=AuditStatusOutput)
    def get(self, request: Request) -> Response:
        """Show how the audit log is kept and forwarded. For operators."""
        viewer(request).require_operator()
        return Response(
            {
                "days_kept": settings.CONFIG.audit_days_kept,
                "is_complete": installed_version() == expected_version(),
                "receivers": receivers(),
            }
        )


def _lines(entries: QuerySet[AuditEntry], after: int) -> Iterator[bytes]:
    for page in all_entries(entries, after=after):
        lines = (json.dumps(represented(entry), ensure_ascii=False) for entry in page)
        yield "".join(f"{line}\n" for line in lines).encode()
