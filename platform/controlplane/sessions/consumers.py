"""The sockets of sessions: users open one to get into a job, and the node's agent one to meet them.

    user    WebSocket /ws/jobs/N/session     first a JSON text (`SessionRequest`), then frames
    agent   WebSocket /ws/agent/sessions/ID  frames

A session ends within ten seconds of its user's right to be there; the agent ends what is inside when its
socket closes.
"""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.db import Error as DatabaseError

from controlplane import rights
from controlplane.audited import by_viewer
from controlplane.lanes import in_agents_thread
from controlplane.sessions.relay import Event, Relay, RelayError, problem_frame
from nodeagent.frames import EXIT, FROM_JOB, TAKEN, TOWARDS_JOB
from scheduler.jobs.sessions.services.opening import (
    SessionRequest,
    session_end,
    session_is_open,
    session_join,
    session_open,
    session_problem,
)
from scheduler.jobspec import Fields
from scheduler.jobspec.fields import described, is_storable
from scheduler.nodes.services.managing import node_of_token
from tenants.errors import ApplicationError, FieldError, Invalid

log = logging.getLogger(__name__)

#: How often it is checked whether the user is still there.
RECHECK_SECONDS = 60.0
#: Within which an agent that is awake has opened its socket.
JOIN_SECONDS = 10.0
LONGEST_REQUEST_BYTES = 64 * 1024
#: Close codes, in the range that RFC 6455 leaves to applications. What the API would refuse with a status is
#: closed with that status more than 4000.
OVER, NOT_SIGNED_IN, BROKEN = 4000, 4401, 4413


@contextlib.contextmanager
def socket_may_be_gone() -> Iterator[None]:
    """Ignore that a socket was closed, by its other side (OSError) or by us (RuntimeError).

    `disconnect` follows and notifies the other end of the session. The other end must not fail instead: where
    both are in one process, what it sends is written to this socket within its own call.
    """
    with contextlib.suppress(OSError, RuntimeError):
        yield


class SessionEnd(AsyncWebsocketConsumer):  # type: ignore[misc]  # channels has no types
    """What both ends have in common: frames come in on the socket, go out by the relay, and the other way."""

    relay: Relay | None = None
    #: What this end may send.
    kinds: frozenset[bytes]
    watch: asyncio.Task[None] | None = None

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if self.relay is None or bytes_data is None:
            return
        try:
            await self.relay.send(bytes_data, self.kinds)
        except RelayError as error:
            await self.end(str(error), BROKEN)

    async def session_frame(self, event: Event) -> None:
        if self.relay is None:
            return
        try:
            frame = self.relay.heard(event)
        except RelayError as error:
            await self.end(str(error), BROKEN)
        else:
            await self.forward(frame)

    async def session_left(self, event: Event) -> None:
        await self.end(event["problem"], OVER, is_notified=True)

    async def forward(self, frame: bytes) -> None:
        with socket_may_be_gone():
            await self.send(bytes_data=frame)

    async def end(self, problem: str, code: int, *, is_notified: bool = False) -> None:
        """Close this end, and let the other know unless it was the one that said so."""
        relay, self.relay = self.relay, None
        try:
            if relay is not None:
                relay.close()
                if not is_notified:
                    await relay.leave(problem)
        finally:
            # Also where the other end, in another process, cannot be notified: Redis is away.
            await self.say_goodbye(problem, code)

    async def say_goodbye(self, problem: str, code: int) -> None:
        with socket_may_be_gone():
            await self.close(code)

    async def __call__(self, *application: Any) -> None:
        """Serve the socket; give back what it holds however it ends, an error of Redis included."""
        try:
            await super().__call__(*application)
        finally:
            self.give_back()

    async def disconnect(self, code: int) -> None:
        relay = self.relay
        self.give_back()
        if relay is not None:
            await relay.leave()

    def give_back(self) -> None:
        if self.watch is not None:
            self.watch.cancel()
        relay, self.relay = self.relay, None
        if relay is not None:
            relay.close()


