"""Nodes: all signed-in users see them, operators manage them."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from scheduler.models.nodes import NODE_NAME, Node
from scheduler.models.selectors.nodes import gpu_models, node_get, problems_with_quota
from scheduler.nodes import representations, schemas
from scheduler.nodes.services.agent_files import agent_set_up
from scheduler.nodes.services.managing import (
    NewToken,
    node_change,
    node_create,
    node_remove,
    node_token_rotate,
)
from scheduler.wiring.rest import RepresentedList
from tenants.api.answers import created
from tenants.api.editions import Edited
from tenants.api.queries import PAGING, ByName, refuse_unknown
from tenants.api.strict import StrictSerializer
from tenants.api.tenants import QuotaView
from tenants.models import Scope
from tenants.selectors import Viewer, viewer


class NodeInput(StrictSerializer):
    name = serializers.CharField(max_length=63, validators=[NODE_NAME])
    rack = serializers.CharField(max_length=63, validators=[NODE_NAME], default="rack-1")


class NodeChange(StrictSerializer):
    cordoned = serializers.BooleanField(
        required=False,
        help_text="true: no new job starts there. false: it returns to service and is not drained.",
    )
    why = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=300,
        help_text="Reason for cordoning it or returning it to service.",
    )
    rack = serializers.CharField(required=False, max_length=63, validators=[NODE_NAME])


class Nodes(RepresentedList):
    """List all nodes by name."""

    scope = Scope.OPERATE
    queryset = Node.objects.none()
    serializer_class = schemas.Node
    ordering = "name"
    filterset_class = ByName
    represent = staticmethod(representations.nodes)

    def get_queryset(self) -> QuerySet[Node]:
        return Node.objects.only("id", "name")

    @extend_schema(request=NodeInput, responses={201: schemas.NodeWithToken})
    def post(self, request: Request) -> Response:
        """Add a node. Its agent signs in with the token, which is not shown again. For operators."""
        by = _operator(request)
        given = NodeInput(data=request.data)
        given.is_valid(raise_exception=True)
        new = node_create(**given.validated_data, actor=by.actor)
        return created(request, _with_token(new), new.node.name)


class NodeDetail(Edited):
    scope = Scope.OPERATE
    edition = ("name", "rack", "cordoned")

    @extend_schema(responses=schemas.Node)
    def get(self, request: Request, name: str) -> Response:
        """Get one node with its GPUs."""
        return Response(_represented(node_get(name)))

    @extend_schema(request=NodeChange, responses=schemas.Node)
    def patch(self, request: Request, name: str) -> Response:
        """Cordon a node, return it to service, or move it to another rack. For operators."""
        by = _operator(request)
        node = node_get(name)
        given = NodeChange(data=request.data)
        given.is_valid(raise_exception=True)
        body = given.validated_data
        node_change(
            node=node,
            cordoned=body.get("cordoned"),
            rack=body.get("rack"),
            actor=by.actor,
            why=body.get("why", ""),
        )
        return Response(_represented(node))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, name: str) -> Response:
        """Remove a node that never ran a job and whose agent does not report. For operators."""
        by = _operator(request)
        node_remove(node=node_get(name), actor=by.actor)
        return Response(status=204)


class NodeToken(APIView):
    scope = Scope.OPERATE

    @extend_schema(request=None, responses={200: schemas.NodeWithToken})
    def post(self, request: Request, name: str) -> Response:
        """Replace the token of a node's agent. The old token stops working at once. For operators."""
        by = _operator(request)
        return Response(_with_token(node_token_rotate(node=node_get(name), actor=by.actor)))


def _operator(request: Request) -> Viewer:
    by = viewer(request)
    by.require_operator()
    return by


def _represented(node: Node) -> dict[str, object]:
    return representations.nodes([node.id])[0]


def _with_token(new: NewToken) -> dict[str, Any]:
    return {**_represented(new.node), "token": new.token, "agent": agent_set_up(new)}


class GpuModels(APIView):
    @extend_schema(responses=schemas.GpuModels)
    def get(self, request: Request) -> Response:
        """List the GPU models of the cluster by name, with the number of free GPUs."""
        # There is only one page, for which clients ask as for any list's.
        refuse_unknown(request, PAGING)
        return Response({"results": gpu_models(), "next": None, "previous": None})


class TenantQuota(QuotaView):
    """A tenant's quota, in GPU models that nodes have or had."""

    problems_with_models = staticmethod(problems_with_quota)
