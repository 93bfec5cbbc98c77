"""What nodes and jobs use: over time, and running jobs now."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from scheduler.core.model.lifecycle import JobState
from scheduler.models.attempts import Attempt
from scheduler.models.jobs import Job
from scheduler.models.metrics import Resolution
from scheduler.models.selectors.attempts import attempt_of
from scheduler.models.selectors.jobs import job_get, jobs_visible
from scheduler.models.selectors.nodes import node_get
from scheduler.telemetry.metrics.selectors.now import jobs_now
from scheduler.telemetry.metrics.selectors.reading import KEPT
from scheduler.telemetry.metrics.selectors.series import Span, job_series, node_series
from scheduler.wiring.clock import database_now
from scheduler.wiring.rest import RepresentedList, checked
from tenants.errors import FieldError, Invalid
from tenants.selectors import viewer

_LARGEST = 2**31 - 1
_RESOLUTIONS = {"auto": None, **{str(int(each)): each for each in Resolution}}
#: Attempts named beside a job's figures.
_ATTEMPTS_MOST = 100
_DEFAULT_SPAN = timedelta(hours=1)


class SpanQuery(serializers.Serializer[Mapping[str, object]]):
    since = serializers.DateTimeField(required=False)
    until = serializers.DateTimeField(
        required=False, help_text="End of the period. Default: now, or the job's end."
    )
    resolution = serializers.ChoiceField(
        choices=list(_RESOLUTIONS),
        default="auto",
        help_text=(
            "Seconds between points. auto: the finest resolution that is kept for the whole "
            "period. If there are too many points, several are combined into one."
        ),
    )


class NodeMetricsQuery(SpanQuery):
    by = serializers.ChoiceField(
        choices=["node", "gpu"],
        default="gpu",
        help_text="One series for all GPUs of the node together, or one for each GPU.",
    )


class JobMetricsQuery(SpanQuery):
    by = serializers.ChoiceField(
        choices=["attempt", "gpu", "rank"],
        default="attempt",
        help_text=(
            "One series for the whole attempt (all GPUs and all replicas), for each GPU, or for each rank."
        ),
    )
    attempt = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=_LARGEST,
        help_text="Number of the attempt. Default: all attempts.",
    )
    rank = serializers.IntegerField(
        required=False, min_value=0, max_value=_LARGEST, help_text="Only this rank and its GPUs."
    )


class UsageFilter(serializers.Serializer[Mapping[str, object]]):
    tenant = serializers.CharField(required=False, max_length=63)


class Series(serializers.Serializer[Mapping[str, object]]):
    kind = serializers.ChoiceField(choices=["gpu", "host", "replica"])
    attempt = serializers.IntegerField(allow_null=True)
    node = serializers.CharField(allow_null=True)
    gpu = serializers.IntegerField(allow_null=True, help_text="Index of the GPU on the node; null: all GPUs.")
    rank = serializers.IntegerField(allow_null=True)
    measure = serializers.CharField(help_text="Name of the measure, with its unit.")
    points = serializers.ListField(
        child=serializers.ListField(child=serializers.FloatField(), min_length=5, max_length=5),
        help_text=(
            "[Unix seconds, mean, minimum, maximum, number of readings]; there is no point if "
            "there was no reading."
        ),
    )


class NodeMetricsAnswer(serializers.Serializer[Mapping[str, object]]):
    since = serializers.DateTimeField()
    until = serializers.DateTimeField()
    resolution_seconds = serializers.IntegerField(help_text="Seconds from one point to the next.")
    simulated = serializers.BooleanField(help_text="Whether the GPU figures are simulated, not measured.")
    left_out = serializers.IntegerField(
        help_text="Number of groups of series left out because there would be too many."
    )
    series = Series(many=True)


class MeasuredAttempt(serializers.Serializer[Mapping[str, object]]):
    number = serializers.IntegerField()
    started_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)
    outcome = serializers.CharField(allow_blank=True)


class JobMetricsAnswer(NodeMetricsAnswer):
    attempts = MeasuredAttempt(many=True)


class JobUsage(serializers.Serializer[Mapping[str, object]]):
    """Latest readings of a job, summed over its GPUs or replicas; null: unknown."""

    job = serializers.IntegerField()
    name = serializers.CharField()
    tenant = serializers.CharField()
    virtual_cluster = serializers.CharField()
    attempt = serializers.IntegerField()
    gpus = serializers.FloatField(help_text="Number of GPUs that it has; a part of a GPU counts as a part.")
    gpu_model = serializers.CharField()
    nodes = serializers.ListField(child=serializers.CharField())
    running_at = serializers.DateTimeField(allow_null=True)
    utilisation_percent = serializers.FloatField(
        allow_null=True, help_text="Mean utilisation of its GPUs, in percent."
    )
    least_busy_percent = serializers.FloatField(
        allow_null=True, help_text="Utilisation of its least busy GPU, in percent."
    )
    gpu_memory_used_bytes = serializers.FloatField(allow_null=True)
    power_watts = serializers.FloatField(allow_null=True)
    cpus_used = serializers.FloatField(allow_null=True)
    memory_used_bytes = serializers.FloatField(allow_null=True)
    idle_seconds = serializers.FloatField(
        allow_null=True, help_text="Seconds for which all of its GPUs have been idle."
    )
    simulated = serializers.BooleanField()


class NodeMetrics(APIView):
    is_heavy = True

    @extend_schema(parameters=[NodeMetricsQuery], responses=NodeMetricsAnswer)
    def get(self, request: Request, name: str) -> Response:
        """Show what a node and its GPUs used over time. Default: the last hour."""
        node, query, now = node_get(name), checked(NodeMetricsQuery, request), database_now()
        until = query.get("until", now)
        span = _span(query, since=query.get("since", until - _DEFAULT_SPAN), until=until, now=now)
        return Response(node_series(node, span, by=query["by"]))


class JobMetrics(APIView):
    is_heavy = True

    @extend_schema(parameters=[JobMetricsQuery], responses=JobMetricsAnswer)
    def get(self, request: Request, job_id: int) -> Response:
        """Show what a job's attempts used over time. Default: from the first start on."""
        job = job_get(viewer(request), job_id)
        query, now = checked(JobMetricsQuery, request), database_now()
        attempts = list(_attempts(job, query.get("attempt")))
        begun = [each.starting_at for each in attempts if each.starting_at]
        since = query.get("since", min(begun, default=now))
        ends = [each.ended_at for each in attempts if each.ended_at]
        # The last reading of an attempt may be of the seconds after its end.
        latest = now if len(ends) < len(attempts) else max(ends, default=now) + timedelta(minutes=1)
        until = query.get("until", latest)
        answer = job_series(
            attempts, _span(query, since=since, until=until, now=now), by=query["by"], rank=query.get("rank")
        )
        return Response({**answer, "attempts": [_attempt(each) for each in attempts]})