class UserSession(SessionEnd):
    """The user's end, which holds the session: when it closes, the session ends."""

    kinds = TOWARDS_JOB
    session_id: UUID | None = None
    exit_code: int | None = None
    right: rights.Right | None = None
    ending: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        self.used_at = time.monotonic()
        await self.accept()
        self.right = await rights.hold_of_scope(self.scope)
        if self.right is None:
            await self.close(NOT_SIGNED_IN)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if self.session_id is None:
            await self._begin(text_data or "")
            return
        if bytes_data is not None and bytes_data[:1] != TAKEN:
            self.used_at = time.monotonic()
        await super().receive(text_data, bytes_data)

    async def forward(self, frame: bytes) -> None:
        if frame[:1] == EXIT and len(frame) == 2:
            self.exit_code = frame[1]
        elif frame[:1] != TAKEN:
            self.used_at = time.monotonic()
        await super().forward(frame)

    async def session_joined(self, event: Event) -> None:
        if self.relay is not None:
            self.relay.peer = event["address"]

    async def say_goodbye(self, problem: str, code: int) -> None:
        if problem:
            with socket_may_be_gone():
                await self.send(bytes_data=problem_frame(problem))
        await super().say_goodbye(problem, code)

    async def __call__(self, *application: Any) -> None:
        try:
            await super().__call__(*application)
        finally:
            # By this the agent's end learns of it, too, where Redis cannot bring it the news.
            if self.session_id is not None:
                await database_sync_to_async(session_end)(self.session_id, exit_code=self.exit_code)

    def give_back(self) -> None:
        super().give_back()
        if self.ending is not None:
            self.ending.cancel()
        if self.right is not None:
            self.right.release()
            self.right = None

    async def _begin(self, text: str) -> None:
        if self.right is None or (viewer := self.right.viewer) is None:
            await self.close(NOT_SIGNED_IN)
            return
        self.relay = Relay(self.channel_name, self.dispatch)
        try:
            session_request = session_request_of(_json(text))
            session = await database_sync_to_async(by_viewer(self.scope, viewer, session_open))(
                viewer=viewer,
                job_id=self.scope["url_route"]["kwargs"]["job_id"],
                request=session_request,
                address=self.channel_name,
            )
        except ApplicationError as error:
            await self.end(error.message, OVER + error.status)
            return
        self.session_id = session.id
        self.watch = asyncio.create_task(self._watch(session.id))
        self.ending = asyncio.create_task(self._end_with(self.right, session.id))

    async def _end_with(self, right: rights.Right, session_id: UUID) -> None:
        """End the session when its user may no longer use it."""
        problem = ""
        while not problem:
            viewer = await right.changed()
            try:
                problem = await database_sync_to_async(session_problem)(session_id, viewer)
            except DatabaseError:
                problem = "The server cannot check whether you may still use this session."
        await self.end(problem, OVER)

    async def _watch(self, session_id: UUID) -> None:
        """End the session when its agent does not come, or nothing is sent for long."""
        await asyncio.sleep(JOIN_SECONDS)
        if self.relay is not None and not self.relay.peer:
            await self.end("The node's agent does not answer; is it running, and up to date?", OVER)
        while self.relay is not None:
            idle_seconds = time.monotonic() - self.used_at
            if idle_seconds > settings.CONFIG.session_idle_seconds:
                await self.end(f"Nothing was sent for {idle_seconds / 60:.0f} minutes.", OVER)
            elif self.relay.passed_bytes > settings.CONFIG.session_bytes:
                await self.end("This session carried more data than a session may.", OVER)
            else:
                viewer = self.right and self.right.viewer
                # A session outlives a short absence of the database, and its limits have to, too.
                with contextlib.suppress(DatabaseError):
                    if problem := await database_sync_to_async(session_problem)(session_id, viewer):
                        await self.end(problem, OVER)
            await asyncio.sleep(RECHECK_SECONDS)


