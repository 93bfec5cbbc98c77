"""`Idempotency-Key`: a POST repeated with the same key is answered again, not done again.

Key and answer are written in the transaction of the effect, so there is never one without the other. If two
requests come at the same moment, the second waits at the unique index for the first to commit; when that
takes too long it is answered to come back. Only success is remembered: an error changed nothing.

A view with `repeats_safely` is not put into that transaction. It commits step by step, because locks held
over all of its steps would be taken in another order than rounds take theirs. To repeat it changes nothing
more.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeGuard

from django.conf import settings
from django.db import OperationalError, connection, transaction
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.template.response import SimpleTemplateResponse
from django.utils import timezone
from psycopg.errors import LockNotAvailable
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import APIException
from rest_framework.request import Request
from rest_framework.settings import api_settings

from controlplane.errors import describe
from controlplane.models import IdempotentAnswer
from tenants.api.problems import answer as error_answer
from tenants.errors import ApplicationError, Conflict, FieldError, Invalid, NotAllowed
from tenants.housekeeping import delete_rows
from tenants.selectors import Viewer

HEADER = "Idempotency-Key"
REPLAYED_HEADER = "Idempotency-Replayed"
KEY_CHARACTERS = 200
TWIN_PATIENCE_SECONDS = 5
KEPT = timedelta(hours=24)
PREFIX = "/api/v1/"
# A repeat is ordinary: a violated constraint would be an error in the database's log.
_CLAIM = """
INSERT INTO controlplane_idempotentanswer (user_id, key, fingerprint, rights, created_at)
VALUES (%s, %s, %s, %s, clock_timestamp()) ON CONFLICT (user_id, key) DO NOTHING RETURNING id
"""
#: Fields of an answer that are shown once: a stored copy would be a stored secret.
SHOWN_ONCE = ("token", "password", "secret", "link", "agent")


class IdempotencyMismatch(ApplicationError):
    """This Idempotency-Key was used for another request."""

    code, status = "idempotency_mismatch", 422


class StillUnderWay(Conflict):
    """The first request with this Idempotency-Key is still being carried out."""

    #: Sent as Retry-After, so that a client can distinguish this from a conflict that will stay.
    retry_after_seconds = 1


class IdempotencyMiddleware:
    """Wraps the view of every POST of the API that carries the header."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return self.get_response(request)

    def process_view(
        self,
        request: HttpRequest,
        view: Callable[..., HttpResponse],
        args: Sequence[Any],
        kwargs: dict[str, Any],
    ) -> HttpResponseBase | None:
        key = request.headers.get(HEADER)
        if key is None or request.method != "POST" or not request.path_info.startswith(PREFIX):
            return None
        viewer = _caller(request)
        if viewer is None:
            # Refused by the view itself; or signing in, which is harmless to repeat.
            return None

        def answer(request: HttpRequest) -> HttpResponseBase:
            response = view(request, *args, **kwargs)
            return response.render() if isinstance(response, SimpleTemplateResponse) else response

        once = (
            answer_and_store if getattr(getattr(view, "cls", None), "repeats_safely", False) else answer_once
        )
        try:
            return once(viewer, _checked(key), request, answer)
        except ApplicationError as error:
            status, body, headers = describe(error)
            return error_answer(status, body, headers)


def answer_once(
    viewer: Viewer, key: str, request: HttpRequest, answer: Callable[[HttpRequest], HttpResponseBase]
) -> HttpResponseBase:
    """The stored answer when there is one, else `answer(request)`, stored when it succeeds."""
    print_of_request = fingerprint(request)
    with transaction.atomic():
        row = _claim(viewer, key, print_of_request)
        if row is None:
            stored = IdempotentAnswer.objects.get(user=viewer.user, key=key)
            return _replay(stored, print_of_request, viewer)
        response = answer(request)
        if _is_success(response):
            _store(row, response)
        else:
            transaction.set_rollback(True)
        return response


