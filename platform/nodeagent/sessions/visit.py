"""What a session reaches inside an attempt: a command beside a replica, or one of its ports."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import Mapping
from typing import Any, Protocol

from nodeagent.folder import AttemptFolder
from nodeagent.frames import DATA_BYTES, ERRORS, OUTPUT
from nodeagent.shim.guest import descriptors_in, reached_by, resize

ANSWER_BYTES = 4096
#: How long the shim, or an engine, may take to let a user in.
START_SECONDS = 10.0
#: How long a command may take to end on its own once its user has left.
LEAVE_SECONDS = 2.0
END_OF_INPUT = b"\x04"


class NoVisit(Exception):
    """What was asked for cannot be reached; says why."""


class Readable(Protocol):
    async def read(self, most: int, /) -> bytes: ...


class Endpoint(Protocol):
    """The far end of a session. `outputs` is what comes from it, by kind of frame."""

    @property
    def outputs(self) -> Mapping[bytes, Readable]: ...

    async def write(self, data: bytes) -> None: ...

    def end_input(self) -> None: ...

    def resize(self, rows: int, columns: int) -> None: ...

    async def exit_code(self) -> int | None:
        """Wait for its end; None: it has no code."""

    async def close(self) -> None: ...


class Source:
    """A descriptor from which a command's output is read, without waiting once the command has ended."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self.has_ended = False
        self._news = asyncio.Event()

    async def read(self, most: int) -> bytes:
        """Return what there is; nothing at the end."""
        while True:
            try:
                return os.read(self.descriptor, most)
            except BlockingIOError:
                if self.has_ended:
                    return b""
            except OSError:
                return b""  # Linux reports so that no process has the terminal open any more.
            self._news.clear()
            loop = asyncio.get_running_loop()
            loop.add_reader(self.descriptor, self._news.set)
            try:
                await self._news.wait()
            finally:
                loop.remove_reader(self.descriptor)

    def end(self) -> None:
        self.has_ended = True
        self._news.set()


class Command:
    """A guest of the shim, with a terminal of its own or with three pipes."""

    def __init__(self, line: socket.socket, descriptors: list[int], *, has_terminal: bool) -> None:
        self.line = line
        self.has_terminal = has_terminal
        self.descriptors = set(descriptors)
        self.input = descriptors[0]
        os.set_blocking(self.input, False)
        if has_terminal:
            self.outputs = {OUTPUT: Source(descriptors[0])}
        else:
            self.outputs = {OUTPUT: Source(descriptors[1]), ERRORS: Source(descriptors[2])}

    @classmethod
    async def start(cls, folder: AttemptFolder, request: dict[str, Any]) -> Command:
        """Ask the shim to start the command; raise NoVisit when it cannot be."""
        line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        line.setblocking(False)
        handed: list[int] = []
        kept: list[int] = []
        try:
            reached_by(folder.door, line.connect)
            if request["terminal"] is None:
                for is_input in (True, False, False):
                    read, write = os.pipe2(os.O_CLOEXEC)
                    kept.append(write if is_input else read)
                    handed.append(read if is_input else write)
            socket.send_fds(line, [json.dumps(request).encode()], handed)
            async with asyncio.timeout(START_SECONDS):
                answer, terminal = await _answer(line)
            kept += terminal
            if not answer.get("ready"):
                raise NoVisit(answer.get("problem") or "The attempt has ended.")
        except (OSError, TimeoutError, NoVisit) as error:
            line.close()
            for descriptor in kept:
                os.close(descriptor)
            raise error if isinstance(error, NoVisit) else NoVisit(_why_not(error)) from error
        finally:
            for descriptor in handed:
                os.close(descriptor)
        return cls(line, kept, has_terminal=request["terminal"] is not None)

    async def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view and self.input in self.descriptors:
            try:
                view = view[os.write(self.input, view) :]
            except BlockingIOError:
                await _ready(self.input, to_write=True)
            except OSError:
                return  # It reads no more.

    def end_input(self) -> None:
        if self.has_terminal:
            with contextlib.suppress(OSError):
                os.write(self.input, END_OF_INPUT)
        else:
            self._let_go(self.input)

    def resize(self, rows: int, columns: int) -> None:
        if self.has_terminal and self.input in self.descriptors:
            with contextlib.suppress(OSError):
                resize(self.input, rows, columns)

    async def exit_code(self) -> int | None:
        """Wait for the end; raise NoVisit when the command could not be executed at all."""
        try:
            answer, _ = await _answer(self.line)
        except OSError:
            answer = {}
        for source in self.outputs.values():
            source.end()
        if problem := answer.get("problem"):
            raise NoVisit(problem)
        # A shim that was killed says nothing, but it takes the command along.
        return int(answer.get("exit_code", 137))

    async def close(self) -> None:
        """Hang up, as a terminal does; then the shim ends it."""
        for descriptor in list(self.descriptors):
            self._let_go(descriptor)
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(LEAVE_SECONDS):
                while "exit_code" not in (await _answer(self.line))[0]:
                    pass
        self.line.close()

    def _let_go(self, descriptor: int) -> None:
        if descriptor in self.descriptors:
            self.descriptors.discard(descriptor)
            os.close(descriptor)


class Connection:
    """A TCP connection to a port of the job."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.outputs = {OUTPUT: reader}
        self.writer = writer
        #: Its end here: an address and a port.
        self.local: tuple[str, int] = writer.get_extra_info("sockname")[:2]

    async def write(self, data: bytes) -> None:
        with contextlib.suppress(OSError):
            self.writer.write(data)
            await self.writer.drain()

    def end_input(self) -> None:
        with contextlib.suppress(OSError):
            self.writer.write_eof()

    def resize(self, rows: int, columns: int) -> None:
        """It has no terminal."""

    async def exit_code(self) -> int | None:
        return None

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()


async def connect(host: str, port: int) -> Connection:
    """Connect to an address of this machine; raise OSError when nothing answers."""
    async with asyncio.timeout(START_SECONDS):
        return Connection(*await asyncio.open_connection(host, port, limit=DATA_BYTES))


async def _answer(line: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Wait for the shim's next message, {} when there is none; and the descriptors that came with it."""
    while True:
        try:
            text, ancillary, _, _ = line.recvmsg(ANSWER_BYTES, 1024, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            await _ready(line.fileno(), to_write=False)
            continue
        except ConnectionError:
            return {}, []
        return (json.loads(text) if text else {"exit_code": 137}), descriptors_in(ancillary)


async def _ready(descriptor: int, *, to_write: bool) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    add, remove = (loop.add_writer, loop.remove_writer) if to_write else (loop.add_reader, loop.remove_reader)
    add(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        remove(descriptor)


def _why_not(error: Exception) -> str:
    if isinstance(error, FileNotFoundError | ConnectionRefusedError):
        return "This attempt was started by an older node agent, or has ended: it takes no terminal."
    return f"The node could not let you in: {error or type(error).__name__}"
