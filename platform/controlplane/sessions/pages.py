"""The pages of jobs: HTTP and WebSockets of a browser, to a program that listens in a job.

What comes from there is a tenant's code, in the browser of a user who is signed in here. So it is another
origin than the dashboard's, none of our cookies go there or come from there, and only pages of the same
origin may ask for more than to be shown (docs/decisions/0020).
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from functools import partial
from html import escape
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

import httpcore
from channels.db import database_sync_to_async
from django.conf import settings
from django.http.request import split_domain_port

from controlplane import rights
from controlplane.job_pages import TICKET, Place, host_of, is_for_pages, place_of
from controlplane.limits import AsgiApplication, Message, Receive, Scope, Send
from controlplane.sessions.filters import (
    COOKIE,
    cookie_header,
    is_foreign,
    request_headers,
    response_headers,
)
from controlplane.sessions.tunnel import NoTunnel, TunnelBackend
from controlplane.sessions.upgrade import pass_on_socket
from scheduler.jobs.sessions.services.port_passes import (
    PASS_VALID,
    HeldPass,
    pass_held,
    pass_held_still,
    ticket_exchange,
)

log = logging.getLogger(__name__)

RECHECK_SECONDS = 60.0
#: Connections of one browser to one port, WebSockets not counted, and how long one rests before it is closed.
MOST_CONNECTIONS = 16
REST_SECONDS = 30.0
#: After no request for this long, a browser that comes back is let in again by its cookie.
FORGET_SECONDS = 300.0
#: What a browser repeats too, when a connection that it used before turns out to be closed (RFC 9110, 9.2.2).
_REPEATABLE = frozenset({"GET", "HEAD", "OPTIONS"})
#: The step that httpcore's trace names for a request that had no connection to use again.
_CONNECTING = "connection.connect_tcp.started"
_NO_PASS = "Open this page from the job's own page: your pass for it has ended, or the job has."
_CONTENT_POLICY = b"default-src 'none'; frame-ancestors 'none'"


class Visit:
    """One browser at one port: its connections, closed when its pass is no longer valid."""

    def __init__(self, held: HeldPass, right: rights.Right) -> None:
        self.held = held
        self.right = right
        self.pool = httpcore.AsyncConnectionPool(
            network_backend=TunnelBackend(held),
            max_connections=MOST_CONNECTIONS,
            keepalive_expiry=REST_SECONDS,
        )
        self.used_at = asyncio.get_running_loop().time()
        #: Set when it is over, for what is under way.
        self.over = asyncio.Event()
        self.sockets = 0


class JobPages:
    """The ASGI application for the origin of jobs' pages; everything else goes to `application`."""

    def __init__(self, application: AsgiApplication) -> None:
        self.application = application
        self.visits: dict[str, Visit] = {}
        self.watches: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.application(scope, receive, send)
            return
        headers = dict(scope["headers"])
        host = split_domain_port(headers.get(b"host", b"").decode("latin-1").lower())[0]
        if not is_for_pages(host, (scope.get("server") or ("", 0))[1] or 0):
            await self.application(scope, receive, send)
            return
        place = place_of(scope["path"])
        if place is None or (settings.CONFIG.proxy_host and host_of(place) != host):
            await _refuse(scope, receive, send, 404, "There is no such page of a job.")
        elif is_foreign(scope):
            await _refuse(scope, receive, send, 403, "Only pages of the job itself may ask for this.")
        elif scope["type"] == "http" and not place.has_slash:
            await _lead_to(send, f"{place.path}{_query(scope)}")
        elif scope["type"] == "http" and (ticket := _ticket(scope)):
            await self._let_in(scope, receive, send, place, ticket)
        elif (visit := await self._visit(_cookie(headers), place)) is None:
            await _refuse(scope, receive, send, 403, _NO_PASS)
        elif scope["type"] == "websocket":
            await self._pass_on_socket(visit, scope, receive, send)
        else:
            await self._pass_on(visit, scope, receive, send)

    async def _let_in(self, scope: Scope, receive: Receive, send: Send, place: Place, ticket: str) -> None:
        """Take the ticket for a cookie, and lead on to the address without it."""
        secret = await database_sync_to_async(ticket_exchange)(ticket, job_id=place.job_id, port=place.port)
        if secret is None:
            said = "This address worked once, within a minute. Open the page again from the job's page."
            await _refuse(scope, receive, send, 403, said)
            return
        rest = [pair for pair in parse_qsl(scope["query_string"].decode("latin-1")) if pair[0] != TICKET]
        cookie = SimpleCookie({COOKIE: secret})
        attributes: dict[str, Any] = {
            "path": place.path,
            "max-age": int(PASS_VALID.total_seconds()),
            "httponly": True,
            "samesite": "Lax",
            "secure": settings.CONFIG.secure,
        }
        cookie[COOKIE].update(attributes)
        text = cookie.output(header="").strip().encode()
        path = quote(scope["path"])
        await _lead_to(send, path + (f"?{urlencode(rest)}" if rest else ""), (b"set-cookie", text))

    async def _visit(self, secret: str, place: Place) -> Visit | None:
        """Return the visit that a cookie stands for, begun if need be."""
        if not secret:
            return None
        visit = self.visits.get(secret)
        if visit is None or visit.over.is_set():
            held = await database_sync_to_async(pass_held)(secret, job_id=place.job_id, port=place.port)
            right = await rights.hold(held.sign_in) if held is not None else None
            if held is None or right is None:
                return None
            visit = self.visits.get(secret)
            if visit is None or visit.over.is_set():
                visit = self.visits[secret] = Visit(held, right)
                watch = asyncio.create_task(self._watch(secret, visit))
                self.watches.add(watch)
                watch.add_done_callback(self.watches.discard)
            else:
                right.release()  # Another request was quicker.
        if (visit.held.job_id, visit.held.port) != (place.job_id, place.port):
            return None
        visit.used_at = asyncio.get_running_loop().time()
        return visit

    async def _watch(self, secret: str, visit: Visit) -> None:
        """End the visit when its pass is no longer valid, or nothing was requested for long."""
        clock = asyncio.get_running_loop().time
        try:
            while visit.sockets or clock() - visit.used_at < FORGET_SECONDS:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(RECHECK_SECONDS):
                        await visit.right.changed()
                if visit.right.viewer is None:
                    return
                if await database_sync_to_async(pass_held_still)(visit.held.id) is None:
                    return
        finally:
            visit.right.release()
            self.visits.pop(secret, None)
            visit.over.set()
            await visit.pool.aclose()

    async def _pass_on(self, visit: Visit, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request and its answer while the visit lasts: a browser may take its time to read."""
        has_started = False

        async def noted(message: Message) -> None:
            nonlocal has_started
            has_started = True
            await send(message)

        passing = asyncio.ensure_future(_pass_on(visit, scope, receive, noted))
        ending = asyncio.ensure_future(visit.over.wait())
        try:
            await asyncio.wait({passing, ending}, return_when=asyncio.FIRST_COMPLETED)
            if passing.done():
                passing.result()
        finally:
            is_over = not passing.done()
            passing.cancel()
            ending.cancel()
            await asyncio.wait({passing, ending})
        if is_over and not has_started:
            await _refuse(scope, receive, send, 403, _NO_PASS)
        # Otherwise the server closes the connection: this answer is not complete.

    async def _pass_on_socket(self, visit: Visit, scope: Scope, receive: Receive, send: Send) -> None:
        visit.sockets += 1
        try:
            await pass_on_socket(visit.held, visit.over, scope, receive, send)
        except NoTunnel as error:
            await _refuse(scope, receive, send, 502, str(error))
        finally:
            visit.sockets -= 1


async def _pass_on(visit: Visit, scope: Scope, receive: Receive, send: Send) -> None:
    """One request and its answer, both as they come."""
    has_body = _has_body(scope)
    may_repeat = scope["method"] in _REPEATABLE and not has_body
    while True:
        steps: list[str] = []
        has_started = False
        try:
            async with visit.pool.stream(
                scope["method"],
                httpcore.URL(scheme=b"http", host=b"job", target=_target(scope)),
                headers=request_headers(scope),
                content=_body(receive) if has_body else None,
                extensions={"trace": partial(_note, steps)},
            ) as answer:
                has_started = True
                headers = response_headers(answer.headers)
                await send({"type": "http.response.start", "status": answer.status, "headers": headers})
                async for data in answer.aiter_stream():
                    await send({"type": "http.response.body", "body": data, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
            return
        except NoTunnel as error:
            problem = str(error)
            break
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:
            if has_started:
                # The server closes the connection: the browser must not take half an answer for a whole one.
                raise ConnectionError("The job broke off its answer.") from error
            # Programs close connections that have rested for a while, maybe just as this request was under
            # way. The broken connection is gone from the pool; a new one that breaks is no coincidence.
            if not may_repeat or _CONNECTING in steps or visit.over.is_set():
                problem = "The job closed the connection without an answer."
                break
    if visit.over.is_set():
        await _refuse(scope, receive, send, 403, _NO_PASS)
    else:
        await _refuse(scope, receive, send, 502, problem)


async def _note(steps: list[str], step: str, info: object) -> None:
    steps.append(step)


def _has_body(scope: Scope) -> bool:
    headers = dict(scope["headers"])
    return b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"


async def _body(receive: Receive) -> AsyncIterator[bytes]:
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return
        if message.get("body"):
            yield message["body"]
        if not message.get("more_body", False):
            return


def _target(scope: Scope) -> bytes:
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    return path + _query(scope).encode("latin-1")


def _query(scope: Scope) -> str:
    query: str = scope["query_string"].decode("latin-1")
    return query and f"?{query}"


def _ticket(scope: Scope) -> str:
    query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
    return query.get(TICKET, "") if scope["method"] == "GET" else ""


def _cookie(headers: dict[bytes, bytes]) -> str:
    with contextlib.suppress(CookieError):
        morsel = SimpleCookie(cookie_header(headers, COOKIE)).get(COOKIE)
        return morsel.value if morsel is not None else ""
    return ""


async def _lead_to(send: Send, address: str, *more: tuple[bytes, bytes]) -> None:
    headers = [
        (b"location", address.encode("latin-1")),
        (b"cache-control", b"no-store"),
        (b"referrer-policy", b"no-referrer"),
        (b"content-length", b"0"),
        *more,
    ]
    await send({"type": "http.response.start", "status": 303, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def _refuse(scope: Scope, receive: Receive, send: Send, status: int, said: str) -> None:
    if scope["type"] == "websocket":
        await receive()
        # Closing before accepting makes the server answer 403.
        await send({"type": "websocket.close"})
        return
    body = f"<!doctype html><meta charset=utf-8><title>Allotment</title><p>{escape(said)}</p>".encode()
    headers = [
        (b"content-type", b"text/html; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        (b"content-security-policy", _CONTENT_POLICY),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