def answer_and_store(
    viewer: Viewer, key: str, request: HttpRequest, answer: Callable[[HttpRequest], HttpResponseBase]
) -> HttpResponseBase:
    """As `answer_once`, for what may be done twice: the answer is stored after the effect, not with it."""
    print_of_request = fingerprint(request)
    if (stored := IdempotentAnswer.objects.filter(user=viewer.user, key=key).first()) is not None:
        return _replay(stored, print_of_request, viewer)
    response = answer(request)
    if _is_success(response):
        with transaction.atomic():
            if (row := _claim(viewer, key, print_of_request)) is not None:
                _store(row, response)
    return response


def _is_success(response: HttpResponseBase) -> TypeGuard[HttpResponse]:
    return isinstance(response, HttpResponse) and 200 <= response.status_code < 300


def _store(row: IdempotentAnswer, response: HttpResponse) -> None:
    row.status, row.body = response.status_code, _storable(response.content)
    row.location = response.headers.get("Location", "")
    row.save(update_fields=["status", "body", "location"])


def fingerprint(request: HttpRequest) -> bytes:
    # Keyed, since a body may hold a password, and guesses at it could be checked against a stolen table.
    digest = hmac.new(settings.SECRET_KEY.encode(), digestmod=hashlib.sha256)
    digest.update(f"{request.method} {request.get_full_path()}\n".encode())
    digest.update(request.body)
    return digest.digest()


def prune() -> int:
    """Forget answers older than 24 hours; return how many."""
    return delete_rows(IdempotentAnswer.objects.filter(created_at__lt=timezone.now() - KEPT))


def _caller(request: HttpRequest) -> Viewer | None:
    wrapped = Request(request)
    for kind in api_settings.DEFAULT_AUTHENTICATION_CLASSES:
        # The setting names classes; what one gets from it are the classes.
        authentication: BaseAuthentication = kind()  # type: ignore[operator]
        try:
            signed_in = authentication.authenticate(wrapped)
        except (APIException, ApplicationError):
            return None
        if signed_in is not None:
            viewer: Viewer = signed_in[1]
            return viewer
    return None


def _checked(key: str) -> str:
    if 1 <= len(key) <= KEY_CHARACTERS and key.isascii() and key.isprintable():
        return key
    expected = f"1 to {KEY_CHARACTERS} printable ASCII characters, such as a UUID"
    raise Invalid(f"{HEADER} is wrong.", [FieldError(HEADER, "cannot be used as a key", expected)])


def _claim(viewer: Viewer, key: str, print_of_request: bytes) -> IdempotentAnswer | None:
    """A new row under this key, or None when the key was used before. Waits for a twin to finish."""
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = %s", [f"{TWIN_PATIENCE_SECONDS}s"])
            rights = json.dumps(sorted(viewer.rights))
            cursor.execute(_CLAIM, [viewer.user.pk, key, print_of_request, rights])
            claimed = cursor.fetchone()
            cursor.execute("SET LOCAL lock_timeout = DEFAULT")
    except OperationalError as error:
        if isinstance(error.__cause__, LockNotAvailable):
            raise StillUnderWay from None
        raise
    return IdempotentAnswer(pk=claimed[0], user=viewer.user, key=key) if claimed else None


def _replay(stored: IdempotentAnswer, print_of_request: bytes, viewer: Viewer) -> HttpResponse:
    if bytes(stored.fingerprint) != print_of_request:
        raise IdempotencyMismatch(
            f"This {HEADER} was used for another request: send the same path and body again, or a new key."
        )
    if not viewer.rights.issuperset(stored.rights):
        # The answer may show what its user may no longer see; the view that would refuse is not asked.
        raise NotAllowed(f"You are allowed less than when this {HEADER} was used first; send a new key.")
    response = HttpResponse(bytes(stored.body or b""), status=stored.status, content_type="application/json")
    response[REPLAYED_HEADER] = "true"
    if stored.location:
        response["Location"] = stored.location
    return response


def _storable(content: bytes) -> bytes:
    if not any(f'"{name}"'.encode() in content for name in SHOWN_ONCE):
        return content
    body = json.loads(content)
    if isinstance(body, dict):
        body.update({name: None for name in SHOWN_ONCE if name in body})
    return json.dumps(body, separators=(",", ":")).encode()
