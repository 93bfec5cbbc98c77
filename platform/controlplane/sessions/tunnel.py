"""A byte stream to a port of a job: a session whose user's end is this process, for the pages of jobs."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Iterable
from typing import Any

import httpcore
from channels.db import database_sync_to_async
from channels.layers import get_channel_layer

from controlplane.sessions.relay import Event, Relay, RelayError
from nodeagent.frames import DATA_BYTES, END, INPUT, OPENED, OUTPUT, PROBLEM, TAKEN, TOWARDS_JOB, Flow
from scheduler.jobs.sessions.services.opening import SessionRequest, session_end, session_open
from scheduler.jobs.sessions.services.port_passes import HeldPass
from scheduler.models.sessions import Session
from tenants.errors import ApplicationError

OPEN_SECONDS = 10.0


class NoTunnel(Exception):
    """There is no way to the port; says why."""


class Tunnel(httpcore.AsyncNetworkStream):
    """One connection, as HTTP clients want them; what is asked for through it is `http`, without TLS."""

    def __init__(self, address: str) -> None:
        self.session: Session | None = None
        self.flow = Flow()
        self.frames: deque[bytes] = deque()
        self.rest = b""
        #: Why it ended; None while it has not.
        self.problem: str | None = None
        self.is_opened = False
        self._news = asyncio.Event()
        self.relay = Relay(address, self._hear)
        self._listening = asyncio.create_task(self._listen(address))

    @classmethod
    async def open(cls, held: HeldPass) -> "Tunnel":
        """Ask the node's agent for a connection; raise NoTunnel when there is none."""
        tunnel = cls(await get_channel_layer().new_channel())
        try:
            tunnel.session = await database_sync_to_async(session_open)(
                viewer=held.viewer,
                job_id=held.job_id,
                request=SessionRequest(port=held.port),
                address=tunnel.relay.address,
                attempt_id=held.attempt_id,
            )
            async with asyncio.timeout(OPEN_SECONDS):
                while not tunnel.is_opened and tunnel.problem is None:
                    await tunnel._wait()
        except (ApplicationError, TimeoutError) as error:
            tunnel.problem = str(error) or "The node's agent does not answer."
        except BaseException:
            await tunnel.aclose()
            raise
        if tunnel.problem is not None:
            await tunnel.aclose()
            raise NoTunnel(tunnel.problem)
        return tunnel

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return what comes next, nothing at the end."""
        while not self.rest and not self.frames:
            if self.problem is not None:
                return b""
            await self._wait()
        if not self.rest:
            frame = self.frames.popleft()
            if (word := self.flow.consume(frame)) is not None and self.problem is None:
                await self._send(word)
            self.rest = frame[1:]
        data, self.rest = self.rest[:max_bytes], self.rest[max_bytes:]
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), DATA_BYTES):
            frame = INPUT + buffer[start : start + DATA_BYTES]
            await self.flow.spend(frame)
            await self._send(frame)

    async def aclose(self) -> None:
        # Code that still waits for what the job sends gets the end.
        self._end("")
        self._news.set()
        self._listening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._listening
        self.relay.close()
        await self.relay.leave()
        if self.session is not None:
            await database_sync_to_async(session_end)(self.session.id)

    def get_extra_info(self, info: str) -> Any:
        # What httpcore asks of a connection at rest: whether it has anything to say, that is, its end.
        return self.problem is not None or bool(self.frames or self.rest) if info == "is_readable" else None

    async def _listen(self, address: str) -> None:
        while True:
            await self._hear(await get_channel_layer().receive(address))

    async def _hear(self, event: Event) -> None:
        if event["type"] == "session.joined":
            self.relay.peer = event["address"]
        elif event["type"] == "session.left":
            self._end(event["problem"])
        else:
            try:
                await self._take_in(self.relay.heard(event))
            except (RelayError, ValueError) as error:
                self._end(str(error))
        self._news.set()

    async def _take_in(self, frame: bytes) -> None:
        kind = frame[:1]
        if kind == TAKEN:
            self.flow.regain(frame)
        elif kind == OPENED:
            self.is_opened = True
        elif kind == PROBLEM:
            self._end(frame[1:].decode(errors="replace"))
        elif kind == END:
            self._end("")
        elif kind == OUTPUT and len(frame) > 1:
            self.frames.append(frame)

    def _end(self, problem: str) -> None:
        if self.problem is None:
            self.problem = problem
        self.flow.give_up()

    async def _send(self, frame: bytes) -> None:
        if self.problem is not None:
            raise httpcore.WriteError(self.problem or "The job closed the connection.")
        try:
            await self.relay.send(frame, TOWARDS_JOB)
        except RelayError as error:
            raise httpcore.WriteError(str(error)) from error

    async def _wait(self) -> None:
        self._news.clear()
        await self._news.wait()


class TunnelBackend(httpcore.AsyncNetworkBackend):
    """Connects an HTTP client to the port that a pass is for, wherever it means to go."""

    def __init__(self, held: HeldPass) -> None:
        self.held = held

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        return await Tunnel.open(self.held)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
