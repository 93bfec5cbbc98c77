"""What-if questions: asked by a POST, answered by a task, fetched by a GET."""

from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from scheduler.api import what_if_schemas as schemas
from scheduler.rounds.answers import represented
from scheduler.services.jobs.questions import ask, question_get
from tenants.models import Scope
from tenants.selectors import viewer


class WhatIfs(APIView):
    scope = Scope.SUBMIT
    is_heavy = True

    @extend_schema(request=schemas.WhatIfQuestion, responses={202: schemas.WhatIf})
    def post(self, request: Request) -> Response:
        """Ask what would become of the queue if a waiting job were another one, if a new job came, or (for
        operators) if the cluster were another one. Changes nothing. Each user may ask 10 questions a minute
        (else 429); answers are kept for an hour."""
        by = viewer(request)
        return Response(represented(ask(viewer=by, body=request.data), by), status=202)


class WhatIfDetail(APIView):
    @extend_schema(responses=schemas.WhatIf)
    def get(self, request: Request, question_id: UUID) -> Response:
        """One's own question and, once its state is done, its answer. Jobs of others are counted only."""
        by = viewer(request)
        return Response(represented(question_get(by, question_id), by))
