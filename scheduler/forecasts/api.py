"""When jobs will start and how long they will run, and what would change that."""

from collections.abc import Mapping
from dataclasses import asdict
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from scheduler.core.perf.recurrence import LEVELS
from scheduler.forecasts import schemas
from scheduler.forecasts.services.answers import represented
from scheduler.forecasts.services.forecasting import prediction_of
from scheduler.forecasts.services.questions import ask, question_get
from scheduler.forecasts.services.run_time import run_time_of
from scheduler.jobs.representations import positions_of, reasons_of
from scheduler.models.jobs import Explanation, QueueOrder
from scheduler.models.selectors.jobs import job_get, view_of
from scheduler.wiring.representation import iso
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


class JobRunTime(serializers.Serializer[Mapping[str, object]]):
    declared_seconds = serializers.FloatField(allow_null=True, help_text="The estimate of its specification.")
    measured_seconds = serializers.FloatField(
        allow_null=True,
        help_text="What its steps tell, in all and at its own size; null: too few yet, or they make no sense."
        " Rounds use it instead of the estimate.",
    )
    gpu_model = serializers.CharField(
        allow_blank=True,
        help_text="The model on which that holds; empty: any, as no throughput is known.",
    )
    differs = serializers.BooleanField(
        help_text="Declared and measured are apart by more than a fifth of what is measured."
    )
    outlasts_limit = serializers.BooleanField(help_text="What is measured is longer than its time limit.")
    usual_seconds = serializers.FloatField(
        allow_null=True,
        help_text="How long the latest jobs like it ran on average; null: too few have ended.",
    )
    usual_by = serializers.ChoiceField(
        choices=[*LEVELS, ""],
        help_text="Its user's jobs of the same application (else name) and size, of the same application, or"
        " all of its user; empty: none.",
    )
    usual_jobs = serializers.IntegerField(help_text="How many of them count.")
    usual_error = serializers.FloatField(
        allow_null=True,
        help_text="How far off such estimates were, in the middle, as a part of what came; null: none was"
        " compared yet.",
    )


class RunTimeOfJob(APIView):
    @extend_schema(responses=JobRunTime)
    def get(self, request: Request, job_id: int) -> Response:
        """How long the job runs in all, as it was declared and as its own steps tell."""
        return Response(asdict(run_time_of(job_get(viewer(request), job_id))))


class JobWhy(APIView):
    @extend_schema(responses=schemas.Why)
    def get(self, request: Request, job_id: int) -> Response:
        """Say why the job waits, the most decisive reason first, where it stands in its queue, and when it
        will probably start."""
        job = job_get(viewer(request), job_id)
        explanation = Explanation.objects.filter(job=job).first()
        reasons = reasons_of(job)
        order = QueueOrder.objects.filter(view=view_of(job)).first()
        position = positions_of([job]).get(job.id) if job.state == "queued" else None
        return Response(
            {
                "state": job.state,
                "reasons": reasons,
                "position": position,
                "queue_length": len(order.jobs) if order and position else None,
                "round": explanation.round_number if explanation and reasons else None,
                "decided_at": iso(explanation.decided_at) if explanation and reasons else None,
                **prediction_of(job),
            }
        )
