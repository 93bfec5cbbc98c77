"""Sessions: people's ways into the attempts of this node, each a socket that the agent opens to the server.

The server announces on the wake-up socket that one is wanted (`SessionOffer`). What goes over the session's
own socket is in `frames.py`. A session that fails reports why and ends; it never touches the attempt.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Mapping
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
from nodeagent.process.environment import stray_mark
from nodeagent.process.ports import port_variable
from nodeagent.procfs import descendants, is_same_process, processes_with_setting
from nodeagent.sessions.visit import Command, Endpoint, NoVisit, connect

log = logging.getLogger(__name__)

MOST_SESSIONS = 256
#: Phases in which a user may come in.
OPEN_TO_VISITS = frozenset({Phase.RUNNING, Phase.STOPPING})
#: The kernel's tables of listening sockets, and the state in them that marks one.
TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
LISTENING = "0A"


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
        port = _number_of(folder, offer)
        # What listens there belongs to this very attempt: no user is connected to another tenant's program.
        if not await asyncio.to_thread(is_listened_at_by, port, folder, offer.rank):
            raise NoVisit(f"No process of the job listens at port {offer.port} of rank {offer.rank} yet.")
        return await connect(port)


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


def is_listened_at_by(port: int, folder: AttemptFolder, rank: int) -> bool:
    """Whether a process of the attempt listens at the port, so that no other program can stand in for it."""
    sockets = {f"socket:[{inode}]" for inode in _listeners(port)}
    return bool(sockets) and any(_holds(pid, sockets) for pid in _processes_of(folder, rank))


def _listeners(port: int) -> set[str]:
    """Return the inodes of sockets that listen at the port, whatever address they are bound to."""
    found = set()
    for table in TABLES:
        try:
            with open(table, encoding="ascii") as file:
                lines = file.read().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                found.add(fields[9])
    return found


def _processes_of(folder: AttemptFolder, rank: int) -> list[int]:
    """Return those below the shim, and those in containers, which are the engine's children."""
    status = read_json(folder.status) or {}
    found = []
    if is_same_process(status.get("pid", 0), status.get("identity", "")):
        found = descendants(status["pid"])
    if any(replica["is_container"] for replica in status.get("replicas", [])):
        found += processes_with_setting(stray_mark(folder, rank))
    return found


def _holds(pid: int, sockets: set[str]) -> bool:
    folder = f"/proc/{pid}/fd"
    with contextlib.suppress(OSError):  # It has ended meanwhile.
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):  # It has closed this one meanwhile.
                if os.readlink(f"{folder}/{name}") in sockets:
                    return True
    return False
