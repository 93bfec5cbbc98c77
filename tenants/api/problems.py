"""Errors of the API in one format: the problem details of RFC 9457, with `code` and `fields` beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from django.http import JsonResponse

from tenants.errors import FieldError

#: What an error is answered as.
CONTENT_TYPE = "application/problem+json"
#: Where `type` leads: a heading for each code.
_REFERENCE = "/docs/api/index.html#"

#: By code: what is the same for every error of it.
TITLES = {
    "address_too_long": "The address is too long",
    "conflict": "The state of the object does not allow this",
    "idempotency_mismatch": "The idempotency key was used for another request",
    "internal": "The platform failed",
    "invalid": "The request has wrong fields",
    "malformed": "The request cannot be read",
    "method_not_allowed": "This address does not support this method",
    "no_keys": "The server has no key to seal secrets with",
    "no_space": "The server has no disk space for this",
    "node_refused": "The report of a node was refused",
    "not_acceptable": "No type in the Accept header is available",
    "not_allowed": "Your role or your token does not allow this",
    "not_found": "Not found, or you may not see it",
    "not_signed_in": "You are not signed in",
    "outdated": "It has changed since you read it",
    "quota_exceeded": "A quota or a guarantee does not allow this",
    "too_large": "The request is too large",
    "too_many_requests": "Too many requests",
    "too_slow": "The request arrived too slowly",
    "unavailable": "The database or Redis does not answer",
    "unsupported_media_type": "The media type of the body is not supported",
}


def error_body(code: str, status: int, message: str, fields: Sequence[FieldError] = ()) -> dict[str, Any]:
    return {
        "type": _REFERENCE + code,
        "title": TITLES[code],
        "status": status,
        "detail": message,
        "code": code,
        "fields": [
            {"field": error.field, "problem": error.problem, "expected": error.expected} for error in fields
        ],
    }


def error_response(code: str, message: str, status: int) -> JsonResponse:
    return answer(status, error_body(code, status, message))


def answer(status: int, body: dict[str, Any], headers: Mapping[str, str] | None = None) -> JsonResponse:
    """Answer an error outside the views of the API."""
    return JsonResponse(body, status=status, headers=headers, content_type=CONTENT_TYPE)


def error_bytes(code: str, status: int, message: str) -> bytes:
    """The body of an error for those who answer below Django."""
    return json.dumps(error_body(code, status, message)).encode()
