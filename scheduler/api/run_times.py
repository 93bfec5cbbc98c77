"""How long a job runs: as declared, and as its own steps tell."""

from dataclasses import asdict

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from scheduler.rounds.run_time import run_time_of
from scheduler.selectors import job_get
from tenants.selectors import viewer


class JobRunTime(serializers.Serializer):
    declared_seconds = serializers.FloatField(allow_null=True, help_text="The estimate of its specification.")
    measured_seconds = serializers.FloatField(
        allow_null=True,
        help_text="What its steps tell, in all and at its own size; null: too few yet, or they make no sense."
        " Rounds reckon with it instead of the estimate.",
    )
    gpu_model = serializers.CharField(
        allow_blank=True, help_text="The model on which that holds; empty: any, as its speeds are not known."
    )
    differs = serializers.BooleanField(
        help_text="Declared and measured are apart by more than a fifth of what is measured."
    )
    outlasts_limit = serializers.BooleanField(help_text="What is measured is longer than its time limit.")


class RunTimeOfJob(APIView):
    @extend_schema(responses=JobRunTime)
    def get(self, request: Request, job_id: int) -> Response:
        """How long the job runs in all, as it was declared and as its own steps tell."""
        return Response(asdict(run_time_of(job_get(viewer(request), job_id))))