class AgentSession(SessionEnd):
    """The node agent's end."""

    kinds = FROM_JOB

    async def connect(self) -> None:
        header = dict(self.scope["headers"]).get(b"authorization", b"").decode("latin-1")
        node = await in_agents_thread(node_of_token, header.removeprefix("Bearer "))
        session_id = self.scope["url_route"]["kwargs"]["session_id"]
        session = None
        if node is not None:
            session = await in_agents_thread(session_join, node=node, session_id=session_id)
        if node is None or session is None:
            await self.close(NOT_SIGNED_IN)
            return
        self.relay = Relay(self.channel_name, self.dispatch)
        await self.accept()
        await self.relay.join(session.address)
        self.watch = asyncio.create_task(self._watch(session.id, node.token_key or ""))

    async def _watch(self, session_id: UUID, token_key: str) -> None:
        """End it when its user's process is gone without a word, or the node has another token."""
        while self.relay is not None:
            await asyncio.sleep(RECHECK_SECONDS)
            # What cannot be checked now is checked the next time.
            with contextlib.suppress(DatabaseError):
                if not await database_sync_to_async(session_is_open)(session_id, token_key):
                    await self.end("The session was ended.", OVER)


def _json(text: str) -> Any:
    try:
        return json.loads(text) if len(text) <= LONGEST_REQUEST_BYTES else None
    except ValueError:
        return None


MOST_WORDS = 1_000
MOST_CHARACTERS = 32 * 1024
LARGEST_TERMINAL = 1_000
LARGEST_RANK = 100_000
_NAME_CHARACTERS = 40


def session_request_of(value: Any) -> SessionRequest:
    """Read {rank, command, terminal: {type, rows, columns}} or {rank, port}; raise Invalid."""
    problems: list[FieldError] = []
    fields = Fields(value, "", problems)
    request = SessionRequest(
        rank=fields.integer("rank", default=0, least=0, most=LARGEST_RANK),
        command=_command(fields),
        port=_port(fields),
        **_terminal(fields),
    )
    fields.finish()
    if problems:
        first = problems[0]
        where = first.field or "The request"
        raise Invalid(f"{where}: {first.problem}; expected: {first.expected}.", problems)
    return request


def _command(fields: Fields) -> tuple[str, ...]:
    words = fields.take("command")
    expected = f"a list of at most {MOST_WORDS} words, empty for a shell"
    if words is None:
        return ()
    if not isinstance(words, list) or len(words) > MOST_WORDS:
        fields.refuse("command", f"{described(words)} is not a command", expected)
    elif not all(isinstance(word, str) and is_storable(word) for word in words):
        fields.refuse("command", "has a word that is not text, or has a NUL", expected)
    elif sum(map(len, words)) > MOST_CHARACTERS or words[:1] == [""]:
        fields.refuse("command", "is too long, or its program has no name", expected)
    else:
        return tuple(words)
    return ()


def _port(fields: Fields) -> str:
    port = fields.take("port")
    if port is None:
        return ""
    is_number = isinstance(port, int) and not isinstance(port, bool) and 1 <= port <= 65_535
    if is_number or (isinstance(port, str) and 1 <= len(port) <= 63 and not port.isdigit()):
        return str(port)
    fields.refuse("port", f"{described(port)} is not a port", "a name from the job's ports, or a number")
    return ""


def _terminal(fields: Fields) -> dict[str, Any]:
    if (value := fields.take("terminal")) is None:
        return {}
    inner = Fields(value, "terminal", fields.problems)
    kind = inner.take("type")
    if not isinstance(kind, str) or not 1 <= len(kind) <= _NAME_CHARACTERS or not is_storable(kind):
        inner.refuse("type", f"{described(kind)} is not a kind of terminal", '"xterm-256color", for example')
        kind = "dumb"
    terminal = {
        "terminal": kind,
        "rows": inner.integer("rows", default=24, least=1, most=LARGEST_TERMINAL),
        "columns": inner.integer("columns", default=80, least=1, most=LARGEST_TERMINAL),
    }
    inner.finish()
    return terminal
