"""Jobs in groups: by array, user, tenant, or the value of a label."""

from collections.abc import Mapping
from typing import Any

from django.db.models import Count, F, Func, Max, Min, Q, QuerySet, Sum, TextField, Value
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from scheduler.core.model.lifecycle import JobState
from scheduler.jobs.filters import JobFilter
from scheduler.jobs.schemas import JobCounts
from scheduler.models.jobs import Job
from scheduler.models.selectors.jobs import jobs_visible
from scheduler.wiring.rest import values
from tenants.selectors import viewer
from tenants.times import iso

_BY: Mapping[str, Any] = {
    "array": F("array_id"),
    "user": F("submitted_by__username"),
    "tenant": F("tenant__name"),
}
_LABEL = "label:"
_LONGEST_LABEL_CHARACTERS = 63


class GroupsQuery(serializers.Serializer[Mapping[str, object]]):
    by = serializers.RegexField(
        rf"^({'|'.join(_BY)}|{_LABEL}.{{1,{_LONGEST_LABEL_CHARACTERS}}})\Z",
        help_text='Group by "array", "user" or "tenant", or by the values of a label, such as "label:team".',
        error_messages={"invalid": f"{', '.join(_BY)} or {_LABEL}NAME"},
    )


class JobGroup(JobCounts):
    """A group of jobs: how many are in each state, their GPUs, and their first and last submission."""

    key = serializers.CharField(
        allow_null=True,
        help_text="Number of the array, or name of the user, tenant or label value; null: jobs without one.",
    )
    name = serializers.CharField(help_text="Name of one of its jobs, the last in alphabetical order.")
    jobs = serializers.IntegerField()
    gpus = serializers.IntegerField(help_text="GPUs that all of its jobs ask for together.")
    gpus_running = serializers.IntegerField(help_text="GPUs that its running jobs ask for.")
    first_submitted_at = serializers.DateTimeField()
    last_submitted_at = serializers.DateTimeField()


class JobsGroups(GenericAPIView[Job]):
    is_heavy = True
    queryset = Job.objects.none()
    filterset_class = JobFilter
    query_serializer = GroupsQuery
    serializer_class = JobGroup  # type: ignore[assignment]  # a row is no job
    #: The newest job of a group, by which its pages go on; no two groups have the same.
    ordering = "-newest"

    @extend_schema(parameters=[GroupsQuery], responses=JobGroup(many=True), filters=True)
    def get(self, request: Request) -> Response:
        """Count the visible jobs by groups, latest submission first. The filters of the list apply."""
        jobs = self.filter_queryset(jobs_visible(viewer(request)))
        by = values(GroupsQuery(data=request.query_params))["by"]
        page = self.paginate_queryset(_grouped(jobs, by)) or ()
        return self.get_paginated_response([_represented(group) for group in page])


def _grouped(jobs: QuerySet[Job], by: str) -> QuerySet[Any, Any]:
    """Return one row for each group, in one statement."""
    key = _label(by.removeprefix(_LABEL)) if by.startswith(_LABEL) else _BY[by]
    is_running = Q(state=JobState.RUNNING)
    return (
        jobs.order_by()
        .values(key=key)
        .annotate(
            newest=Max("id"),
            shown_name=Max("name"),
            jobs=Count("id"),
            gpus_of_all=Sum("gpus"),
            gpus_running=Sum("gpus", filter=is_running, default=0),
            first_submitted_at=Min("submitted_at"),
            last_submitted_at=Max("submitted_at"),
            **{state.value: Count("id", filter=Q(state=state)) for state in JobState},
        )
        .values_list(
            "key",
            "newest",
            "shown_name",
            "jobs",
            "gpus_of_all",
            "gpus_running",
            "first_submitted_at",
            "last_submitted_at",
            *[state.value for state in JobState],
            named=True,
        )
    )


def _label(name: str) -> Func:
    """Return the label's value. A lookup by Django would take the name "0" for a place in a list."""
    return Func(F("labels"), Value(name), function="jsonb_extract_path_text", output_field=TextField())


def _represented(group: Any) -> dict[str, Any]:
    return {
        "key": None if group.key is None else str(group.key),
        "name": group.shown_name,
        "jobs": group.jobs,
        **{state.value: getattr(group, state.value) for state in JobState},
        "gpus": group.gpus_of_all,
        "gpus_running": group.gpus_running,
        "first_submitted_at": iso(group.first_submitted_at),
        "last_submitted_at": iso(group.last_submitted_at),
    }