class JobsUsage(RepresentedList):
    """List what running jobs of the caller's tenants use now, newest first; operators see all."""

    queryset = Job.objects.none()
    serializer_class = JobUsage
    query_serializer = UsageFilter
    represent = staticmethod(jobs_now)

    def get_queryset(self) -> QuerySet[Job]:
        jobs = jobs_visible(viewer(self.request)).filter(state=JobState.RUNNING).only("id")
        tenant = checked(UsageFilter, self.request).get("tenant")
        return jobs.filter(tenant__name=tenant) if tenant else jobs

    @extend_schema(parameters=[UsageFilter])
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)


def _span(query: dict[str, Any], *, since: datetime, until: datetime, now: datetime) -> Span:
    """Return what is asked for, as far back as anything is kept."""
    since = max(since, now - max(KEPT.values()))
    until = max(since, min(until, now + timedelta(minutes=1)))
    if "since" in query and "until" in query and query["since"] > query["until"]:
        raise Invalid("since: is after until.", [FieldError("since", "is after until", "a time before it")])
    return Span.of(since, until, _RESOLUTIONS[query["resolution"]], now)


def _attempts(job: Job, number: int | None) -> QuerySet[Attempt]:
    """Return the newest attempts that began, or the one of that number."""
    begun = Attempt.objects.filter(job=job, starting_at__isnull=False)
    if number is not None:
        chosen = attempt_of(job, number)
        begun = begun.filter(id=chosen.id if chosen else 0)
    return begun.order_by("-number")[:_ATTEMPTS_MOST]


def _attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "number": attempt.number,
        "started_at": attempt.starting_at,
        "ended_at": attempt.ended_at,
        "outcome": attempt.outcome,
    }
