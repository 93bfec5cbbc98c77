"""Answers that endpoints share."""

from typing import Any
from urllib.parse import quote

from rest_framework.request import Request
from rest_framework.response import Response


def created(request: Request, data: Any, key: object) -> Response:
    """Answer that something was made, which is below the request's path under its key (RFC 9110, 10.2.2)."""
    return Response(data, status=201, headers={"Location": f"{request.path}/{quote(str(key), safe='')}"})
