"""Advice on which cells each virtual cluster should get. For operators: it tells of all tenants' jobs."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from scheduler.adviser import schemas
from scheduler.adviser.models import Advice
from scheduler.adviser.services.advice import DAYS, advice_apply, advice_ask, advice_get
from scheduler.adviser.services.advising import represented
from scheduler.cells import schemas as cell_schemas
from scheduler.cells.api import cells_answer
from scheduler.rest.lists import RepresentedList
from tenants.api.strict import StrictSerializer
from tenants.models import Scope
from tenants.selectors import Viewer, viewer

MOST_DAYS = 31
MOST_GPUS = 1_000_000
MOST_CELLS = 1_000_000
MOST_PRICE = 1e9


class AdviceQuestion(StrictSerializer):
    """What is left out is not demanded."""

    days = serializers.FloatField(
        required=False, default=DAYS, min_value=0.01, max_value=MOST_DAYS, help_text="Of jobs to go by."
    )
    budget_gpus = serializers.DictField(
        required=False,
        default=dict,
        child=serializers.IntegerField(min_value=0, max_value=MOST_GPUS),
        help_text="By model: most GPUs that all virtual clusters together may own.",
    )
    price_per_gpu_hour = serializers.DictField(
        required=False,
        default=dict,
        child=serializers.FloatField(min_value=0, max_value=MOST_PRICE),
        help_text="By model; in any currency.",
    )
    minimum = serializers.DictField(
        required=False,
        default=dict,
        child=serializers.DictField(child=serializers.IntegerField(min_value=0, max_value=MOST_CELLS)),
        help_text="By virtual cluster and type of cell: so many at least, be it as parts of larger cells.",
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
    return represented([rows[number] for number in numbers if number in rows], whole=False)


class Advices(RepresentedList):
    """Advice that was asked for, the newest first, without the specifications. For operators."""

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
        nothing; fetch the answer until its state is done. For operators."""
        by = _operator(request)
        given = AdviceQuestion(data=request.data)
        given.is_valid(raise_exception=True)
        row = advice_ask(viewer=by, question=given.validated_data)
        return Response(represented([row], whole=True)[0], status=202)


class AdviceDetail(APIView):
    @extend_schema(responses=schemas.WholeAdvice)
    def get(self, request: Request, advice_id: UUID) -> Response:
        """Advice with the specification that could be applied. For operators."""
        _operator(request)
        return Response(represented([advice_get(advice_id)], whole=True)[0])


class AdviceApply(APIView):
    scope = Scope.OPERATE

    @extend_schema(request=None, responses=cell_schemas.Cells)
    def post(self, request: Request, advice_id: UUID) -> Response:
        """Divide the cluster as advised, unless its cells have changed since (then 409). For operators."""
        return Response(cells_answer(advice_apply(viewer=_operator(request), advice_id=advice_id)))


def _operator(request: Request) -> Viewer:
    by = viewer(request)
    by.require_operator()
    return by
