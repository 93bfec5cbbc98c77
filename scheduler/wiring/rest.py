"""What endpoints share: lists as pages of whole objects (ids by cursor, then their representation in a few
queries), CSV files, and query parameters, checked.
"""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, ClassVar, Protocol

from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from django_filters import rest_framework as filters
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.api.queries import paging_of, refuse_unknown

#: Of more lines than this an export has the newest.
MOST_EXPORTED = 100_000
_AT_ONCE = 1_000
#: With one of these a spreadsheet would take a text for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")

#: Rows as the objects whose fields become the columns.
Shown = Callable[[Sequence[Any]], Iterable[dict[str, Any]]]


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


def exported(name: str, lines: QuerySet[Any], fields: Sequence[str], shown: Shown) -> StreamingHttpResponse:
    """Answer with the rows by id, the oldest first; of too many the newest, as the last line then says."""
    return _as_file(name, _csv(lines.order_by(), fields, shown))


def csv_file(
    name: str, fields: Sequence[str], pages: Iterable[Iterable[Mapping[str, Any]]]
) -> StreamingHttpResponse:
    """Answer with these rows, page by page."""
    return _as_file(name, chain([_rows([fields])], (_lines(page, fields) for page in pages)))


def csv_text(fields: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the same as text."""
    return (_rows([fields]) + _lines(rows, fields)).decode()


def _as_file(name: str, content: Iterable[bytes]) -> StreamingHttpResponse:
    return StreamingHttpResponse(
        content,
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}.csv"'},
    )


def _csv(lines: QuerySet[Any], fields: Sequence[str], shown: Shown) -> Iterator[bytes]:
    """Yield the file piece by piece, so that no line waits for the others."""
    newest = list(lines.order_by("-id").values_list("id", flat=True)[: MOST_EXPORTED + 1])
    is_cut = len(newest) > MOST_EXPORTED
    last, until = (newest[-1] if is_cut else 0), (newest[0] if newest else 0)
    yield _rows([fields])
    while last < until:
        page = lines.filter(id__gt=last, id__lte=until).order_by("id")[:_AT_ONCE]
        rows = list(page)
        if not rows:
            break
        last = rows[-1].id
        yield _lines(shown(rows), fields)
    if is_cut:
        yield _rows([[f"Older lines were left out: these are the newest {MOST_EXPORTED:,}."]])


def _lines(rows: Iterable[Mapping[str, Any]], fields: Sequence[str]) -> bytes:
    return _rows([_cell(row[name]) for name in fields] for row in rows)


def _rows(rows: Any) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _cell(value: Any) -> object:
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, str) and value.startswith(_FORMULA):
        # Spreadsheets show what follows an apostrophe as it is.
        return f"'{value}"
    return "" if value is None else value


def checked(kind: type[serializers.Serializer[Any]], request: Request) -> dict[str, Any]:
    """Return a request's query parameters, checked. Raises Invalid with each wrong or unknown one.

    A list that has filters as well declares the serializer, as its `query_serializer`.
    """
    serializer = kind(data=request.query_params)
    refuse_unknown(request, {*serializer.fields, *paging_of(request.parser_context.get("view"))})
    serializer.is_valid(raise_exception=True)
    parameters: dict[str, Any] = serializer.validated_data
    return parameters


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
