"""Sessions inside a running job: a command with this program's own input and output, and ports.

What goes over the socket is in `nodeagent.frames`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import termios
import threading
import tty
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from allot.credentials import Account, require_encryption
from allot.errors import AllotError, NotAllowed, NotFound, NotSignedIn, Unreachable
from nodeagent.frames import (
    DATA_BYTES,
    END,
    ERRORS,
    EXIT,
    FRAME_BYTES,
    INPUT,
    OPENED,
    OUTPUT,
    PROBLEM,
    TAKEN,
    Flow,
    size,
)

OPEN_TIMEOUT_SECONDS = 10.0
#: Close codes of the server: an API's status and 4000.
NOT_SIGNED_IN, NOT_ALLOWED, NOT_FOUND = 4401, 4403, 4404
STDIN, STDOUT, STDERR = 0, 1, 2


class SessionEnded(AllotError):
    """A session ended before what was in it did."""


class Line:
    """One session's socket, and the account of what is under way."""

    def __init__(self, socket: ClientConnection, url: str) -> None:
        self.socket = socket
        self.url = url
        self.flow = Flow()
        self._reading = asyncio.Lock()

    async def send(self, frame: bytes) -> None:
        await self.flow.spend(frame)
        await self.socket.send(frame)

    async def next(self) -> bytes:
        """Return the next frame; raise an AllotError at the end, or for a problem that it reports."""
        while True:
            try:
                frame = await self.socket.recv()
            except ConnectionClosed as error:
                raise self._end_of(error) from error
            if not isinstance(frame, bytes):
                continue
            if frame[:1] == TAKEN:
                self.flow.regain(frame)
            elif frame[:1] == PROBLEM:
                raise await self._problem(frame[1:].decode(errors="replace"))
            else:
                return frame

    async def consumed(self, frame: bytes) -> None:
        """Let the other end know that a frame was consumed."""
        if (word := self.flow.consume(frame)) is not None:
            with contextlib.suppress(ConnectionClosed):  # The next frame reports it.
                await self.socket.send(word)

    async def _problem(self, said: str) -> AllotError:
        await self.socket.wait_closed()
        if self.socket.close_code == NOT_ALLOWED:
            return NotAllowed(said, status=403, code="not_allowed")
        if self.socket.close_code == NOT_FOUND:
            return NotFound(said, status=404, code="not_found")
        return SessionEnded(said)

    def _end_of(self, error: ConnectionClosed) -> AllotError:
        if self.socket.close_code == NOT_SIGNED_IN:
            return NotSignedIn(
                "This token is not valid, or no longer valid.", status=401, code="not_signed_in"
            )
        return Unreachable(f"The connection to {self.url} was lost.", url=self.url)


@contextlib.asynccontextmanager
async def session(account: Account, job_id: int, wanted: Mapping[str, Any]) -> Any:
    """Enter a job; what the block gets is a Line on which what was wanted has begun."""
    require_encryption(account.url, insecure=account.insecure)
    url = f"ws{account.url.removeprefix('http')}/ws/jobs/{job_id}/session"
    try:
        socket = await connect(
            url,
            additional_headers={"Authorization": f"Bearer {account.token}"},
            compression=None,
            max_size=FRAME_BYTES,
            open_timeout=OPEN_TIMEOUT_SECONDS,
            close_timeout=1.0,
        )
    except InvalidStatus as error:
        status = error.response.status_code
        if status == 503:
            said = f"{account.url} opens no sessions just now. Try again in a few seconds."
            raise Unreachable(said, url=account.url) from error
        raise Unreachable(f"{account.url} has no sessions (status {status}).", url=account.url) from error
    except (OSError, WebSocketException, TimeoutError) as error:
        raise Unreachable(f"Cannot reach {account.url}: {error}.", url=account.url) from error
    async with socket:
        await socket.send(json.dumps(wanted))
        line = Line(socket, account.url)
        frame = await line.next()
        if frame != OPENED:
            raise SessionEnded("The server does not support the session protocol of this version.")
        yield line


# A command


def run_command(
    account: Account, job_id: int, *, rank: int, command: Sequence[str], has_terminal: bool
) -> int:
    """Run a command inside a job, connected with this program's input and output; return its exit code."""
    wanted: dict[str, Any] = {"rank": rank, "command": list(command)}
    if has_terminal:
        columns, rows = shutil.get_terminal_size()
        wanted["terminal"] = {"type": os.environ.get("TERM") or "dumb", "rows": rows, "columns": columns}
    return asyncio.run(_run_command(account, job_id, wanted, has_terminal))


