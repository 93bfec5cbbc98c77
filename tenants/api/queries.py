"""Query parameters: an unknown one is refused, since a filter that is ignored answers another question."""

from collections.abc import Collection
from difflib import get_close_matches
from typing import Any

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from django_filters.rest_framework import DjangoFilterBackend
from rest_framework.request import Request
from rest_framework.views import APIView

from tenants.errors import FieldError, Invalid

#: Those of every list that has pages (`controlplane.pagination`).
PAGING = ("cursor", "page_size")


def paging_of(view: APIView | None) -> Collection[str]:
    """Return the parameters by which pages of a view are chosen; none where it has no pages."""
    return PAGING if getattr(view, "pagination_class", None) is not None else ()


def refuse_unknown(request: Request, known: Collection[str]) -> None:
    """Raise Invalid that names each query parameter that is not among the known ones."""
    problems = [
        FieldError(name[:80], "is not a parameter here", _expected(name, known))
        for name in request.query_params
        if name not in known
    ]
    if problems:
        raise Invalid(f"{problems[0].field}: is not a parameter here.", problems)


def _expected(name: str, known: Collection[str]) -> str:
    near = get_close_matches(name, known, n=1)
    return near[0] if near else ", ".join(sorted(known)) or "none"


class ByName(filters.FilterSet):
    """Finds objects by a part of their name, in upper or lower case: a search field needs no whole list."""

    q = filters.CharFilter(
        field_name="name", lookup_expr="icontains", help_text="Only names that contain this text."
    )


class FilterBackend(DjangoFilterBackend):
    """Filters lists by the filters that a view declares, and refuses all others.

    What a view reads by itself it declares as `query_serializer` (`scheduler.wiring.rest.checked`).
    """

    def filter_queryset(self, request: Request, queryset: QuerySet[Any], view: APIView) -> QuerySet[Any]:
        declared = self.get_filterset_class(view, queryset)
        own = getattr(view, "query_serializer", None)
        known = {*(declared.base_filters if declared else ()), *(own().fields if own else ())}
        refuse_unknown(request, {*known, *paging_of(view)})
        filtered: QuerySet[Any] = super().filter_queryset(request, queryset, view)
        return filtered
