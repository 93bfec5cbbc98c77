"""Tells the audit log who is behind each request and from where, and of those that are refused."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

from django.contrib.auth import get_user
from django.http import HttpRequest, HttpResponse, HttpResponseBase

from tenants.audit.entries import record_refusal
from tenants.audit.source import Source, acting, source
from tenants.errors import ApplicationError
from tenants.models import User
from tenants.selectors import Viewer
from tenants.signin import TURN_AFTER_SECONDS

P = ParamSpec("P")
T = TypeVar("T")

_REFUSED = (401, 403)
_TOO_MANY_GUESSES = 429
_WHO_AM_I = "/api/v1/session"


class AuditMiddleware:
    """Around everything that reads or writes the database for a request."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        with acting(Source(address=address_of(request.META.get("REMOTE_ADDR", "")))) as by:
            response = self.get_response(request)
            if _is_refused(request, response):
                _tell_refusal(request, response, by)
            return response

    def process_view(self, request: HttpRequest, *_: object) -> None:
        match = request.resolver_match
        # What no route of the API matches is caught by a regular expression, which says nothing to a reader.
        is_route = match is not None and match.route and not match.route.startswith("^")
        where = match.route if match is not None and is_route else request.path.lstrip("/")
        source().request = f"{request.method} {where}"[:200]


def by_viewer(scope: Mapping[str, Any], viewer: Viewer, do: Callable[P, T]) -> Callable[P, T]:
    """Return `do` as done by the viewer behind a WebSocket, from that address."""
    client = scope.get("client") or ("",)
    path = str(scope.get("path", ""))[:200]

    def doing(*args: P.args, **kwargs: P.kwargs) -> T:
        by = Source(address=address_of(str(client[0])), request=f"WEBSOCKET {path}")
        by.is_by("user" if viewer.token_id is None else "token", viewer.actor)
        with acting(by):
            try:
                return do(*args, **kwargs)
            except ApplicationError as error:
                if error.status in _REFUSED:
                    record_refusal(error.status, message=error.message)
                raise

    return doing


def _is_refused(request: HttpRequest, response: HttpResponseBase) -> bool:
    if response.status_code in _REFUSED:
        # A page begins by asking who is signed in; "no user" is an answer.
        asks_only = request.method == "GET" and request.path == _WHO_AM_I
        return not (asks_only and "Authorization" not in request.headers)
    # A caller that only waits for its turn to sign in asks again, and is refused or not then.
    is_waiting = TURN_AFTER_SECONDS in getattr(request, "scope", {})
    return bool(_tried(request)) and response.status_code == _TOO_MANY_GUESSES and not is_waiting


def _tried(request: HttpRequest) -> str:
    return getattr(request, "audit_tried_user", "")


def address_of(text: str) -> str:
    """The address, without the zone of an IPv6 one; empty when there is none, as on a Unix socket."""
    try:
        return str(ipaddress.ip_address(text.partition("%")[0]))
    except ValueError:
        return ""


def _tell_refusal(request: HttpRequest, response: HttpResponseBase, by: Source) -> None:
    # Refused before the user was asked for: another origin's page makes a browser send its cookie.
    if by.kind == "nobody" and (user := _signed_in(request)) is not None:
        by.is_by("user", f"user {user.username}")
    path = "" if by.request == f"{request.method} {request.path.lstrip('/')}" else request.path
    record_refusal(response.status_code, message=_message(response), path=path, tried=_tried(request))


def _signed_in(request: HttpRequest) -> User | None:
    # Read again: the framework forgets the user of a request that it refuses.
    user = get_user(request) if hasattr(request, "session") else None
    return user if isinstance(user, User) else None


def _message(response: HttpResponseBase) -> str:
    try:
        return str(json.loads(response.content)["detail"]) if isinstance(response, HttpResponse) else ""
    except (ValueError, KeyError, TypeError):
        return ""