async def _run_command(account: Account, job_id: int, wanted: Mapping[str, Any], has_terminal: bool) -> int:
    async with session(account, job_id, wanted) as line:
        with _raw(STDIN) if has_terminal else contextlib.nullcontext():
            tasks = [asyncio.create_task(_send_input(line))]
            if has_terminal:
                tasks.append(asyncio.create_task(_send_sizes(line)))
            try:
                return await _take_output(line, is_direct=has_terminal)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)


async def _take_output(line: Line, *, is_direct: bool) -> int:
    """Write what comes until the command has ended; return its exit code."""
    targets = {OUTPUT: STDOUT, ERRORS: STDERR}
    while True:
        frame = await line.next()
        if frame[:1] == EXIT:
            return frame[1]
        if (target := targets.get(frame[:1])) is not None:
            try:
                # A terminal takes it at once; a pipe may wait for its reader.
                if is_direct:
                    _write_all(target, frame[1:])
                else:
                    await asyncio.to_thread(_write_all, target, frame[1:])
            except BrokenPipeError:
                # The reader of the output has gone. So it would end here, too.
                return 128 + signal.SIGPIPE
        await line.consumed(frame)


async def _send_input(line: Line) -> None:
    loop = asyncio.get_running_loop()
    read: asyncio.Queue[bytes] = asyncio.Queue()
    may_read = threading.Semaphore(2)

    def keep_reading() -> None:
        # In a thread: the input may be a file or a pipe, for which an event loop gets no events.
        data = b"more"
        while data:
            may_read.acquire()
            try:
                data = os.read(STDIN, DATA_BYTES)
            except OSError:
                data = b""
            with contextlib.suppress(RuntimeError):  # The loop is over.
                loop.call_soon_threadsafe(read.put_nowait, data)

    # A daemon thread: the end does not wait for it.
    threading.Thread(target=keep_reading, daemon=True).start()
    while data := await read.get():
        await line.send(INPUT + data)
        may_read.release()
    await line.send(END + INPUT)


async def _send_sizes(line: Line) -> None:
    """Report every change of the window's size, and one that came while the session was being opened."""
    changed = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGWINCH, changed.set)
    changed.set()
    try:
        while True:
            await changed.wait()
            changed.clear()
            columns, rows = os.get_terminal_size(STDOUT)
            await line.send(size(rows, columns))
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)


@contextlib.contextmanager
def _raw(descriptor: int) -> Iterator[None]:
    """Let every key through, Ctrl-C too, while the block runs."""
    before = termios.tcgetattr(descriptor)
    tty.setraw(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


# Ports


def forward_port(
    account: Account,
    job_id: int,
    *,
    rank: int,
    port: str,
    local: int,
    address: str,
    ready: Callable[[int], None],
    failed: Callable[[str], None],
) -> None:
    """Lead connections to a local port into a job until interrupted.

    `ready` gets the port's number. `failed` gets the reason why connections fail, once until one succeeds.
    Raises OSError when the local port is taken.
    """
    wanted = {"rank": rank, "port": int(port) if port.isdecimal() else port}
    told = ""

    async def lead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal told
        try:
            async with session(account, job_id, wanted) as line:
                told = ""
                await _join(line, reader, writer)
        except AllotError as error:
            if told != str(error):
                told = str(error)
                failed(told)
        except asyncio.CancelledError:
            pass  # Interrupted, with all the rest. Python 3.11 would print where.
        finally:
            writer.close()

    async def serve() -> None:
        server = await asyncio.start_server(lead, address, local, limit=DATA_BYTES)
        ready(server.sockets[0].getsockname()[1])
        # Not `serve_forever`: when interrupted, that waits until the last connection has ended.
        await asyncio.get_running_loop().create_future()

    asyncio.run(serve())


async def _join(line: Line, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    async def towards() -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(DATA_BYTES):
                await line.send(INPUT + data)
        await line.send(END + INPUT)

    sending = asyncio.create_task(towards())
    try:
        while (frame := await line.next())[:1] != END:
            writer.write(frame[1:])
            await writer.drain()
            await line.consumed(frame)
    except OSError:
        return  # The local program has left.
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


def has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()
