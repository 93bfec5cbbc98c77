"""Editions: answers about what is edited have an ETag, and a change may say which one it was made from.

RFC 9110, sections 8.8.3 (ETag), 13.1.1 (If-Match) and 13.1.2 (If-None-Match). A change with `If-Match` is
made only while the thing is as the caller read it. When two people edit one thing at the same time, the
second is refused (412) instead of undoing what the first did. A change without the header is always made.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, ClassVar

from django.db import connection, transaction
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.encoders import JSONEncoder
from rest_framework.views import APIView

from tenants.errors import Outdated

#: What changes a thing at its own address.
CHANGES = ("PUT", "PATCH", "DELETE")
_ANY = "*"


class Edited(APIView):
    """Something that is read by GET, and changed, at one address. Its `get` returns what a change does."""

    #: The fields of the representation that people change, or that count its changes; what it does by itself
    #: makes no other edition. Empty: all fields.
    edition: ClassVar[tuple[str, ...]] = ()

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if request.method not in CHANGES or "If-Match" not in request.headers:
            return super().dispatch(request, *args, **kwargs)
        with transaction.atomic():
            with connection.cursor() as cursor:
                # Until the change is committed: two that name the same edition come one after the other.
                cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [request.path])
            return super().dispatch(request, *args, **kwargs)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        expected = request.headers.get("If-Match")
        if request.method in CHANGES and expected is not None:
            read: Any = self.get(request, *args, **kwargs)  # type: ignore[attr-defined]  # views have it
            if not _names(expected, self._etag(read.data)):
                raise Outdated()

    def finalize_response(self, request: Request, response: Response, *args: Any, **kwargs: Any) -> Response:
        if response.status_code in (200, 201) and isinstance(response.data, Mapping):
            etag = self._etag(response.data)
            known = request.headers.get("If-None-Match")
            if known is not None and request.method in ("GET", "HEAD") and _names(known, etag):
                response = Response(status=304)
            response["ETag"] = etag
        return super().finalize_response(request, response, *args, **kwargs)

    def _etag(self, data: Mapping[str, Any]) -> str:
        counted = {name: data[name] for name in self.edition} if self.edition else data
        text = json.dumps(counted, cls=JSONEncoder, sort_keys=True)
        return f'"{hashlib.sha256(text.encode()).hexdigest()[:20]}"'


def _names(header: str, etag: str) -> bool:
    """Whether a header names this edition; one that something on the way made weak counts too."""
    return header.strip() == _ANY or etag in [each.strip().removeprefix("W/") for each in header.split(",")]
