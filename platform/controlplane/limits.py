"""What is refused before anything reads it: bodies over the limit, NUL bytes, invalid text."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import IO, Any

from django.http import HttpRequest, HttpResponseBase
from rest_framework import parsers
from rest_framework.exceptions import ParseError

from tenants.api.problems import CONTENT_TYPE, error_bytes, error_response

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApplication = Callable[[Scope, Receive, Send], Awaitable[None]]

# An escaped NUL, not preceded by an escaped backslash.
ESCAPED_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


class BodyLimit:
    """Answers 413 to a request whose body is longer than `limit_bytes`, by its Content-Length or, when
    it came in chunks of unknown total, as soon as it turns out longer. Nothing above sees any of it.

    What `is_streamed` is passed on unread: its view has a limit of its own."""

    def __init__(
        self,
        application: AsgiApplication,
        *,
        limit_bytes: int,
        is_streamed: Callable[[Scope], bool] = lambda scope: False,
    ) -> None:
        self.application = application
        self.limit_bytes = limit_bytes
        self.is_streamed = is_streamed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self.is_streamed(scope):
            await self.application(scope, receive, send)
            return
        if self._declared_bytes(scope) > self.limit_bytes:
            await self._refuse(send)
            return
        # Django collects the whole body anyway before it does anything; so nothing is lost by doing
        # it here, where the count is known.
        chunks: list[bytes] = []
        received_bytes = 0
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return
            chunk = message.get("body", b"")
            received_bytes += len(chunk)
            if received_bytes > self.limit_bytes:
                await self._refuse(send)
                return
            chunks.append(chunk)
            if not message.get("more_body", False):
                break
        # The framework takes a body of undeclared length for none at all.
        headers = [header for header in scope["headers"] if header[0] != b"content-length"]
        scope = {**scope, "headers": [*headers, (b"content-length", str(received_bytes).encode())]}
        whole: Message | None = {"type": "http.request", "body": b"".join(chunks), "more_body": False}

        async def replay() -> Message:
            nonlocal whole
            if whole is not None:
                message, whole = whole, None
                return message
            return await receive()

        await self.application(scope, replay, send)

    @staticmethod
    def _declared_bytes(scope: Scope) -> int:
        for name, value in scope["headers"]:
            if name == b"content-length":
                return int(value) if value.isdigit() else 0
        return 0

    async def _refuse(self, send: Send) -> None:
        said = f"The body is longer than the {self.limit_bytes:,} bytes allowed."
        # The rest of the body is still on its way and will not be read.
        await refuse(send, 413, "too_large", said, [(b"connection", b"close")])


async def refuse(
    send: Send,
    status: int,
    code: str,
    message: str,
    more: Sequence[tuple[bytes, bytes]] = (),
    *,
    kind: str = "http.response",
) -> None:
    """Answer a request, or a handshake (`kind`), with an error before anything has seen it."""
    body = error_bytes(code, status, message)
    headers = [
        (b"content-type", CONTENT_TYPE.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        *more,
    ]
    await send({"type": f"{kind}.start", "status": status, "headers": headers})
    await send({"type": f"{kind}.body", "body": body})


class NoNulMiddleware:
    """PostgreSQL has no NUL in its text: refuse it in addresses and cookies, where no field checks for it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if "\0" in request.path_info or "%00" in request.META.get("QUERY_STRING", ""):
            return error_response("malformed", "The address contains a NUL character (%00).", 400)
        # A cookie can carry one as \\000, and the session's key is looked up in the database.
        if any("\0" in value for value in request.COOKIES.values()):
            return error_response("malformed", "A cookie contains a NUL character.", 400)
        return self.get_response(request)


class JSONParser(parsers.JSONParser):
    """JSON that the database can hold: no NUL, no half of a surrogate pair, no infinity."""

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Any = None
    ) -> dict[str, Any]:
        try:
            value = super().parse(stream, media_type, parser_context)
        except RecursionError:
            raise ParseError("The JSON is nested too deeply.") from None
        try:
            text = json.dumps(value, ensure_ascii=False, allow_nan=False)
            text.encode()
        except UnicodeEncodeError:
            raise ParseError(r"The JSON has half of a surrogate pair (\ud800 to \udfff).") from None
        except ValueError:
            # 1e999 is read as infinity.
            raise ParseError("The JSON has a number that is too large.") from None
        if "\\u0000" in text and ESCAPED_NUL.search(text):
            raise ParseError(r"The JSON has a NUL character (\u0000).")
        return value
