"""Sessions: people's ways into the attempts of this node, each a socket that the agent opens to the server.

The server announces on the wake-up socket that one is wanted (`SessionOffer`). What goes over the session's
own socket is in `frames.py`. A session that fails reports why and ends; it never touches the attempt.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, WebSocketException

from nodeagent.client import Client
from nodeagent.folder import AttemptFolder, read_json
from nodeagent.frames import (
    DATA_BYTES,
    END,
    EXIT,
    INPUT,
    OPENED,
    PROBLEM,
    SIZE,
    TAKEN,
    Flow,
    read_size,
)
from nodeagent.machine import Part, Phase
from nodeagent.messages import MessageError, SessionOffer, decode
from nodeagent.process.ports import port_variable
from nodeagent.sessions.doors import doors, has_led_into
from nodeagent.sessions.visit import Command, Connection, Endpoint, NoVisit, connect
from nodeagent.threads import in_own_thread

log = logging.getLogger(__name__)

MOST_SESSIONS = 256
#: Phases in which a user may come in.
OPEN_TO_VISITS = frozenset({Phase.RUNNING, Phase.STOPPING})


class Sessions:
    """All sessions of a node."""

    def __init__(
        self,
        client: Client,
        folder: Callable[[int], AttemptFolder],
        parts: Callable[[], Mapping[int, Part]],
    ) -> None:
        self.client = client
        self.folder = folder
        self.parts = parts
        self.tasks: set[asyncio.Task[None]] = set()

    def hear(self, message: dict[str, Any]) -> None:
        """Take in an offer that came on the wake-up socket."""
        try:
            offer = decode(SessionOffer, message.get("session"))
        except MessageError as error:
            log.warning("An offer of a session is not understood: %s", error)
            return
        if len(self.tasks) < MOST_SESSIONS:
            task = asyncio.create_task(self._serve(offer))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def _serve(self, offer: SessionOffer) -> None:
        try:
            async with self.client.session(offer.id) as line:
                await self._serve_on(line, offer)
        except (OSError, WebSocketException, TimeoutError) as error:
            log.info("Session %s: %s", offer.id, error or type(error).__name__)

    async def _serve_on(self, line: ClientConnection, offer: SessionOffer) -> None:
        endpoint: Endpoint | None = None
        try:
            endpoint = await self._reach(offer)
            await line.send(OPENED)
            log.info("Session %s with attempt %d, rank %d", offer.id, offer.attempt, offer.rank)
            await Talk(line, endpoint).run()
        except NoVisit as error:
            await line.send(PROBLEM + str(error).encode()[:DATA_BYTES])
        finally:
            if endpoint is not None:
                await endpoint.close()

    async def _reach(self, offer: SessionOffer) -> Endpoint:
        part = self.parts().get(offer.attempt)
        if part is None or part.phase not in OPEN_TO_VISITS:
            raise NoVisit("The attempt does not run on its node at this moment.")
        folder = self.folder(offer.attempt)
        if not offer.port:
            request = {
                "rank": offer.rank,
                "command": list(offer.command),
                "terminal": [offer.rows, offer.columns] if offer.terminal else None,
                "type": offer.terminal,
            }
            return await Command.start(folder, request)
        connection = await connected(_number_of(folder, offer), folder, offer.rank)
        if connection is None:
            raise NoVisit(f"No process of the job listens at port {offer.port} of rank {offer.rank} yet.")
        return connection


class Talk:
    """One session under way between the server's socket and what it reaches."""

    def __init__(self, line: ClientConnection, endpoint: Endpoint) -> None:
        self.line = line
        self.endpoint = endpoint
        self.flow = Flow()
        #: Never holds more than the window: the server ends a session whose user sends more.
        self.inputs: asyncio.Queue[bytes] = asyncio.Queue()

    async def run(self) -> None:
        """Return when what it reaches has ended, or its user has left."""
        hearing = asyncio.create_task(self._hear())
        writing = asyncio.create_task(self._write())
        speaking = asyncio.create_task(self._speak())
        try:
            await asyncio.wait((hearing, speaking), return_when=asyncio.FIRST_COMPLETED)
            if speaking.done() and speaking.exception() is None:
                # Its user leaves when all has arrived. A socket closed before that would lose the rest of it.
                await asyncio.wait((hearing,))
        finally:
            tasks = (hearing, writing, speaking)
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception) and not isinstance(result, ConnectionClosed):
                raise result

    async def _hear(self) -> None:
        """Queue what comes: reports of what was taken must get through while a command reads nothing."""
        async for frame in self.line:
            if not isinstance(frame, bytes):
                continue
            try:
                if frame[:1] == TAKEN:
                    self.flow.regain(frame)
                elif frame[:1] == SIZE:
                    self.endpoint.resize(*read_size(frame))
                    await self._consumed(frame)
                else:
                    self.inputs.put_nowait(frame)
            except ValueError as error:
                raise NoVisit(f"Not understood: {error}") from error

    async def _write(self) -> None:
        while True:
            frame = await self.inputs.get()
            if frame[:1] == INPUT:
                await self.endpoint.write(frame[1:])
            elif frame[:1] == END:
                self.endpoint.end_input()
            await self._consumed(frame)

    async def _consumed(self, frame: bytes) -> None:
        if (word := self.flow.consume(frame)) is not None:
            await self.line.send(word)

    async def _speak(self) -> None:
        outputs = [asyncio.create_task(self._pass_on(kind)) for kind in self.endpoint.outputs]
        try:
            code = await self.endpoint.exit_code()
            await asyncio.gather(*outputs)
        finally:
            for output in outputs:
                output.cancel()
        if code is not None:
            await self._send(EXIT + bytes([code & 0xFF]))

    async def _pass_on(self, kind: bytes) -> None:
        source = self.endpoint.outputs[kind]
        while data := await _read(source):
            await self._send(kind + data)
        await self._send(END + kind)

    async def _send(self, frame: bytes) -> None:
        await self.flow.spend(frame)
        await self.line.send(frame)


async def _read(source: Any) -> bytes:
    with contextlib.suppress(ConnectionError):
        data: bytes = await source.read(DATA_BYTES)
        return data
    return b""


def _number_of(folder: AttemptFolder, offer: SessionOffer) -> int:
    """Return the number of the port that is meant: one by name, or any by its number."""
    if offer.port.isdigit():
        return int(offer.port)
    for replica in (read_json(folder.spec) or {}).get("replicas", []):
        if replica["rank"] == offer.rank and (number := replica.get("ports", {}).get(offer.port)):
            return int(number)
    raise NoVisit(f"The job has no port {offer.port!r} on its node: {port_variable(offer.port)} is not set.")


async def connected(port: int, folder: AttemptFolder, rank: int) -> Connection | None:
    """Connect to a process of the attempt at the port; None when none listens there."""
    # An engine of containers that hangs must not hold the agent's shared threads.
    for door in await in_own_thread("find doors", partial(doors, port, folder, rank)):
        with contextlib.suppress(OSError):
            connection = await connect(door.host, port)
            check = partial(has_led_into, door, connection.local, folder, rank)
            if await in_own_thread("check a door", check):
                return connection
            await connection.close()
    return None
