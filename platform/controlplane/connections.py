"""Connections by HTTP: none may stay half-sent, and no address has all there are.

uvicorn waits for ever for the beginning of a request, and for the rest of it: a few thousand connections that
say nothing, or a byte now and then, would be all that it can hold (slowloris).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from http import HTTPStatus
from ipaddress import ip_address, ip_network

from django.conf import settings
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from controlplane.limits import AsgiApplication, Receive, Scope, Send
from controlplane.open_streams import stopping
from tenants.api.problems import CONTENT_TYPE, error_bytes

#: Within which the head of a request has come, from its first byte or, on a new connection, from its opening.
HEAD_SECONDS = 10.0
#: The body may take this long, and a second more for each `BODY_BYTES_PER_SECOND` bytes that came: a slower
#: client is not sending it.
BODY_SECONDS = 20.0
BODY_BYTES_PER_SECOND = 1_024
LOOK_SECONDS = 2.0
LINGER_SECONDS = 1.0
#: A reader that takes nothing of its answer for this long has gone, or will never have it all.
TAKE_SECONDS = 60.0
#: The most bytes of path and query together; and of all headers together.
ADDRESS_BYTES = 8_192
HEAD_BYTES = 65_536

#: Connections that are open, by the address they come from.
_open: Counter[str] = Counter()


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's, with bounds in time, in size and in number."""

    bounded_address = ""
    watch: asyncio.TimerHandle | None = None
    is_refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.head_since: float | None = self.loop.time()
        self.body_since: float | None = None
        self.body_bytes = self.head_bytes = 0
        #: Since when, while the answer waits for its reader, and how much of it is left.
        self.waits_since, self.left_bytes = 0.0, 0
        address = self.client[0] if self.client else ""
        if is_bounded(address):
            if _open[address] >= settings.CONFIG.connections_per_address:
                said = f"{address} has {_open[address]} connections already; close some first."
                self.refuse(429, "too_many_requests", said)
                return
            self.bounded_address = address
            _open[address] += 1
        self.watch = self.loop.call_later(LOOK_SECONDS, self.look)

    def connection_lost(self, exc: Exception | None) -> None:
        self.forget()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self) -> None:
        # From here on it is another protocol's, and counted as a socket.
        self.forget()
        super().handle_websocket_upgrade()

    def forget(self) -> None:
        """Neither watch nor count the connection any more."""
        if self.watch is not None:
            self.watch.cancel()
            self.watch = None
        if self.bounded_address:
            _open[self.bounded_address] -= 1
            if not _open[self.bounded_address]:
                del _open[self.bounded_address]
            self.bounded_address = ""

    def data_received(self, data: bytes) -> None:
        if self.is_refused:
            return
        self.head_bytes += len(data)
        super().data_received(data)
        if self.head_since is None or self.body_since is not None:
            self.head_bytes = 0
        elif self.head_bytes > HEAD_BYTES and not self.is_refused:
            self.refuse(431, "too_large", f"The headers are longer than {HEAD_BYTES:,} bytes.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.head_since = self.loop.time()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > ADDRESS_BYTES and not self.is_refused:
            said = f"Path and query together are longer than {ADDRESS_BYTES:,} bytes."
            self.refuse(414, "address_too_long", said)

    def on_headers_complete(self) -> None:
        if self.is_refused:
            return
        super().on_headers_complete()
        self.head_since, self.body_since = None, self.loop.time()
        self.body_bytes = 0

    def on_body(self, body: bytes) -> None:
        if self.is_refused:
            return
        self.body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.is_refused:
            return
        self.body_since = None
        super().on_message_complete()

    def look(self) -> None:
        """See whether what is being sent comes fast enough."""
        now = self.loop.time()
        if self.head_since is not None and now - self.head_since > HEAD_SECONDS:
            self.refuse(408, "too_slow", f"The request did not begin within {HEAD_SECONDS:g} s.")
            return
        # While reading is paused it is the server that is slow.
        if self.body_since is not None and not self.flow.read_paused:
            allowed = BODY_SECONDS + self.body_bytes / BODY_BYTES_PER_SECOND
            if now - self.body_since > allowed:
                self.refuse(408, "too_slow", "The body arrived too slowly.")
                return
        if not self.is_taken(now):
            # Such a reader cannot be sent an error. One that reads on sees that the answer is not complete.
            self.forget()
            self.transport.abort()
            return
        self.watch = self.loop.call_later(LOOK_SECONDS, self.look)

    def is_taken(self, now: float) -> bool:
        """Whether the reader took something of what waits to be sent, or has time left to."""
        left = self.transport.get_write_buffer_size()
        if not left or left != self.left_bytes:
            self.waits_since, self.left_bytes = now, left
        return now - self.waits_since <= TAKE_SECONDS

    def shutdown(self) -> None:
        super().shutdown()
        stopping().set()

    def send_400_response(self, msg: str) -> None:
        if not self.is_refused:
            self.refuse(400, "malformed", "This is not HTTP.")

    def refuse(self, status: int, code: str, message: str) -> None:
        """Answer in the one error format, if nothing else is being answered, and close the connection."""
        self.is_refused = True
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            body = error_bytes(code, status, message)
            head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: {CONTENT_TYPE}\r\n"
            head += f"content-length: {len(body)}\r\nconnection: close\r\n"
            head += "retry-after: 5\r\n\r\n" if status == 429 else "\r\n"
            self.transport.write(head.encode() + body)
        self.forget()
        # A client that is still sending would lose the answer with the connection: read the rest for a
        # moment.
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(LINGER_SECONDS, self.transport.close)


def is_bounded(address: str) -> bool:
    """Whether connections of an address are counted: not those of this machine's agents, nor of a proxy."""
    try:
        host = ip_address(address)
    except ValueError:
        return False
    return not (host.is_loopback or any(host in ip_network(proxy) for proxy in settings.CONFIG.proxies))


class SocketLimit:
    """Lets no address have more WebSockets than it may have connections; more are closed at once."""

    def __init__(self, application: AsgiApplication) -> None:
        self.application = application
        self.open: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        address = (scope.get("client") or ("",))[0]
        if scope["type"] != "websocket" or not is_bounded(address):
            await self.application(scope, receive, send)
            return
        if self.open[address] >= settings.CONFIG.connections_per_address:
            await receive()
            # Closing before accepting makes the server answer 403.
            await send({"type": "websocket.close"})
            return
        self.open[address] += 1
        try:
            await self.application(scope, receive, send)
        finally:
            self.open[address] -= 1
            if not self.open[address]:
                del self.open[address]
