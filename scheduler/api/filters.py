"""The query parameters of lists."""

from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet
from django_filters import rest_framework as filters

from scheduler.core.model.lifecycle import AttemptState, JobState
from scheduler.core.model.snapshot import GUARANTEED, OPPORTUNISTIC
from scheduler.models import Attempt, Event, Job, Node

_STATES = [(state.value, state.value) for state in JobState]


class CommaSeparatedChoices(filters.BaseCSVFilter, filters.ChoiceFilter):
    """Any of several words, separated by commas."""

    def filter(self, queryset: QuerySet, value: list[str] | None) -> QuerySet:
        return queryset.filter(**{f"{self.field_name}__in": value}) if value else queryset


class CommaSeparatedIds(filters.BaseInFilter, filters.NumberFilter):
    """Any of several numbers, separated by commas."""

    def __init__(self, **options: Any) -> None:
        super().__init__(min_value=0, max_value=2**63 - 1, decimal_places=0, **options)


class JobFilter(filters.FilterSet):
    state = CommaSeparatedChoices(choices=_STATES, help_text="One or more states, separated by commas.")
    tenant = filters.CharFilter(field_name="tenant__name")
    virtual_cluster = filters.CharFilter(field_name="virtual_cluster__name")
    q = filters.CharFilter(field_name="name", lookup_expr="icontains", help_text="Part of the name.")
    guarantee = filters.ChoiceFilter(
        method="by_guarantee", choices=[(GUARANTEED, GUARANTEED), (OPPORTUNISTIC, OPPORTUNISTIC)]
    )
    gpu_model = filters.CharFilter(method="by_gpu_model", help_text="Asks for this model, or is on it now.")
    submitted_by = filters.CharFilter(field_name="submitted_by__username")
    name = filters.CharFilter(field_name="name", help_text="The whole name.")
    label = filters.CharFilter(method="by_label", help_text='A label, "team=vision", or its name, "team".')
    id = CommaSeparatedIds(field_name="id", help_text="Numbers of jobs, separated by commas.")

    class Meta:
        model = Job
        fields: list[str] = []

    def by_label(self, queryset: QuerySet[Job], name: str, value: str) -> QuerySet[Job]:
        key, has_value, text = value.partition("=")
        wanted = {"labels__contains": {key: text}} if has_value else {"labels__has_key": key}
        return queryset.filter(**wanted)

    def by_guarantee(self, queryset: QuerySet[Job], name: str, value: str) -> QuerySet[Job]:
        return queryset.filter(guaranteed=value == GUARANTEED)

    def by_gpu_model(self, queryset: QuerySet[Job], name: str, value: str) -> QuerySet[Job]:
        on_it: Any = Attempt.objects.filter(job=OuterRef("pk"), allocation__gpu_model=value)
        on_it = on_it.exclude(state=AttemptState.ENDED)
        return queryset.filter(Q(gpu_models__contains=[value]) | Exists(on_it))


class EventFilter(filters.FilterSet):
    job = filters.NumberFilter(field_name="job_id", min_value=0, max_value=2**63 - 1, decimal_places=0)
    node = filters.CharFilter(method="by_node", help_text="A node's name.")
    tenant = filters.CharFilter(field_name="tenant__name")
    kind = filters.CharFilter(
        field_name="kind", lookup_expr="startswith", help_text='Such as "job." or "node.lost".'
    )

    class Meta:
        model = Event
        fields: list[str] = []

    def by_node(self, queryset: QuerySet[Event], name: str, value: str) -> QuerySet[Event]:
        return queryset.filter(node_id__in=Node.objects.filter(name=value).values("id"))
