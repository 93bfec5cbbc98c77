"""Somebody who talks to the API over HTTP, as one user or as nobody."""

from __future__ import annotations

import json
from typing import Any

import redis
from django.conf import settings
from django.http import HttpResponse, StreamingHttpResponse
from django.test import Client

from tenants import tokens
from tenants.audit import entries
from tenants.models import Token, User

#: What addresses in answers begin with.
SITE = "http://testserver"


def make_token(user: User, **columns: Any) -> str:
    """The text of a new token of the user."""
    secret = tokens.new_secret(tokens.USER_PREFIX)
    columns.setdefault("name", "test")
    Token.objects.create(user=user, key=secret.key, digest=secret.digest, **columns)
    return secret.text


class Caller:
    """Sends JSON with a bearer token (or without); every answer must be JSON or empty."""

    def __init__(self, token: str | None = None) -> None:
        self.client = Client()
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def send(
        self, method: str, path: str, body: Any = None, *, headers: dict[str, str] | None = None
    ) -> HttpResponse:
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        path = path.removeprefix(SITE)
        path = path if path.startswith(("/api", "/metrics", "/healthz", "/readyz")) else f"/api/v1{path}"
        response = self.client.generic(
            method, path, content, content_type="application/json", headers=self.headers | (headers or {})
        )
        return whole(response) if response.streaming else response

    def get(self, path: str, **more: Any) -> HttpResponse:
        return self.send("GET", path, **more)

    def post(self, path: str, body: Any = None, **more: Any) -> HttpResponse:
        return self.send("POST", path, body, **more)

    def put(self, path: str, body: Any = None, **more: Any) -> HttpResponse:
        return self.send("PUT", path, body, **more)

    def patch(self, path: str, body: Any = None, **more: Any) -> HttpResponse:
        return self.send("PATCH", path, body, **more)

    def delete(self, path: str, **more: Any) -> HttpResponse:
        return self.send("DELETE", path, **more)


def whole(response: StreamingHttpResponse) -> HttpResponse:
    """What comes in pieces, at once."""

    return HttpResponse(b"".join(response), status=response.status_code, headers=dict(response.headers))


def caller(user: User, **token_columns: Any) -> Caller:
    return Caller(make_token(user, **token_columns))


def is_error(response: HttpResponse, status: int, code: str) -> dict[str, Any]:
    """Assert that this is an error in the one format, and return it."""
    body = json.loads(response.content)
    assert (response.status_code, body["code"]) == (status, code), body
    assert set(body) == {"type", "title", "status", "detail", "code", "fields"}
    assert body["detail"]
    for field in body["fields"]:
        assert set(field) == {"field", "problem", "expected"}
        assert field["field"]
        assert field["problem"]
    return body


def forget_recorded() -> None:
    """Let the audit log be as after a start of the server, which remembers what it wrote down."""
    entries._READS = entries._Recent(entries._SAME_READ_SECONDS)
    entries._TOKEN_USES = entries._Recent(entries._SAME_USE_SECONDS)
    entries._REFUSALS = entries._Refusals()


def forget_wrong_passwords() -> None:
    """Start the limit on signing in anew: it lives in Redis, which no test's end empties."""
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        for key in client.scan_iter("allot:signin:*"):
            client.delete(key)
