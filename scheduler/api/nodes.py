"""Nodes: everybody signed in sees them, operators manage them."""

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from scheduler import represent
from scheduler.api import schemas
from scheduler.api.lists import RepresentedList
from scheduler.models import Node
from scheduler.models.inventory import NODE_NAME
from scheduler.selectors import node_get
from scheduler.services.nodes import (
    NewToken,
    node_change,
    node_create,
    node_drain,
    node_remove,
    node_token_rotate,
)
from tenants.api.strict import StrictSerializer
from tenants.selectors import Viewer, viewer


class NodeInput(StrictSerializer):
    name = serializers.CharField(max_length=63, validators=[NODE_NAME])
    rack = serializers.CharField(max_length=63, validators=[NODE_NAME], default="rack-1")


class NodeChange(StrictSerializer):
    cordoned = serializers.BooleanField(required=False, help_text="True: it accepts nothing new.")
    rack = serializers.CharField(required=False, max_length=63, validators=[NODE_NAME])


class Nodes(RepresentedList):
    """All nodes, by name."""

    queryset = Node.objects.none()
    serializer_class = schemas.Node
    ordering = "name"
    represent = staticmethod(represent.nodes)

    def get_queryset(self) -> QuerySet[Node]:
        return Node.objects.only("id", "name")

    @extend_schema(request=NodeInput, responses={201: schemas.NodeWithToken})
    def post(self, request: Request) -> Response:
        """Expect a node; its agent signs in with the token, which is shown only now. For operators."""
        by = _operator(request)
        given = NodeInput(data=request.data)
        given.is_valid(raise_exception=True)
        return _with_token(node_create(**given.validated_data, actor=by.actor), status=201)


class NodeDetail(APIView):
    @extend_schema(responses=schemas.Node)
    def get(self, request: Request, name: str) -> Response:
        """One node with its GPUs."""
        return Response(_represented(node_get(name)))

    @extend_schema(request=NodeChange, responses=schemas.Node)
    def patch(self, request: Request, name: str) -> Response:
        """Cordon or uncordon a node, or move it to another rack. For operators."""
        by = _operator(request)
        node = node_get(name)
        given = NodeChange(data=request.data)
        given.is_valid(raise_exception=True)
        wanted = given.validated_data
        node_change(node=node, cordoned=wanted.get("cordoned"), rack=wanted.get("rack"), actor=by.actor)
        return Response(_represented(node))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, name: str) -> Response:
        """Forget a node that never ran anything and does not report. For operators."""
        by = _operator(request)
        node_remove(node=node_get(name), actor=by.actor)
        return Response(status=204)


class NodeDrain(APIView):
    @extend_schema(request=None, responses={200: schemas.Node})
    def post(self, request: Request, name: str) -> Response:
        """Cordon the node and move its jobs away, with their grace period. For operators."""
        by = _operator(request)
        node = node_get(name)
        node_drain(node=node, actor=by.actor)
        return Response(_represented(node))


class NodeToken(APIView):
    @extend_schema(request=None, responses={200: schemas.NodeWithToken})
    def post(self, request: Request, name: str) -> Response:
        """Replace the node's token; the old one is worth nothing from now on. For operators."""
        by = _operator(request)
        return _with_token(node_token_rotate(node=node_get(name), actor=by.actor), status=200)


def _operator(request: Request) -> Viewer:
    by = viewer(request)
    by.require_operator()
    return by


def _represented(node: Node) -> dict[str, object]:
    return represent.nodes([node.id])[0]


def _with_token(new: NewToken, *, status: int) -> Response:
    return Response({**_represented(new.node), "token": new.token}, status=status)
