"""Filters of jobs, for a list, a count, an export or an action."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.db.models.lookups import GreaterThanOrEqual, LessThan
from django_filters import rest_framework as filters

from scheduler.core.model.lifecycle import AttemptState, JobState, PartState
from scheduler.core.model.snapshot import GUARANTEED, OPPORTUNISTIC
from scheduler.jobspec import did_you_mean
from scheduler.models.attempts import Attempt, AttemptPart
from scheduler.models.jobs import Job, or_never
from scheduler.models.selectors.jobs import jobs_visible
from scheduler.wiring.rest import CommaSeparatedChoices, CommaSeparatedIds
from tenants.api.instants import InstantFilter
from tenants.api.queries import wrong_values
from tenants.errors import FieldError, Invalid
from tenants.selectors import Viewer

_STATES = [(state.value, state.value) for state in JobState]


class JobFilter(filters.FilterSet):
    state = CommaSeparatedChoices(choices=_STATES, help_text="One or more states, separated by commas.")
    tenant = filters.CharFilter(field_name="tenant__name")
    virtual_cluster = filters.CharFilter(field_name="virtual_cluster__name")
    q = filters.CharFilter(
        field_name="name", lookup_expr="icontains", help_text="Only names that contain this text."
    )
    guarantee = filters.ChoiceFilter(
        method="by_guarantee", choices=[(GUARANTEED, GUARANTEED), (OPPORTUNISTIC, OPPORTUNISTIC)]
    )
    gpu_model = filters.CharFilter(
        method="by_gpu_model", help_text="Only jobs that ask for this GPU model, or run on it now."
    )
    submitted_by = filters.CharFilter(field_name="submitted_by__username")
    name = filters.CharFilter(field_name="name", help_text="Only jobs with exactly this name.")
    label = filters.CharFilter(
        method="by_label",
        help_text='Only jobs with this label ("team=vision"), or with any label of this name ("team").',
    )
    id = CommaSeparatedIds(field_name="id", help_text="Only jobs with these numbers, separated by commas.")

    array = filters.NumberFilter(
        field_name="array_id",
        min_value=0,
        max_value=2**63 - 1,
        decimal_places=0,
        help_text="Only tasks of the array with this number.",
    )
    serves = filters.NumberFilter(
        field_name="serves__job_id",
        min_value=0,
        max_value=2**63 - 1,
        decimal_places=0,
        help_text="Only input workers of this job. No other list contains them.",
    )
    fold = filters.BooleanFilter(
        method="unchanged",
        help_text="Return one row for each array: the first task that matches the other filters.",
    )

    since = InstantFilter(method="by_since", help_text="Only jobs that had not ended by this time.")
    until = InstantFilter(
        field_name="submitted_at",
        lookup_expr="lt",
        help_text="Only jobs that were submitted before this time.",
    )
    submitted_since = InstantFilter(field_name="submitted_at", lookup_expr="gte")
    submitted_until = InstantFilter(field_name="submitted_at", lookup_expr="lt")
    started_since = InstantFilter(
        field_name="started_at",
        method="at_or_after",
        help_text="Only jobs whose first start is at or after this time.",
    )
    started_until = InstantFilter(field_name="started_at", method="before")
    ended_since = InstantFilter(field_name="ended_at", method="at_or_after")
    ended_until = InstantFilter(field_name="ended_at", method="before")
    failure = filters.CharFilter(
        method="by_failure",
        help_text="Only jobs with an attempt of this failure class, such as import_error.",
    )

    class Meta:
        model = Job
        fields: list[str] = []

    def unchanged(self, queryset: QuerySet[Job], name: str, value: bool) -> QuerySet[Job]:
        return queryset

    def filter_queryset(self, queryset: QuerySet[Job]) -> QuerySet[Job]:
        found: QuerySet[Job] = super().filter_queryset(queryset)
        if self.form.cleaned_data.get("serves") is None:
            found = found.filter(serves=None)
        if not self.form.cleaned_data.get("fold"):
            return found
        earlier = found.filter(array_id=OuterRef("array_id"), id__lt=OuterRef("id")).order_by()
        return found.filter(Q(array_id=None) | ~Exists(earlier))

    def by_label(self, queryset: QuerySet[Job], name: str, value: str) -> QuerySet[Job]:
        key, has_value, text = value.partition("=")
        condition = {"labels__contains": {key: text}} if has_value else {"labels__has_key": key}
        return queryset.filter(**condition)

    def by_since(self, queryset: QuerySet[Job], name: str, value: datetime) -> QuerySet[Job]:
        return queryset.filter(GreaterThanOrEqual(or_never("ended_at"), value))

    def at_or_after(self, queryset: QuerySet[Job], name: str, value: datetime) -> QuerySet[Job]:
        return queryset.filter(GreaterThanOrEqual(or_never(name), value), **{f"{name}__isnull": False})

    def before(self, queryset: QuerySet[Job], name: str, value: datetime) -> QuerySet[Job]:
        return queryset.filter(LessThan(or_never(name), value))

    def by_failure(self, queryset: QuerySet[Job], name: str, value: str) -> QuerySet[Job]:
        return queryset.filter(id__in=Attempt.objects.filter(failure=value).values("job_id"))

    def by_guarantee(self, queryset: QuerySet[Job], name: str, value: str) -> QuerySet[Job]:
        return queryset.filter(guaranteed=value == GUARANTEED)

    def by_gpu_model(self, queryset: QuerySet[Job], name: str, value: str) -> QuerySet[Job]:
        on_it: Any = Attempt.objects.filter(job=OuterRef("pk"), allocation__gpu_model=value)
        on_it = on_it.exclude(state=AttemptState.ENDED)
        return queryset.filter(Q(gpu_models__contains=[value]) | Exists(on_it))


#: Columns for sorting. Jobs that have not started, or ended, sort as if they did at the end of time.
_SORTS: dict[str, Any] = {
    "submitted": F("id"),
    "started": or_never("started_at"),
    "ended": or_never("ended_at"),
    "name": F("name"),
    "gpus": F("gpus"),
    "priority": F("priority"),
}
#: The column by which `JobListFilter` lets a page be sorted.
SORT_KEY = "sort_key"


class JobListFilter(JobFilter):
    sort = filters.ChoiceFilter(
        method="by_sort",
        choices=[(f"{sign}{name}",) * 2 for name in _SORTS for sign in ("", "-")],
        help_text='Sort by this field; with "-" before it, the largest or latest first. Default: -submitted.',
    )

    node = filters.CharFilter(
        method="by_node", help_text="Only jobs that run on this node now, or will when others leave it."
    )

    def by_node(self, queryset: QuerySet[Job], name: str, value: str) -> QuerySet[Job]:
        there = AttemptPart.objects.filter(node__name=value).exclude(state=PartState.EXITED)
        return queryset.filter(id__in=there.exclude(attempt__state=AttemptState.ENDED).values("attempt__job"))

    def by_sort(self, queryset: QuerySet[Job], name: str, value: str) -> QuerySet[Job]:
        return queryset.annotate(**{SORT_KEY: _SORTS[value.removeprefix("-")]})


def jobs_matching(by: Viewer, given: Mapping[str, str], *, where: str) -> QuerySet[Job]:
    """Return the visible jobs under the filters of a body's field `where`.

    Raises Invalid for a filter that is unknown or wrong, and for a missing `where`: such a request would
    change other jobs than its author meant.
    """
    known = list(JobFilter.get_filters())  # type: ignore[no-untyped-call]
    unknown = [name for name in given if name not in known]
    if unknown or not given:
        field = f"{where}.{unknown[0][:80]}" if unknown else where
        problem = f"is not a filter{did_you_mean(unknown[0], known)}" if unknown else "is empty"
        expected = f"{'one' if unknown else 'one or more'} of: {', '.join(known)}"
        raise Invalid.of(FieldError(field, problem, expected))
    chosen = JobFilter(data=given, queryset=jobs_visible(by))
    if wrong := wrong_values(chosen):
        problems = [FieldError(f"{where}.{each.field}", each.problem, each.expected) for each in wrong]
        raise Invalid(f"{problems[0].field}: {problems[0].problem}", problems)
    found: QuerySet[Job] = chosen.qs
    return found
