"""Advice on which cells each virtual cluster should get, what elasticity saved, and which jobs wait longer
here than in a private cluster.

Advice and savings are for operators, since they show all tenants' jobs. All signed-in users may see which
jobs wait longer; members may start the comparison again.
"""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from scheduler.forecasts.adviser import schemas
from scheduler.forecasts.adviser.services.advice import (
    DAYS,
    advice_apply,
    advice_ask,
    advice_get,
    advice_represented,
)
from scheduler.forecasts.adviser.services.comparisons import (
    HOURS,
    MOST_HOURS,
    comparison_ask,
    comparison_represented,
)
from scheduler.forecasts.adviser.services.elasticity import (
    elasticity_savings_ask,
    elasticity_savings_represented,
)
from scheduler.models.adviser import Advice, AnomalyReport, ElasticitySavings
from scheduler.models.selectors.virtual_clusters import virtual_cluster_get
from scheduler.virtual_clusters.cells import schemas as cell_schemas
from scheduler.virtual_clusters.cells.api import cells_answer
from scheduler.wiring.rest import RepresentedList
from tenants.api.strict import StrictSerializer
from tenants.models import Scope
from tenants.selectors import Viewer, viewer

MOST_DAYS = 31
MOST_GPUS = 1_000_000
MOST_CELLS = 1_000_000
MOST_PRICE = 1e9


class AdviceQuestion(StrictSerializer):
    """Conditions for the advice. Fields that are left out set no condition."""

    days = serializers.FloatField(
        required=False,
        default=DAYS,
        min_value=0.01,
        max_value=MOST_DAYS,
        help_text="Use the jobs of this many last days.",
    )
    budget_gpus = serializers.DictField(
        required=False,
        default=dict,
        child=serializers.IntegerField(min_value=0, max_value=MOST_GPUS),
        help_text="Maximum number of GPUs of each model that all virtual clusters together may own.",
    )
    price_per_gpu_hour = serializers.DictField(
        required=False,
        default=dict,
        child=serializers.FloatField(min_value=0, max_value=MOST_PRICE),
        help_text="Price of one GPU-hour by model, in any currency.",
    )
    minimum = serializers.DictField(
        required=False,
        default=dict,
        child=serializers.DictField(child=serializers.IntegerField(min_value=0, max_value=MOST_CELLS)),
        help_text="Minimum number of cells by virtual cluster and cell type. Parts of larger cells count.",
    )
    keep = serializers.ListField(
        required=False,
        default=list,
        child=serializers.CharField(max_length=63),
        max_length=1_000,
        help_text="Virtual clusters to leave as they are.",
    )


def _represented(numbers: Iterable[int]) -> list[dict[str, Any]]:
    rows = Advice.objects.select_related("asked_by").in_bulk(list(numbers))
    return advice_represented([rows[number] for number in numbers if number in rows], whole=False)


class Advices(RepresentedList):
    """List requested advice, newest first, without the specifications. For operators."""

    scope = Scope.OPERATE
    queryset = Advice.objects.none()
    serializer_class = schemas.Advice
    ordering = "-number"
    represent = staticmethod(_represented)

    def get_queryset(self) -> QuerySet[Advice]:
        _operator(self.request)
        return Advice.objects.only("number")

    @extend_schema(request=AdviceQuestion, responses={202: schemas.WholeAdvice})
    def post(self, request: Request) -> Response:
        """Ask which cells each virtual cluster should get, judged by the jobs of the last days. Changes
        nothing. Poll the advice until its state is done. For operators.
        """
        by = _operator(request)
        given = AdviceQuestion(data=request.data)
        given.is_valid(raise_exception=True)
        row = advice_ask(viewer=by, question=given.validated_data)
        return Response(advice_represented([row], whole=True)[0], status=202)


class AdviceDetail(APIView):
    @extend_schema(responses=schemas.WholeAdvice)
    def get(self, request: Request, advice_id: UUID) -> Response:
        """Get advice, with the specification that it proposes. For operators."""
        _operator(request)
        return Response(advice_represented([advice_get(advice_id)], whole=True)[0])


class AdviceApply(APIView):
    scope = Scope.OPERATE

    @extend_schema(request=None, responses=cell_schemas.Cells)
    def post(self, request: Request, advice_id: UUID) -> Response:
        """Divide the cluster as advised. 409 if its cells have changed since. For operators."""
        return Response(cells_answer(advice_apply(viewer=_operator(request), advice_id=advice_id)))


class ElasticityQuestion(StrictSerializer):
    days = serializers.FloatField(
        required=False,
        default=1.0,
        min_value=0.01,
        max_value=MOST_DAYS,
        help_text="Simulate the jobs submitted in this many last days.",
    )


def _savings_represented(numbers: Iterable[int]) -> list[dict[str, Any]]:
    rows = ElasticitySavings.objects.select_related("asked_by").in_bulk(list(numbers))
    return elasticity_savings_represented([rows[number] for number in numbers if number in rows])


class ElasticitySavingsList(RepresentedList):
    """List simulations of what elasticity saved, newest first. For operators."""

    scope = Scope.OPERATE
    queryset = ElasticitySavings.objects.none()
    serializer_class = schemas.ElasticitySavings
    ordering = "-number"
    represent = staticmethod(_savings_represented)

    def get_queryset(self) -> QuerySet[ElasticitySavings]:
        _operator(self.request)
        return ElasticitySavings.objects.only("number")

    @extend_schema(request=ElasticityQuestion, responses={202: schemas.ElasticitySavings})
    def post(self, request: Request) -> Response:
        """Simulate the jobs of the last days twice: elastic as declared, and each at its own number of GPUs.
        Changes nothing. Poll the list until its state is done. For operators.
        """
        by = _operator(request)
        given = ElasticityQuestion(data=request.data)
        given.is_valid(raise_exception=True)
        row = elasticity_savings_ask(viewer=by, days=given.validated_data["days"])
        return Response(elasticity_savings_represented([row])[0], status=202)


def _operator(request: Request) -> Viewer:
    by = viewer(request)
    by.require_operator()
    return by


class ComparisonQuestion(StrictSerializer):
    hours = serializers.FloatField(
        required=False,
        min_value=0.1,
        max_value=MOST_HOURS,
        default=HOURS,
        help_text="Length of the period that ends now, in hours.",
    )


class Anomalies(APIView):
    scope = Scope.SUBMIT
    is_heavy = True

    @extend_schema(responses=schemas.Anomalies)
    def get(self, request: Request, name: str) -> Response:
        """Compare the guaranteed jobs of a virtual cluster here and in its private cluster. The comparison is
        repeated every ten minutes. Names and reasons of others' jobs are left out.
        """
        virtual_cluster = virtual_cluster_get(name)
        report = AnomalyReport.objects.filter(virtual_cluster=virtual_cluster).first()
        return Response(comparison_represented(virtual_cluster, report, viewer(request)))

    @extend_schema(request=ComparisonQuestion, responses={202: schemas.Anomalies})
    def post(self, request: Request, name: str) -> Response:
        """Compare a virtual cluster with its private cluster now, over a number of hours. For members of its
        tenants, and operators.
        """
        by = viewer(request)
        virtual_cluster = virtual_cluster_get(name)
        given = ComparisonQuestion(data=request.data)
        given.is_valid(raise_exception=True)
        report = comparison_ask(
            viewer=by, virtual_cluster=virtual_cluster, hours=given.validated_data["hours"]
        )
        return Response(comparison_represented(virtual_cluster, report, by), status=202)
