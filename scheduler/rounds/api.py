"""Rounds and events. Rounds show the jobs of all tenants, so they are for operators."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from scheduler.core.model import codec
from scheduler.core.model.plan import Action, Plan
from scheduler.models.rounds import Round
from scheduler.models.selectors.rounds import round_get
from scheduler.rounds import representations, schemas
from scheduler.wiring.rest import RepresentedList
from tenants.selectors import viewer


class Rounds(RepresentedList):
    """List stored scheduling rounds, newest first. For operators."""

    queryset = Round.objects.none()
    serializer_class = schemas.Round
    ordering = "-number"
    represent = staticmethod(representations.rounds)

    def get_queryset(self) -> QuerySet[Round]:
        viewer(self.request).require_operator()
        return Round.objects.only("number")


class RoundDetail(APIView):
    is_heavy = True

    @extend_schema(responses=schemas.RoundDetail)
    def get(self, request: Request, number: int) -> Response:
        """Get one scheduling round, with every action of its plan. For operators."""
        viewer(request).require_operator()
        row = round_get(number)
        plan = codec.loads_plan(bytes(row.plan)) if row.plan is not None else Plan(round_number=number)
        return Response(
            {
                **representations.rounds([number])[0],
                "actions": [_represented(action) for action in plan.actions],
                "overran": list(plan.overran),
            }
        )


def _represented(action: Action) -> dict[str, Any]:
    return {
        "kind": str(action.kind),
        "jobs": list(action.jobs),
        "virtual_cluster": action.virtual_cluster,
        "guaranteed": action.guaranteed,
        "gpu_model": action.placement.gpu_model if action.placement else None,
        "gpus": list(action.placement.gpus) if action.placement else [],
        "cause": action.cause,
        "preempted_by": list(action.preempted_by),
        "message": action.message,
    }
