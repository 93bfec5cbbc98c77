"""Serving pools, and the loans of their nodes: all signed-in users see them, operators decide."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from scheduler.agents.serving_pools import representations, schemas
from scheduler.agents.serving_pools.services import (
    node_ask_back,
    node_join,
    node_lend,
    pool_ask_back,
    pool_change,
    pool_create,
    pool_remove,
)
from scheduler.models.nodes import NODE_NAME, Node, ServingPool
from scheduler.models.selectors.nodes import node_get
from scheduler.nodes import representations as node_representations
from scheduler.nodes import schemas as node_schemas
from scheduler.wiring.clock import database_now
from scheduler.wiring.rest import RepresentedList
from tenants.api.answers import created
from tenants.api.editions import Edited
from tenants.api.strict import StrictSerializer
from tenants.errors import FieldError, Invalid, NotFound
from tenants.models import Scope
from tenants.selectors import Viewer, viewer
from tenants.times import iso

_LONGEST_SECONDS = 86_400
_LONGEST_LOAN_SECONDS = 366 * 86_400
_WHY = "Reason; all users can read it."


class PoolFields(StrictSerializer):
    return_seconds = serializers.FloatField(
        required=False,
        min_value=1,
        max_value=_LONGEST_SECONDS,
        help_text="Maximum time for a return, in seconds.",
    )
    nodes_needed = serializers.DictField(
        child=serializers.IntegerField(min_value=0, max_value=1_000_000),
        required=False,
        allow_null=True,
        help_text=(
            'Number of nodes that the pool keeps, by time of day in UTC: {"08:00": 6, "20:00": '
            "2}. It lends the others. null: nodes are lent and asked back by name."
        ),
    )


class PoolInput(PoolFields):
    name = serializers.CharField(max_length=63, validators=[NODE_NAME])


class LoanInput(StrictSerializer):
    until = serializers.DateTimeField(
        required=False, help_text="When its pool gets it back. Default: no fixed time."
    )
    why = serializers.CharField(required=False, allow_blank=True, max_length=300, help_text=_WHY, default="")


class ReturnInput(StrictSerializer):
    deadline_seconds = serializers.FloatField(
        required=False,
        min_value=0,
        max_value=_LONGEST_SECONDS,
        help_text="Seconds from now until its pool gets it back. Default: the pool's return_seconds.",
    )
    why = serializers.CharField(required=False, allow_blank=True, max_length=300, help_text=_WHY, default="")


class PoolReturnInput(ReturnInput):
    nodes = serializers.IntegerField(min_value=1, max_value=20_000, help_text="Number of nodes to ask back.")


class PoolMembershipInput(StrictSerializer):
    pool = serializers.CharField(
        max_length=63,
        allow_null=True,
        help_text="Name of the serving pool; null: none, the node returns to the cluster.",
    )


class ServingPools(RepresentedList):
    """List all serving pools by name."""

    scope = Scope.OPERATE
    queryset = ServingPool.objects.none()
    serializer_class = schemas.ServingPool
    ordering = "name"
    represent = staticmethod(representations.serving_pools)

    def get_queryset(self) -> QuerySet[ServingPool]:
        return ServingPool.objects.only("id", "name")

    @extend_schema(request=PoolInput, responses={201: schemas.ServingPool})
    def post(self, request: Request) -> Response:
        """Create a serving pool. Assign nodes to it with PUT nodes/NAME/serving-pool. For operators."""
        _operator(request)
        body = _checked(PoolInput, request)
        made = pool_create(
            name=body["name"],
            return_seconds=body.get("return_seconds", 300.0),
            nodes_needed=body.get("nodes_needed"),
        )
        return created(request, _represented(made), made.name)


class ServingPoolDetail(Edited):
    scope = Scope.OPERATE
    edition = ("name", "return_seconds", "nodes_needed")

    @extend_schema(responses=schemas.ServingPool)
    def get(self, request: Request, name: str) -> Response:
        """Get one serving pool, with the number of nodes that serve, are lent or return."""
        return Response(_represented(_pool(name)))

    @extend_schema(request=PoolFields, responses=schemas.ServingPool)
    def patch(self, request: Request, name: str) -> Response:
        """Change how long a return takes, or how many nodes the pool needs. For operators."""
        _operator(request)
        return Response(_represented(pool_change(_pool(name), _checked(PoolFields, request))))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, name: str) -> Response:
        """Remove a serving pool that has no nodes. For operators."""
        _operator(request)
        pool_remove(_pool(name))
        return Response(status=204)


class ServingPoolReturns(APIView):
    scope = Scope.OPERATE

    @extend_schema(request=PoolReturnInput, responses={200: schemas.NodesAskedBack})
    def post(self, request: Request, name: str) -> Response:
        """Ask for a number of nodes back; those whose return costs jobs least are chosen. For operators."""
        by = _operator(request)
        pool = _pool(name)
        body = _checked(PoolReturnInput, request)
        backs = pool_ask_back(
            pool=pool, count=body["nodes"], actor=by.actor, why=body["why"], by=_deadline(body)
        )
        answer = [
            {"node": each.node.name, "stops": list(each.preempts), "shrinks": list(each.shrinks)}
            for each in backs
        ]
        return Response({"results": answer})


class NodeLoan(APIView):
    scope = Scope.OPERATE

    @extend_schema(request=LoanInput, responses={200: node_schemas.Node})
    def post(self, request: Request, name: str) -> Response:
        """Lend a whole node of a serving pool to jobs; this cancels a return under way. For operators."""
        by = _operator(request)
        node = node_get(name)
        body = _checked(LoanInput, request)
        until = body.get("until")
        now = database_now()
        if until is not None and not now < until <= now + timedelta(seconds=_LONGEST_LOAN_SECONDS):
            expected = "an instant in the future, at most a year away"
            problem = FieldError("until", f"{iso(until)} is not in the future, or too far ahead", expected)
            raise Invalid.of(problem)
        node_lend(node=node, actor=by.actor, why=body["why"], until=until)
        return Response(_node(node))


class NodeReturn(APIView):
    scope = Scope.OPERATE

    @extend_schema(request=ReturnInput, responses={200: node_schemas.Node})
    def post(self, request: Request, name: str) -> Response:
        """Ask for a lent node back, by a deadline. For operators.

        Elastic jobs that can run without it shrink at once. Other jobs are stopped in time to leave by the
        deadline.
        """
        by = _operator(request)
        node = node_get(name)
        body = _checked(ReturnInput, request)
        node_ask_back(node=node, actor=by.actor, why=body["why"], by=_deadline(body))
        return Response(_node(node))


class NodeServingPool(APIView):
    scope = Scope.OPERATE

    @extend_schema(request=PoolMembershipInput, responses={200: node_schemas.Node})
    def put(self, request: Request, name: str) -> Response:
        """Assign a node to a serving pool, or return it to the cluster. For operators.

        A node on which jobs run is lent from the start.
        """
        by = _operator(request)
        node = node_get(name)
        pool = _checked(PoolMembershipInput, request)["pool"]
        node_join(node=node, pool=None if pool is None else _pool(pool), actor=by.actor)
        return Response(_node(node))


def _checked(kind: type[StrictSerializer], request: Request) -> dict[str, Any]:
    given = kind(data=request.data)
    given.is_valid(raise_exception=True)
    return dict(given.validated_data)


def _deadline(body: Mapping[str, Any]) -> datetime | None:
    seconds = body.get("deadline_seconds")
    return None if seconds is None else database_now() + timedelta(seconds=seconds)


def _operator(request: Request) -> Viewer:
    by = viewer(request)
    by.require_operator()
    return by


def _pool(name: str) -> ServingPool:
    pool = ServingPool.objects.filter(name=name).first()
    if pool is None:
        raise NotFound(f"There is no serving pool {name[:80]!r}.")
    return pool


def _represented(pool: ServingPool) -> dict[str, object]:
    return representations.serving_pools([pool.id])[0]


def _node(node: Node) -> dict[str, object]:
    return node_representations.nodes([node.id])[0]
