"""Events: members see those of their tenants, operators all."""

from typing import Any

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from scheduler.models.events import Event
from scheduler.models.nodes import Node
from scheduler.models.selectors import events as selectors
from scheduler.models.selectors.events import events_visible
from scheduler.telemetry.events import schemas
from tenants.selectors import viewer


class EventFilter(filters.FilterSet):
    job = filters.NumberFilter(field_name="job_id", min_value=0, max_value=2**63 - 1, decimal_places=0)
    node = filters.CharFilter(method="by_node", help_text="A node's name.")
    tenant = filters.CharFilter(field_name="tenant__name")
    kind = filters.CharFilter(
        field_name="kind", lookup_expr="startswith", help_text='Such as "job." or "node.lost".'
    )

    class Meta:
        model = Event
        fields: list[str] = []

    def by_node(self, queryset: QuerySet[Event], name: str, value: str) -> QuerySet[Event]:
        return queryset.filter(node_id__in=Node.objects.filter(name=value).values("id"))


class Events(ListAPIView[Any]):
    """What happened, the newest first: to the caller's tenants' jobs, to nodes and virtual clusters."""

    queryset = Event.objects.none()
    serializer_class = schemas.Event
    filterset_class = EventFilter

    def get_queryset(self) -> QuerySet[Event]:
        return events_visible(viewer(self.request))

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response(selectors.events(page or (), viewer(request)))
