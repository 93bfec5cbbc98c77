"""A job's attempts, their progress, and the cost of preemptions."""

from collections.abc import Mapping

from django.db.models import Exists, OuterRef, QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from scheduler.jobs.attempts import representations, schemas
from scheduler.jobs.attempts.services.preemption_cost import (
    preemptions_of_job,
    preemptions_of_virtual_cluster,
)
from scheduler.jobs.attempts.services.scaling_facts import scaling_of_job
from scheduler.jobs.attempts.services.sensitivity import sensitivity_of_job
from scheduler.models.attempts import Attempt, AttemptPart
from scheduler.models.selectors.attempts import failures_visible, progress_points
from scheduler.models.selectors.jobs import job_get
from scheduler.models.selectors.virtual_clusters import virtual_cluster_get
from scheduler.wiring.rest import RepresentedList, checked
from tenants.api.instants import InstantFilter
from tenants.selectors import viewer
from tenants.times import iso

_LARGEST = 2**31 - 1


class ProgressQuery(serializers.Serializer[Mapping[str, object]]):
    attempt = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=_LARGEST,
        help_text="Number of the attempt. Default: all attempts.",
    )


class JobAttempts(RepresentedList):
    """List the attempts of a job, newest first."""

    queryset = Attempt.objects.none()
    serializer_class = schemas.Attempt
    represent = staticmethod(representations.attempts)

    def get_queryset(self) -> QuerySet[Attempt]:
        return Attempt.objects.filter(job=job_get(viewer(self.request), self.kwargs["job_id"]))


class FailureFilter(filters.FilterSet):
    failure = filters.CharFilter(help_text="Only this failure class, such as import_error.")
    node = filters.CharFilter(method="by_node", help_text="Only attempts that ran on this node.")
    tenant = filters.CharFilter(field_name="job__tenant__name")
    job = filters.NumberFilter(field_name="job_id", min_value=0, max_value=2**63 - 1, decimal_places=0)
    since = InstantFilter(field_name="ended_at", lookup_expr="gte")
    until = InstantFilter(field_name="ended_at", lookup_expr="lt")

    class Meta:
        model = Attempt
        fields: list[str] = []

    def by_node(self, queryset: QuerySet[Attempt], name: str, value: str) -> QuerySet[Attempt]:
        on_it = AttemptPart.objects.filter(attempt=OuterRef("pk"), node__name=value)
        return queryset.filter(Exists(on_it))


class Failures(RepresentedList):
    """List failed attempts of jobs of the caller's tenants, the last to end first; operators see all."""

    queryset = Attempt.objects.none()
    serializer_class = schemas.Failure
    filterset_class = FailureFilter
    ordering = "-ended_at"
    represent = staticmethod(representations.failures)

    def get_queryset(self) -> QuerySet[Attempt]:
        return failures_visible(viewer(self.request)).only("id", "ended_at")


class JobProgress(APIView):
    @extend_schema(parameters=[ProgressQuery], responses=schemas.Progress)
    def get(self, request: Request, job_id: int) -> Response:
        """Return the job's progress lines, evenly thinned to at most 500."""
        job = job_get(viewer(request), job_id)
        number = checked(ProgressQuery, request).get("attempt")
        points = [
            {
                "attempt": point.attempt.number,
                "at": iso(point.at),
                "step": point.step,
                "samples": point.samples,
                "values": point.values,
            }
            for point in progress_points(job, number=number)
        ]
        return Response({"points": points})


MOST_HOURS = 30 * 24


class JobPreemptions(serializers.Serializer[Mapping[str, object]]):
    times = serializers.IntegerField(help_text="Number of times that it was preempted while running.")
    lost_seconds = serializers.FloatField(help_text="Total work that had to be repeated, in seconds.")
    overhead_seconds = serializers.FloatField(
        help_text=(
            "Total time from each stop order until its GPUs were released, and from getting GPUs "
            "until it ran again, in seconds."
        )
    )
    cost_seconds = serializers.FloatField(
        allow_null=True,
        help_text="Cost of one preemption as policies estimate it from its own attempts, in seconds.",
    )
    short_runs = serializers.IntegerField(
        help_text="Number of consecutive preemptions before it had run for the minimum run time."
    )
    may_borrow_at = serializers.DateTimeField(
        allow_null=True, help_text="Until this time it runs only on guaranteed GPUs."
    )


class PreemptionsQuery(serializers.Serializer[Mapping[str, object]]):
    hours = serializers.IntegerField(
        default=24,
        min_value=1,
        max_value=MOST_HOURS,
        help_text="Length of the period that ends now, in hours.",
    )


class VirtualClusterPreemptions(serializers.Serializer[Mapping[str, object]]):
    hours = serializers.IntegerField()
    preemptions = serializers.IntegerField()
    jobs = serializers.IntegerField(help_text="Number of jobs that were preempted.")
    preemptions_per_hour = serializers.FloatField()
    lost_gpu_hours = serializers.FloatField(help_text="GPU-hours of work that had to be repeated.")
    overhead_gpu_hours = serializers.FloatField(
        help_text="GPU-hours for which jobs held GPUs while they stopped and started."
    )


class PreemptionsOfJob(APIView):
    @extend_schema(responses=JobPreemptions)
    def get(self, request: Request, job_id: int) -> Response:
        """Show how often a job was preempted, and what that cost."""
        job = job_get(viewer(request), job_id)
        return Response(
            {
                **preemptions_of_job(job.id),
                "cost_seconds": job.preemption_cost_seconds,
                "short_runs": job.short_runs,
                "may_borrow_at": iso(job.may_borrow_at),
            }
        )


class ScalingOfJob(APIView):
    @extend_schema(responses=schemas.JobScaling)
    def get(self, request: Request, job_id: int) -> Response:
        """Show how a job scales: the GPUs it had, its batch size now, and its predicted speed on other
        numbers of GPUs.
        """
        return Response(scaling_of_job(job_get(viewer(request), job_id)))


class SensitivityOfJob(APIView):
    @extend_schema(responses=schemas.JobSensitivity)
    def get(self, request: Request, job_id: int) -> Response:
        """Show how a job's speed depends on its replicas' CPUs and memory, and what they have now."""
        return Response(sensitivity_of_job(job_get(viewer(request), job_id)))


class PreemptionsOfVirtualCluster(APIView):
    @extend_schema(parameters=[PreemptionsQuery], responses=VirtualClusterPreemptions)
    def get(self, request: Request, name: str) -> Response:
        """Show how often jobs of a virtual cluster were preempted lately, and the cost in GPU-hours."""
        hours = checked(PreemptionsQuery, request)["hours"]
        return Response(preemptions_of_virtual_cluster(virtual_cluster_get(name).id, hours))
