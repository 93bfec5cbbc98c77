"""What endpoints share: lists as pages of whole objects (ids by cursor, then their representation in a few
queries), and query parameters, checked.
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Protocol

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.api.queries import paging_of, refuse_unknown
from tenants.api.strict import field_errors, summary
from tenants.errors import Invalid


class Represent(Protocol):
    """Returns the objects of those ids, in their order."""

    def __call__(self, ids: Iterable[int], /) -> list[dict[str, Any]]: ...


class RepresentedList(ListAPIView[Any]):
    """A list view whose objects come from one of the functions of a slice's `representations`.

    `serializer_class` only describes them to the schema.
    """

    represent: ClassVar[Represent]

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response(type(self).represent([row.pk for row in page or ()]))


def checked(kind: type[serializers.Serializer[Any]], request: Request) -> dict[str, Any]:
    """Return a request's query parameters, checked. Raises Invalid with each wrong or unknown one.

    A list that has filters as well declares the serializer, as its `query_serializer`.
    """
    serializer = kind(data=request.query_params)
    refuse_unknown(request, {*serializer.fields, *paging_of(request.parser_context.get("view"))})
    return values(serializer)


def values(serializer: serializers.Serializer[Any]) -> dict[str, Any]:
    """Return the validated values. Raises Invalid that says of each wrong one what would be right."""
    if not serializer.is_valid():
        wrong = tuple(field_errors(serializer.errors, serializer))
        raise Invalid(summary(wrong), wrong)
    validated: dict[str, Any] = serializer.validated_data
    return validated


class CommaSeparatedChoices(filters.BaseCSVFilter, filters.ChoiceFilter):
    """Any of several words, separated by commas."""

    def filter(self, queryset: QuerySet[Any], value: list[str] | None) -> QuerySet[Any]:
        return queryset.filter(**{f"{self.field_name}__in": value}) if value else queryset


class CommaSeparatedIds(filters.BaseInFilter, filters.NumberFilter):
    """Any of several numbers, separated by commas."""

    def __init__(self, **options: Any) -> None:
        super().__init__(min_value=0, max_value=2**63 - 1, decimal_places=0, **options)


class FieldProblem(serializers.Serializer[Mapping[str, object]]):
    field = serializers.CharField()
    problem = serializers.CharField()
    expected = serializers.CharField(allow_blank=True)
