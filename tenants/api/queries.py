"""Query parameters: an unknown one is refused, since a filter that is ignored answers another question."""

from collections.abc import Collection
from difflib import get_close_matches
from typing import Any

from django.db.models import QuerySet
from django_filters.rest_framework import DjangoFilterBackend
from rest_framework.request import Request
from rest_framework.views import APIView

from tenants.errors import FieldError, Invalid

#: Those of every list (`controlplane.pagination`).
PAGING = ("cursor", "page_size")


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


class FilterBackend(DjangoFilterBackend):  # type: ignore[misc]  # it has no types
    """Filters lists by the filters that a view declares, and refuses what is none of these."""

    def filter_queryset(self, request: Request, queryset: QuerySet[Any], view: APIView) -> QuerySet[Any]:
        declared = self.get_filterset_class(view, queryset)
        others = getattr(view, "other_parameters", ())
        known = {*(declared.base_filters if declared else ()), *PAGING, *others}
        # Where a view has checked its parameters by a serializer, unknown ones were refused there.
        if not getattr(request, "parameters_checked", False):
            refuse_unknown(request, known)
        filtered: QuerySet[Any] = super().filter_queryset(request, queryset, view)
        return filtered
