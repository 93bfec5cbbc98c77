"""Every exception as an answer of the API, in the one format of `tenants.api.problems`.

Also for what never reaches a view: unknown paths, crashes, refused hosts, bodies over the limit.
"""

from __future__ import annotations

import logging
import secrets
import sys
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

import redis.exceptions
from django.core import exceptions as django_exceptions
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from rest_framework import exceptions
from rest_framework.response import Response

from scheduler.core.model.errors import InvalidTransition
from tenants.api.problems import CONTENT_TYPE, answer, error_body, error_response
from tenants.api.strict import field_errors, summary
from tenants.errors import ApplicationError

log = logging.getLogger(__name__)

#: The name of the request that is being answered (`middleware.HeadersMiddleware`).
request_name = ContextVar("request_name", default="")

# (code, status) of the framework's exceptions; the first match counts.
FRAMEWORK: Sequence[tuple[type[Exception], str, int]] = (
    (exceptions.ParseError, "malformed", 400),
    (exceptions.AuthenticationFailed, "not_signed_in", 401),
    (exceptions.NotAuthenticated, "not_signed_in", 401),
    (exceptions.PermissionDenied, "not_allowed", 403),
    (django_exceptions.PermissionDenied, "not_allowed", 403),
    (exceptions.NotFound, "not_found", 404),
    (Http404, "not_found", 404),
    (exceptions.MethodNotAllowed, "method_not_allowed", 405),
    (exceptions.NotAcceptable, "not_acceptable", 406),
    (InvalidTransition, "conflict", 409),
    (django_exceptions.RequestDataTooBig, "too_large", 413),
    (exceptions.UnsupportedMediaType, "unsupported_media_type", 415),
    (exceptions.Throttled, "too_many_requests", 429),
    (django_exceptions.SuspiciousOperation, "malformed", 400),
    (OperationalError, "unavailable", 503),
    (InterfaceError, "unavailable", 503),
    (redis.exceptions.ConnectionError, "unavailable", 503),
    (redis.exceptions.TimeoutError, "unavailable", 503),
)

#: What is raised while the database or Redis is away.
UNAVAILABLE = tuple(kind for kind, _, status in FRAMEWORK if status == 503)

MESSAGES = {
    "not_found": "Not found, or you may not see it.",
    "unavailable": "The database or Redis does not answer just now. Try again in a few seconds.",
    "not_signed_in": "Sign in, or send a valid token as 'Authorization: Bearer alt_...'.",
}


def exception_handler(error: Exception, context: dict[str, Any]) -> Response:
    """Answer any exception of an API view."""
    status, body, headers = describe(error)
    return Response(body, status=status, headers=headers, content_type=CONTENT_TYPE)


def describe(error: Exception) -> tuple[int, dict[str, Any], dict[str, str]]:
    """Status, body and headers for an exception; unknown ones are logged under the request's name."""
    if isinstance(error, ApplicationError):
        wait = getattr(error, "retry_after_seconds", None)
        headers = {"Retry-After": str(wait)} if wait is not None else {}
        if error.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return error.status, error_body(error.code, error.status, error.message, error.fields), headers
    if isinstance(error, exceptions.ValidationError):
        fields = tuple(field_errors(error.detail))
        return 400, error_body("invalid", 400, summary(fields), fields), {}
    for kind, code, status in FRAMEWORK:
        if isinstance(error, kind):
            if status == 503:
                log.error("unavailable: %s", error)
            return status, error_body(code, status, _message(error, code)), _headers(error)
    return internal(error)


def internal(error: BaseException | None) -> tuple[int, dict[str, Any], dict[str, str]]:
    """Log an unforeseen exception under the request's name, and describe it by that name only."""
    error_id = request_name.get() or secrets.token_hex(8)
    log.error("internal error %s", error_id, exc_info=error)
    message = f"Something went wrong in the platform. Operators find the cause in the log under {error_id}."
    return 500, error_body("internal", 500, message), {}


def _message(error: Exception, code: str) -> str:
    if isinstance(error, exceptions.NotAuthenticated | Http404) or code == "unavailable":
        return MESSAGES[code]
    if isinstance(error, exceptions.ParseError) and "set_int_max_str_digits" in str(error.detail):
        return "A number in the body has too many digits."
    if isinstance(error, exceptions.APIException):
        return str(error.detail)
    return str(error) or MESSAGES.get(code, code)


def _headers(error: Exception) -> dict[str, str]:
    headers = {}
    if header := getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = header
    if wait := getattr(error, "wait", None):
        headers["Retry-After"] = str(int(wait))
    return headers


@csrf_exempt  # What is not there needs no protection, and should not seem to be there.
def api_not_found(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
    return error_response("not_found", f"There is nothing at {request.path}. See /api/docs.", 404)


def handler400(request: HttpRequest, exception: Exception) -> HttpResponse:
    return error_response("malformed", "The request is malformed.", 400)


def handler403(request: HttpRequest, exception: Exception) -> HttpResponse:
    return error_response("not_allowed", "This is not allowed.", 403)


def handler404(request: HttpRequest, exception: Exception) -> HttpResponse:
    return api_not_found(request)


def handler500(request: HttpRequest) -> HttpResponse:
    status, body, headers = internal(sys.exc_info()[1])
    return answer(status, body, headers)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    return error_response(
        "not_allowed", f"{reason} Send the header X-CSRFToken with the csrf_token of GET /session.", 403
    )
