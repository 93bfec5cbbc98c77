"""Query parameters: an unknown one is refused, since a filter that is ignored answers another question."""

from collections.abc import Collection, Iterator
from difflib import get_close_matches
from typing import Any

from django import forms
from django.db.models import QuerySet
from django_filters import rest_framework as filters
from django_filters.fields import BaseCSVField, IsoDateTimeField
from django_filters.rest_framework import DjangoFilterBackend
from rest_framework.request import Request
from rest_framework.views import APIView

from tenants.api.strict import summary
from tenants.errors import FieldError, Invalid

#: Those of every list that has pages (`controlplane.pagination`).
PAGING = ("cursor", "page_size")


#: By the framework's codes, in place of its sentences.
_PROBLEMS = {
    "invalid_choice": "is not a choice here",
    "min_value": "is too small",
    "max_value": "is too large",
    "max_digits": "has too many digits",
    "max_whole_digits": "has too many digits",
    "max_decimal_places": "is not a whole number",
}


def paging_of(view: APIView | None) -> Collection[str]:
    """Return the parameters by which pages of a view are chosen; none where it has no pages."""
    return PAGING if getattr(view, "pagination_class", None) is not None else ()


def refuse_unknown(request: Request, known: Collection[str]) -> None:
    """Raise Invalid that names each query parameter that is not among the known ones."""
    problems = [
        FieldError(name[:80], _unknown(name, known), ", ".join(sorted(known)) or "none")
        for name in request.query_params
        if name not in known
    ]
    if problems:
        raise Invalid(f"{problems[0].field}: {problems[0].problem}.", problems)


def _unknown(name: str, known: Collection[str]) -> str:
    # Of short names, those that differ in one letter of four are other names: "nope" means no "node".
    near = get_close_matches(name, known, n=1, cutoff=0.8)
    return "is not a parameter here" + (f' (did you mean "{near[0]}"?)' if near else "")


def wrong_values(chosen: filters.FilterSet) -> list[FieldError]:
    """Return what is wrong with the values of filters, and for each what would be right."""
    return [
        FieldError(name, problem, _right(field))
        for name, field in chosen.form.fields.items()
        for problem in _problems(field, chosen.data.get(name), chosen.errors.get(name))
    ]


def _problems(field: forms.Field, value: Any, errors: Any) -> Iterator[str]:
    if isinstance(field, forms.NullBooleanField):
        # The framework takes any other word for none, and would answer as if nothing were asked.
        if value and str(value).lower() not in {"true", "false"}:
            yield f"{str(value)[:40]!r} is neither true nor false"
    elif errors:
        for error in errors.as_data():
            own = _PROBLEMS.get(error.code) or (f"is not {_kind(field)}" if error.code == "invalid" else "")
            yield f"{str(value)[:40]!r} {own}" if own else " ".join(error.messages)


def _kind(field: forms.Field) -> str:
    if isinstance(field, forms.DecimalField):
        return "a list of numbers" if isinstance(field, BaseCSVField) else "a number"
    return "an instant" if isinstance(field, IsoDateTimeField) else _right(field)


def _right(field: forms.Field) -> str:
    several = isinstance(field, BaseCSVField)
    match field:
        case forms.NullBooleanField():
            return "true or false"
        case forms.ChoiceField():
            choices: Any = field.choices
            words = ", ".join(str(value) for value, _ in choices if value)
            return f"one or more, with commas between them, of {words}" if several else f"one of {words}"
        case forms.DecimalField():
            return "whole numbers from 0, with commas between them" if several else "a whole number from 0"
        case IsoDateTimeField():
            return "an instant such as 2026-12-01T18:00:00Z"
    return "text"


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
        chosen = self.get_filterset(request, queryset, view)
        if chosen is None:
            return queryset
        if problems := wrong_values(chosen):
            raise Invalid(summary(tuple(problems)), problems)
        filtered: QuerySet[Any] = chosen.qs
        return filtered
