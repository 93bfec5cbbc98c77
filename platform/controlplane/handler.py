"""HTTP by Django, each request from beginning to end in one of a few threads that stay.

Django's own handler starts a thread for every request, and goes to it and back to the event loop for the
signals, the middleware, the view and the end, since each of them might be asynchronous. Ours are not. Going
there only once makes small requests cheap: each way costs several times as much as their work.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from functools import cache
from io import BytesIO
from typing import IO, Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core import signals
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.db import close_old_connections
from django.http import FileResponse, HttpRequest
from django.urls import URLResolver, get_resolver, set_script_prefix

from controlplane import open_streams, rights
from controlplane.event_stream import follow
from controlplane.lanes import (
    LONGEST_RETRY_SECONDS,
    Caller,
    Callers,
    Lane,
    TooMany,
    agents_lane,
    heavy_lane,
    others_lane,
    uploads_lane,
)
from controlplane.limits import Message, Receive, Scope, Send, refuse
from scheduler.models.nodes import Node
from scheduler.telemetry.events.api import EventStream
from tenants.selectors import Viewer
from tenants.signin import ITS_TURN, TURN_AFTER_SECONDS

#: Where agents report, and send output.
AGENTS = "/api/agent/"
#: How long a thread waits for the next piece of an upload.
SILENT_SECONDS = 30.0
#: What is handed to the connection at once of an answer that is made piece by piece, as much as uvicorn holds
#: for a slow reader. What it has is delivered, also to a reader whose right ended meanwhile.
SENT_BYTES = ASGIHandler.chunk_size


class Handler(ASGIHandler):
    """Django's, but for where and when the work is done. What streams is sent from the event loop."""

    def __init__(self) -> None:
        super().__init__()
        self.callers = Callers()
        self.agents, self.heavy, self.others = agents_lane(), heavy_lane(), others_lane()
        self.uploads = uploads_lane()
        self._answers = {
            lane: sync_to_async(self._answer, thread_sensitive=False, executor=lane.executor)
            for lane in (self.agents, self.heavy, self.uploads, self.others)
        }

    def load_middleware(self, is_async: bool = False) -> None:
        super().load_middleware(is_async=False)

    async def handle(  # type: ignore[override]  # messages are mutable here, and only read there
        self, scope: Scope, receive: Receive, send: Send
    ) -> None:
        content = b""
        if not is_streamed(scope):
            try:
                body = await self.read_body(receive)
            except RequestAborted:
                return
            content = body.read()
        try:
            response = await self._in_turn(scope, content, receive, send)
            if seconds := scope.get(TURN_AFTER_SECONDS):
                # Many wrong passwords came before: it waits here, where that holds up no other request.
                await asyncio.sleep(seconds)
                again = {name: value for name, value in scope.items() if name != TURN_AFTER_SECONDS}
                response = await self._in_turn(again | {ITS_TURN: True}, content, receive, send)
        except TooMany as error:
            await refuse(send, 429, "too_many_requests", str(error), error.headers())
            return
        if not response.streaming:
            await self.send_response(response, send)  # type: ignore[arg-type]  # messages are mutable here, and only read there

    async def _in_turn(self, scope: Scope, content: bytes, receive: Receive, send: Send) -> Any:
        """Answer when it is the caller's turn; what streams has been sent by then."""
        lane = self._lane_of(scope)
        body: Any = IncomingBody(receive) if lane is self.uploads else BytesIO(content)
        async with lane.turn(self.callers.of(scope)) as turn:
            response = await self._answers[lane](scope, body)
            if response.caller is not None:
                self.callers.learn(scope, response.caller)
            goes_on = isinstance(response, EventStream) and scope["method"] == "GET"
            if response.streaming and not goes_on:
                turn.give_thread_back()
                await self._stream(response, lane, receive, send)
        if goes_on:
            # Open for days: its caller's turn would never end.
            await self._follow(response, lane, receive, send)
        return response

    async def _follow(self, response: EventStream, lane: Lane, receive: Receive, send: Send) -> None:
        user_id = response.viewer.user.pk
        if not open_streams.take(user_id):
            most = settings.CONFIG.sockets_per_user
            raise TooMany(
                f"You have {most} streams open already; close some first.",
                policy="streams-of-user",
                quota=most,
                retry_after_seconds=LONGEST_RETRY_SECONDS,
            )
        pieces = follow(response)
        try:
            response.streaming_content = pieces
            await self._stream(response, lane, receive, send)
        finally:
            open_streams.give_back(user_id)
            await pieces.aclose()

    def _lane_of(self, scope: Scope) -> Lane:
        path = scope["path"]
        if path.startswith(AGENTS):
            return self.agents
        if is_streamed(scope):
            return self.uploads
        return self.heavy if heavy_paths(settings.ROOT_URLCONF).match(path) else self.others

    def _answer(self, scope: Scope, body: IO[bytes]) -> Any:
        """Return the response: closed, with all that its request held, unless it is yet to be streamed.

        `caller` and `reader` are attributes of ours.
        """
        set_script_prefix(get_script_prefix(scope))
        signals.request_started.send(sender=type(self), scope=scope)
        response: Any
        request, response = self.create_request(scope, body)
        if request is not None:
            response = self.get_response(request)
        response.caller = caller_of(request)
        response._handler_class = type(self)
        if isinstance(response, FileResponse):
            # As Django's own does: a page's scripts go out in a few pieces and not in a hundred.
            response.block_size = self.chunk_size
        if not response.streaming:
            response.close()
            return response
        # It ends elsewhere, and later: what this thread held goes back now.
        close_old_connections()
        # One that goes on looks after the right of its reader itself, to say why it ends.
        response.reader = None
        if request is not None and not isinstance(response, EventStream):
            response.reader = rights.reader_of(request, response)
        return response

    async def _stream(self, response: Any, lane: Lane, receive: Receive, send: Send) -> None:
        """Send the response piece by piece, as long as there is a reader who may read it."""
        if not response.is_async:
            response.streaming_content = _in_lane(lane, iter(response.streaming_content))
        sending = asyncio.ensure_future(self.send_response(response, send))  # type: ignore[arg-type]
        # After its body a request has nothing to say but that it is gone.
        tasks = [sending, asyncio.ensure_future(receive())]
        if response.reader is not None:
            tasks.append(asyncio.ensure_future(rights.lost(response.reader)))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await asyncio.to_thread(response.close)


