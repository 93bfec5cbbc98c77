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
from tenants.models import Scope
from tenants.selectors import viewer
from tenants.times import iso


class WhatIfs(APIView):
    scope = Scope.SUBMIT
    is_heavy = True

    @extend_schema(request=schemas.WhatIfQuestion, responses={202: schemas.WhatIf})
    def post(self, request: Request) -> Response:
        """Predict the queue after a change. The change concerns a waiting job, a new job or (for operators)
        the cluster. Changes nothing. Each user may ask 10 questions a minute (else 429). Answers are kept for
        an hour.
        """
        by = viewer(request)
        return Response(represented(ask(viewer=by, body=request.data), by), status=202)


class WhatIfDetail(APIView):
    @extend_schema(responses=schemas.WhatIf)
    def get(self, request: Request, question_id: UUID) -> Response:
        """Get your own question and, when its state is done, its answer. Other users' jobs are only
        counted."""
        by = viewer(request)
        return Response(represented(question_get(by, question_id), by))


class JobRunTime(serializers.Serializer[Mapping[str, object]]):
    declared_seconds = serializers.FloatField(
        allow_null=True, help_text="Estimate in its specification, in seconds."
    )
    measured_seconds = serializers.FloatField(
        allow_null=True,
        help_text=(
            "Total run time at its own size, estimated from its steps, in seconds; null: too few "
            "steps yet, or they are inconsistent. Rounds use it instead of the declared estimate."
        ),
    )
    gpu_model = serializers.CharField(
        allow_blank=True,
        help_text="GPU model for which the estimate holds; empty: any, as no throughput is known.",
    )
    differs = serializers.BooleanField(
        help_text=(
            "Whether the declared and the measured run time differ by more than a fifth of the measured one."
        )
    )
    outlasts_limit = serializers.BooleanField(
        help_text="Whether the measured run time exceeds its time limit."
    )
    usual_seconds = serializers.FloatField(
        allow_null=True,
        help_text="Mean run time of the latest similar jobs, in seconds; null: too few have ended.",
    )
    usual_by = serializers.ChoiceField(
        choices=[*LEVELS, ""],
        help_text=(
            "Which jobs count as similar: this user's jobs of the same application (or name) and "
            "size, those of the same application, or all jobs of the user; empty: none."
        ),
    )
    usual_jobs = serializers.IntegerField(help_text="Number of similar jobs used.")
    usual_error = serializers.FloatField(
        allow_null=True,
        help_text=(
            "Median error of such estimates, relative to the actual run time; null: none was compared yet."
        ),
    )


class RunTimeOfJob(APIView):
    @extend_schema(responses=JobRunTime)
    def get(self, request: Request, job_id: int) -> Response:
        """Show the job's total run time, as declared and as estimated from its own steps."""
        return Response(asdict(run_time_of(job_get(viewer(request), job_id))))


class JobWhy(APIView):
    @extend_schema(responses=schemas.Why)
    def get(self, request: Request, job_id: int) -> Response:
        """Show why a job waits: the reasons (most decisive first), its place in the queue and its predicted
        start.
        """
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
