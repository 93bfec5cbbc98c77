"""Query parameters: checked as a whole, and as filters of lists."""

from typing import Any

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from rest_framework import serializers
from rest_framework.request import Request


def checked(kind: type[serializers.Serializer], request: Request) -> dict[str, Any]:
    """Return a request's query parameters, checked."""
    serializer = kind(data=request.query_params)
    serializer.is_valid(raise_exception=True)
    return serializer.validated_data


class CommaSeparatedChoices(filters.BaseCSVFilter, filters.ChoiceFilter):
    """Any of several words, separated by commas."""

    def filter(self, queryset: QuerySet, value: list[str] | None) -> QuerySet:
        return queryset.filter(**{f"{self.field_name}__in": value}) if value else queryset


class CommaSeparatedIds(filters.BaseInFilter, filters.NumberFilter):
    """Any of several numbers, separated by commas."""

    def __init__(self, **options: Any) -> None:
        super().__init__(min_value=0, max_value=2**63 - 1, decimal_places=0, **options)
