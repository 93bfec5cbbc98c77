"""Reservations: a tenant's people see theirs, operators decide."""

from typing import Any

from django.core.validators import RegexValidator
from django.db.models import Q, QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from scheduler.agents.reservations import representations, schemas
from scheduler.agents.reservations.services import (
    reservation_cancel,
    reservation_change,
    reservation_create,
)
from scheduler.jobspec.kinds import NAME, NAME_EXPECTED
from scheduler.models.reservations import Reservation, ReservationState
from scheduler.models.selectors.reservations import reservations_visible
from scheduler.wiring.clock import database_now
from scheduler.wiring.rest import CommaSeparatedChoices
from tenants.api.answers import created
from tenants.api.editions import Edited
from tenants.api.strict import StrictSerializer
from tenants.errors import FieldError, Invalid, NotFound
from tenants.models import Scope, User, VirtualCluster
from tenants.selectors import Viewer, tenant_get, viewer


class ReservationChange(StrictSerializer):
    gpus = serializers.IntegerField(
        min_value=1, max_value=1_000_000, help_text="Number of GPUs; whole nodes are reserved."
    )
    starts_at = serializers.DateTimeField(help_text="Start: from this time only its jobs run on its nodes.")
    ends_at = serializers.DateTimeField(help_text="End: from this time its nodes are available to all again.")
    note = serializers.CharField(
        max_length=300, required=False, allow_blank=True, help_text="Purpose, in your own words."
    )


class ReservationInput(ReservationChange):
    name = serializers.CharField(
        max_length=63,
        validators=[RegexValidator(rf"\A(?:{NAME.pattern})\Z", f"Must be {NAME_EXPECTED}.")],
        help_text="Name that jobs give as `reservation`.",
    )
    tenant = serializers.CharField(max_length=63, help_text="Tenant whose jobs get the nodes.")
    user = serializers.CharField(
        max_length=150,
        required=False,
        allow_null=True,
        help_text="User whose jobs may use it; null: all users of the tenant.",
    )
    virtual_cluster = serializers.CharField(
        max_length=63,
        required=False,
        allow_null=True,
        help_text="Virtual cluster whose jobs may use it; null: all virtual clusters of the tenant.",
    )
    gpu_model = serializers.CharField(max_length=63)


class ReservationFilters(filters.FilterSet):
    state = CommaSeparatedChoices(
        choices=ReservationState.choices,
        method="in_states",
        help_text="One or more states, separated by commas.",
    )

    def in_states(self, rows: QuerySet[Reservation], name: str, states: list[str]) -> QuerySet[Reservation]:
        now = database_now()
        lasts = Q(cancelled_at=None)
        of_state = {
            ReservationState.ANNOUNCED: lasts & Q(starts_at__gt=now),
            ReservationState.IN_FORCE: lasts & Q(starts_at__lte=now, ends_at__gt=now),
            ReservationState.OVER: lasts & Q(ends_at__lte=now),
            ReservationState.CANCELLED: Q(cancelled_at__isnull=False),
        }
        any_of = Q()
        for state in states:
            any_of |= of_state[ReservationState(state)]
        return rows.filter(any_of)


class Reservations(ListAPIView[Reservation]):
    """List reservations by their start. Operators see all, admins those of their tenants, other users those
    that they may use.
    """

    scope = Scope.OPERATE
    queryset = Reservation.objects.none()
    serializer_class = schemas.Reservation  # type: ignore[assignment]
    filterset_class = ReservationFilters
    ordering = "starts_at"

    def get_queryset(self) -> QuerySet[Reservation]:
        return reservations_visible(viewer(self.request))

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        now = database_now()
        return self.get_paginated_response([representations.reservation(row, now) for row in page or ()])

    @extend_schema(request=ReservationInput, responses={201: schemas.Reservation})
    def post(self, request: Request) -> Response:
        """Reserve whole nodes for a tenant. 409 with the reason if they are not available. For operators.

        From now on, guaranteed jobs start on its nodes only if they will end before the reservation's start.
        Opportunistic jobs still start there.
        """
        by = _operator(request)
        given = ReservationInput(data=request.data)
        given.is_valid(raise_exception=True)
        body = dict(given.validated_data)
        made = reservation_create(
            actor=by.actor,
            tenant=tenant_get(by, body.pop("tenant")),
            user=_user(body.pop("user", None)),
            virtual_cluster=_virtual_cluster(body.pop("virtual_cluster", None)),
            **body,
        )
        return created(request, representations.reservation(made, database_now()), made.id)


class ReservationDetail(Edited):
    scope = Scope.OPERATE
    edition = ("id", "gpus", "starts_at", "ends_at", "nodes", "note")

    @extend_schema(responses=schemas.Reservation)
    def get(self, request: Request, reservation_id: int) -> Response:
        """Get one reservation."""
        found = _reservation(reservation_id, viewer(request))
        return Response(representations.reservation(found, database_now()))

    @extend_schema(request=ReservationChange, responses=schemas.Reservation)
    def patch(self, request: Request, reservation_id: int) -> Response:
        """Change a reservation. After its start only its end and its note can change. For operators."""
        by = _operator(request)
        found = _reservation(reservation_id, by)
        given = ReservationChange(data=request.data, partial=True)
        given.is_valid(raise_exception=True)
        changed = reservation_change(found, actor=by.actor, **given.validated_data)
        return Response(representations.reservation(changed, database_now()))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, reservation_id: int) -> Response:
        """Cancel a reservation, or end it early. It stays listed. For operators."""
        by = _operator(request)
        reservation_cancel(_reservation(reservation_id, by), actor=by.actor)
        return Response(status=204)


def _operator(request: Request) -> Viewer:
    by = viewer(request)
    by.require_operator()
    return by


def _reservation(reservation_id: int, by: Viewer) -> Reservation:
    found = reservations_visible(by).filter(id=reservation_id).first()
    if found is None:
        raise NotFound(f"There is no reservation {reservation_id} that you may see.")
    return found


def _user(name: str | None) -> User | None:
    if name is None:
        return None
    found = User.objects.filter(username=name).first()
    if found is None:
        raise Invalid.of(FieldError("user", f"there is no user {name!r}", "a member of the tenant, or null"))
    return found


def _virtual_cluster(name: str | None) -> VirtualCluster | None:
    if name is None:
        return None
    found = VirtualCluster.objects.filter(name=name).first()
    if found is None:
        problem = f"there is no virtual cluster {name!r}"
        raise Invalid.of(FieldError("virtual_cluster", problem, "one of the tenant's, or null"))
    return found
