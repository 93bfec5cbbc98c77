"""Maintenance windows: all signed-in users see them, operators decide."""

from collections.abc import Mapping
from typing import Any

from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from scheduler.agents.maintenance import representations, schemas
from scheduler.agents.maintenance.services import (
    MAX_NODES,
    Choice,
    window_cancel,
    window_change,
    window_create,
)
from scheduler.models.maintenance import MaintenanceWindow, WindowState
from scheduler.wiring.rest import CommaSeparatedChoices
from tenants.api.answers import created
from tenants.api.editions import Edited
from tenants.api.strict import StrictSerializer
from tenants.errors import NotFound
from tenants.models import Scope
from tenants.selectors import Viewer, viewer


class WindowInput(StrictSerializer):
    reason = serializers.CharField(max_length=300, help_text="What is done; all users can read it.")
    starts_at = serializers.DateTimeField(
        help_text="When the window starts and the jobs left on its nodes are stopped."
    )
    ends_at = serializers.DateTimeField(help_text="End: from this time its nodes accept jobs again.")
    nodes = serializers.ListField(
        child=serializers.CharField(max_length=63),
        required=False,
        max_length=MAX_NODES,
        help_text="Names of nodes.",
    )
    racks = serializers.ListField(
        child=serializers.CharField(max_length=63),
        required=False,
        max_length=MAX_NODES,
        help_text="Racks; all nodes that are in them now belong to the window.",
    )


class WindowFilters(filters.FilterSet):
    state = CommaSeparatedChoices(
        choices=WindowState.choices, help_text="One or more states, separated by commas."
    )


class MaintenanceWindows(ListAPIView[MaintenanceWindow]):
    """List maintenance windows by their start, with the affected jobs that the caller may see."""

    scope = Scope.OPERATE
    queryset = MaintenanceWindow.objects.all()
    serializer_class = schemas.MaintenanceWindow  # type: ignore[assignment]
    filterset_class = WindowFilters
    ordering = "starts_at"

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response(representations.windows(list(page or ()), viewer(request)))

    @extend_schema(request=WindowInput, responses={201: schemas.MaintenanceWindow})
    def post(self, request: Request) -> Response:
        """Announce a maintenance window. 409 if a node is in another window at that time. For operators.

        From now on, only jobs that will end before the window's start are started on its nodes.
        """
        by = _operator(request)
        body = _checked(request, partial=False)
        made = window_create(
            reason=body["reason"],
            choice=_choice(body) or Choice(),
            starts_at=body["starts_at"],
            ends_at=body["ends_at"],
            actor=by.actor,
        )
        return created(request, _represented(made, by), made.id)


class MaintenanceWindowDetail(Edited):
    scope = Scope.OPERATE
    edition = ("id", "reason", "starts_at", "ends_at", "nodes")

    @extend_schema(responses=schemas.MaintenanceWindow)
    def get(self, request: Request, window_id: int) -> Response:
        """Get one maintenance window."""
        return Response(_represented(_window(window_id), viewer(request)))

    @extend_schema(request=WindowInput, responses=schemas.MaintenanceWindow)
    def patch(self, request: Request, window_id: int) -> Response:
        """Change a maintenance window. After its start only its reason and its end can change. For operators.

        `nodes` and `racks` together replace its nodes.
        """
        by = _operator(request)
        window = _window(window_id)
        body = _checked(request, partial=True)
        columns = {name: body[name] for name in ("reason", "starts_at", "ends_at") if name in body}
        changed = window_change(window, actor=by.actor, choice=_choice(body), **columns)
        return Response(_represented(changed, by))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, window_id: int) -> Response:
        """Cancel a maintenance window, or end it early. Its nodes accept jobs again, and the window stays
        listed. For operators.
        """
        by = _operator(request)
        window_cancel(_window(window_id), actor=by.actor)
        return Response(status=204)


def _operator(request: Request) -> Viewer:
    by = viewer(request)
    by.require_operator()
    return by


def _checked(request: Request, *, partial: bool) -> Mapping[str, Any]:
    given = WindowInput(data=request.data, partial=partial)
    given.is_valid(raise_exception=True)
    body: Mapping[str, Any] = given.validated_data
    return body


def _choice(body: Mapping[str, Any]) -> Choice | None:
    if "nodes" not in body and "racks" not in body:
        return None
    return Choice(nodes=body.get("nodes", ()), racks=body.get("racks", ()))


def _window(window_id: int) -> MaintenanceWindow:
    window = MaintenanceWindow.objects.filter(id=window_id).first()
    if window is None:
        raise NotFound(f"There is no maintenance window {window_id}.")
    return window


def _represented(window: MaintenanceWindow, by: Viewer) -> dict[str, object]:
    return representations.windows([window], by)[0]
