"""Cursors: a page starts where the last one ended, so it costs the same however deep it lies."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db.models import Model, Q, QuerySet
from django.http import QueryDict
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from tenants.errors import FieldError, Invalid


class Cursor(NamedTuple):
    """`forward`: the rows after this one in the list's order; otherwise the rows before it.

    `id` orders rows of the same `value` where the column is not unique.
    """

    forward: bool
    value: Any
    id: int | None = None


def _address(request: Request, query: QueryDict) -> str:
    """Return the address of another page, at the host and by the scheme by which this one was asked for.

    The host is one of ALLOT_HOSTS, for a request to any other is refused. A proxy that ends TLS speaks http
    to this server: then the settings say which scheme callers use.
    """
    scheme = "https" if settings.SESSION_COOKIE_SECURE else request.scheme
    path = f"{request.path}?{urlencode(sorted(query.lists()), doseq=True)}"
    return f"{scheme}://{request.get_host()}{path}"


class NewestFirst(BasePagination):
    """Pages by one column or annotation, given by the view's `ordering` ("-id" unless it says otherwise).

    Rows of the same value are ordered by their ids where the column is not unique.
    """

    page_size = 50
    max_page_size = 200

    def paginate_queryset(self, queryset: Any, request: Request, view: APIView | None = None) -> list[Any]:
        self.request = request
        self.column = getattr(view, "ordering", "-id")
        size = self._page_size(request)
        cursor = self._cursor(request, queryset)
        forward = cursor is None or cursor.forward
        column = self.column.lstrip("-")
        descending = self.column.startswith("-")
        if cursor is not None:
            comparison = "lt" if descending == forward else "gt"
            beyond = Q(**{f"{column}__{comparison}": cursor.value})
            if cursor.id is not None:
                beyond |= Q(**{column: cursor.value, f"id__{comparison}": cursor.id})
            queryset = queryset.filter(beyond)
        columns = [column] if self._is_unique(queryset) else [column, "id"]
        order = [f"-{each}" if descending == forward else each for each in columns]
        # One more than asked for reveals whether there is another page.
        rows = list(queryset.order_by(*order)[: size + 1])
        more, rows = len(rows) > size, rows[:size]
        if not forward:
            rows.reverse()
        has_next = more if forward else cursor is not None
        has_previous = cursor is not None if forward else more
        self.next = self._link("after", rows[-1], columns) if rows and has_next else None
        self.previous = self._link("before", rows[0], columns) if rows and has_previous else None
        return rows

    def _is_unique(self, queryset: QuerySet[Model]) -> bool:
        return bool(self._field(queryset).unique)

    def _field(self, queryset: QuerySet[Model]) -> Any:
        """Return the field of the column's values."""
        column = self.column.lstrip("-")
        annotation = queryset.query.annotations.get(column)
        return queryset.model._meta.get_field(column) if annotation is None else annotation.output_field

    def get_paginated_response(self, data: Any) -> Response:
        return Response({"results": data, "next": self.next, "previous": self.previous})

    def _page_size(self, request: Request) -> int:
        text = request.query_params.get("page_size")
        if text is None:
            return self.page_size
        if not (re.fullmatch(r"[0-9]{1,4}", text) and 1 <= int(text) <= self.max_page_size):
            expected = f"a whole number from 1 to {self.max_page_size}"
            raise Invalid(
                "page_size is wrong.", [FieldError("page_size", f"{text!r} is out of range", expected)]
            )
        return int(text)

    def _cursor(self, request: Request, queryset: QuerySet[Model]) -> Cursor | None:
        text = request.query_params.get("cursor")
        if not text:
            return None
        direction, _, value = text.partition(".")
        row_id = None
        try:
            if direction not in ("after", "before"):
                raise ValueError(direction)
            if not self._is_unique(queryset):
                value, _, digits = value.rpartition("~")
                row_id = int(digits)
            place = self._field(queryset).to_python(value)
            if isinstance(place, datetime):
                # Not every instant of the first and the last day is one in UTC.
                place = place.astimezone(UTC)
            return Cursor(direction == "after", place, row_id)
        except (ValueError, OverflowError, ValidationError):
            expected = "the cursor in 'next' or 'previous' of another page"
            wrong = FieldError("cursor", f"{text!r} is not a cursor", expected)
            raise Invalid("cursor is wrong.", [wrong]) from None

    def _link(self, direction: str, row: Model, columns: Sequence[str]) -> str:
        query = self.request.query_params.copy()
        query["cursor"] = f"{direction}.{'~'.join(str(getattr(row, each)) for each in columns)}"
        return _address(self.request, query)

    def get_schema_operation_parameters(self, view: APIView) -> list[dict[str, Any]]:
        return [
            {
                "name": "cursor",
                "in": "query",
                "description": (
                    "Position in the list: the `cursor` in `next` or `previous` of another page."
                ),
                "schema": {"type": "string"},
            },
            {
                "name": "page_size",
                "in": "query",
                "description": "Maximum number of results in a page.",
                "schema": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": self.max_page_size,
                    "default": self.page_size,
                },
            },
        ]

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        link = {
            "type": "string",
            "nullable": True,
            "description": "Address of that page; null if there is none.",
        }
        return {
            "type": "object",
            "required": ["results", "next", "previous"],
            "properties": {"results": schema, "next": link, "previous": link},
        }


class ByPosition(NewestFirst):
    """Pages of a list that is not in the database; a cursor is the position at which its page starts."""

    def page_of(self, count: int, request: Request) -> range:
        """Return which of `count` positions are on the page that is asked for."""
        self.request = request
        size = self._page_size(request)
        start = self._start(request)
        end = min(start + size, count)
        self.next = self._position(end) if end < count else None
        self.previous = self._position(max(start - size, 0)) if start > 0 else None
        return range(min(start, count), end)

    def _start(self, request: Request) -> int:
        text = request.query_params.get("cursor") or "0"
        if not re.fullmatch(r"[0-9]{1,9}", text):
            expected = "the cursor in 'next' or 'previous' of another page"
            raise Invalid("cursor is wrong.", [FieldError("cursor", f"{text!r} is not a cursor", expected)])
        return int(text)

    def _position(self, position: int) -> str:
        query = self.request.query_params.copy()
        query["cursor"] = str(position)
        return _address(self.request, query)