async def _in_lane(lane: Lane, pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Make each piece in a thread of the lane, which holds no connection while the piece is sent."""

    def make() -> bytes | None:
        try:
            return next(pieces, None)
        finally:
            close_old_connections()

    make_in_thread = sync_to_async(make, thread_sensitive=False, executor=lane.executor)
    while (piece := await make_in_thread()) is not None:
        for start in range(0, len(piece), SENT_BYTES):
            yield piece[start : start + SENT_BYTES]


def caller_of(request: HttpRequest | None) -> Caller | None:
    """Return the user who was seen to be signed in, if any."""
    signed_in = getattr(request, "auth", None)
    if isinstance(signed_in, Viewer):
        return Caller(f"user {signed_in.user.pk}", tuple(signed_in.roles))
    if isinstance(signed_in, Node):
        return Caller(f"node {signed_in.pk}")
    return None


class IncomingBody:
    """A request's body, read by the thread of its view while it arrives: never more of it than one piece is
    in memory. Raises OSError where the caller went away, or sends nothing for too long."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._loop = asyncio.get_running_loop()
        self._piece = b""
        self._is_over = False

    def read(self, size: int) -> bytes:
        while not self._piece and not self._is_over:
            coming = asyncio.run_coroutine_threadsafe(self._next(), self._loop)
            try:
                message = coming.result(SILENT_SECONDS)
            except TimeoutError:
                coming.cancel()
                raise OSError(f"nothing came for {SILENT_SECONDS:g} s") from None
            if message["type"] != "http.request":
                raise OSError("the connection was closed")
            self._piece = message.get("body", b"")
            self._is_over = not message.get("more_body", False)
        piece, self._piece = self._piece[:size], self._piece[size:]
        return piece

    async def _next(self) -> Message:
        return await self._receive()


def is_streamed(scope: Scope) -> bool:
    """Whether the view of a request reads its body itself."""
    return scope.get("method") == "PUT" and bool(streamed_paths(settings.ROOT_URLCONF).match(scope["path"]))


@cache
def heavy_paths(routes: str) -> re.Pattern[str]:
    """What matches the paths of the views that declare themselves heavy (`is_heavy`)."""
    return _paths_of(routes, "is_heavy")


@cache
def streamed_paths(routes: str) -> re.Pattern[str]:
    """What matches the paths of the views that read the body of a PUT as it comes (`streams_put`)."""
    return _paths_of(routes, "streams_put")


def _paths_of(routes: str, said: str) -> re.Pattern[str]:
    return re.compile(
        "|".join(f"/{pattern}" for pattern in _saying(said, get_resolver(routes), "")) or "(?!)"
    )


def _saying(said: str, resolver: URLResolver, prefix: str) -> Iterator[str]:
    for entry in resolver.url_patterns:
        # Names of groups would be there twice.
        here = prefix + re.sub(r"\?P<\w+>", "?:", entry.pattern.regex.pattern.removeprefix("^"))
        if isinstance(entry, URLResolver):
            yield from _saying(said, entry, here)
        elif getattr(getattr(entry.callback, "view_class", None), said, False):
            yield here
