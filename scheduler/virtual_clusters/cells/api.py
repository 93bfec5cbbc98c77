"""Cells: all signed-in users see them, operators divide the cluster by them."""

from collections.abc import Mapping
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.pagination import ByPosition
from scheduler.core.cells.chains import Cell, Layout
from scheduler.core.cells.document import to_document
from scheduler.core.cells.errors import Problem
from scheduler.models.cells import CellSpecification
from scheduler.models.selectors.virtual_clusters import virtual_cluster_get
from scheduler.virtual_clusters.cells import schemas
from scheduler.virtual_clusters.cells.selectors import (
    CellsInForce,
    cell_nodes,
    cells_in_force,
    chain_summaries,
    children_of,
    virtual_cluster_cells,
)
from scheduler.virtual_clusters.cells.services import (
    cells_apply,
    cells_proposal,
    hardware_problems,
)
from scheduler.virtual_clusters.market.selectors import market_now
from scheduler.wiring.clock import database_now
from scheduler.wiring.rest import checked
from tenants.api.editions import Edited
from tenants.api.strict import StrictSerializer
from tenants.errors import NotFound
from tenants.models import Scope
from tenants.selectors import viewer
from tenants.times import iso

LONGEST_ADDRESS = 1_000


class SpecificationInput(StrictSerializer):
    specification = serializers.JSONField()


class CellsInput(SpecificationInput):
    version = serializers.IntegerField(
        min_value=0, help_text="Version that you read. If another version is in force, the answer is 409."
    )


class SpecificationBody(serializers.Serializer[Mapping[str, object]]):
    specification = schemas.CellDocument()


class CellsBody(SpecificationBody):
    version = serializers.IntegerField(
        min_value=0, help_text="Version that you read. If another version is in force, the answer is 409."
    )


class TreeQuery(serializers.Serializer[Mapping[str, object]]):
    chain = serializers.CharField(required=False, max_length=255, help_text="Only cells of this chain.")
    at = serializers.CharField(
        required=False,
        max_length=LONGEST_ADDRESS,
        help_text='Only cells inside the cell with this address, such as "rack-1/node-3".',
    )


class Cells(Edited):
    scope = Scope.OPERATE
    edition = ("version",)

    @extend_schema(responses=schemas.Cells)
    def get(self, request: Request) -> Response:
        """Show how GPUs are divided into cells, and how the cells of each chain are used."""
        return Response(cells_answer(cells_in_force()))

    @extend_schema(request=CellsBody, responses=schemas.Cells)
    def put(self, request: Request) -> Response:
        """Replace the division of the cluster into cells. Jobs whose cells no longer exist go on as
        opportunistic jobs. For operators.
        """
        by = viewer(request)
        by.require_operator()
        given = CellsInput(data=request.data)
        given.is_valid(raise_exception=True)
        body = given.validated_data
        done = cells_apply(document=body["specification"], version=body["version"], actor=by.actor)
        return Response(cells_answer(done))


class CellsProposal(APIView):
    scope = Scope.OPERATE
    is_heavy = True

    @extend_schema(request=None, responses={200: schemas.CellsProposal})
    def post(self, request: Request) -> Response:
        """Propose a cell specification, made from today's hardware and guarantees. For operators."""
        viewer(request).require_operator()
        return Response({"specification": to_document(cells_proposal())})


class CellTree(GenericAPIView[Any]):
    """List the cells inside a cell, or the topmost cells, and how their GPUs are used."""

    queryset = CellSpecification.objects.none()
    pagination_class = ByPosition
    serializer_class = schemas.CellNode

    @extend_schema(parameters=[TreeQuery], responses=schemas.CellNode(many=True))
    def get(self, request: Request) -> Response:
        query = checked(TreeQuery, request)
        market = market_now(database_now())
        layout = market.layout
        cells = children_of(layout, _parent(layout, query), query.get("chain"))
        pages = ByPosition()
        page = [cells[position] for position in pages.page_of(len(cells), request)]
        return pages.get_paginated_response(cell_nodes(layout, page, market.on_loan))


class VirtualClusterCells(APIView):
    @extend_schema(responses=schemas.VirtualClusterHoldings)
    def get(self, request: Request, name: str) -> Response:
        """Show the cells of a virtual cluster now: how many it owns, which are bound and which are doomed."""
        virtual_cluster = virtual_cluster_get(name)
        layout = market_now(database_now()).layout
        return Response(virtual_cluster_cells(layout, virtual_cluster.name))


def cells_answer(now: CellsInForce) -> dict[str, Any]:
    """Return the cells in force as GET and PUT answer them."""
    return {
        "version": now.version,
        "specification": now.document,
        "changed_at": iso(now.changed_at),
        "changed_by": now.changed_by or None,
        "gpu_models": sorted(now.layout.gpu_models),
        "chains": chain_summaries(market_now(database_now()).layout),
        "problems": [shown_problem(problem) for problem in hardware_problems(now.layout)],
    }


def shown_problem(problem: Problem) -> dict[str, str]:
    return {"field": problem.field, "problem": problem.problem, "expected": problem.hint}


def guaranteed(layout: Layout) -> dict[str, dict[str, int]]:
    return {name: layout.guaranteed(name) for name in sorted(layout.specification.virtual_clusters)}


def _parent(layout: Layout, query: dict[str, str]) -> Cell | None:
    chain, address = query.get("chain"), query.get("at")
    if chain is not None and chain not in layout.chains:
        known = ", ".join(layout.chains) or "there is none"
        raise NotFound(f"There is no chain {chain[:80]!r}; chains: {known[:300]}.")
    if address is None:
        return None
    cell = layout.find(address)
    if cell is None or chain not in (None, cell.chain):
        raise NotFound(f"There is no cell at {address[:200]!r}.")
    return cell
