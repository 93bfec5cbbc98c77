"""One supervised process: started, watched, started again when it dies, stopped."""

import asyncio
import contextlib
import logging
import os
import re
import signal
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from controlplane.embedded.spawn import Spawn
from controlplane.up.console import Console, StartError, log_file

TAIL_LINES = 15
ATTEMPTS_TO_START = 3
FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS = 0.25, 10.0
# A child that lived this long begins a new series of failures when it dies.
STEADY_SECONDS = 30.0
POLL_SECONDS = 0.02
# A longer line is handed over in pieces.
LINE_BYTES = 64 * 1024


@dataclass(frozen=True)
class ChildSpec:
    """What to run and how to know that it works: a condition that is asked, or a line that it prints."""

    name: str
    spawn: Spawn
    is_ready: Callable[[], Awaitable[bool]] | None = None
    ready_line: re.Pattern[str] | None = None
    # Lines that come every few seconds: kept in the log file, not shown.
    routine: re.Pattern[str] | None = None
    # Stopped from the highest layer down: agents need the server, the server needs its databases.
    layer: int = 0
    start_seconds: float = 60.0
    stop_signal: signal.Signals = signal.SIGTERM
    stop_seconds: float = 10.0
    # All others go on without one that is not needed; it is started again for as long as they do.
    is_needed: bool = True


class Child:
    """Runs one ChildSpec until it has to stop. Its process group is its own and is swept after it."""

    def __init__(self, spec: ChildSpec, console: Console, logs: Path) -> None:
        self.spec = spec
        self.process: asyncio.subprocess.Process | None = None
        self._console = console
        self._log_path = logs / f"{spec.name}.log"
        self._log = log_file(logs, spec.name)
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._ready = asyncio.Event()
        self._given_up = asyncio.Event()
        #: How it ended last, in words.
        self._ended = ""
        self._was_ready = False
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start it and return once it is ready, or given up for now if it is not needed.

        Raises StartError with its last lines if one that is needed never is ready.
        """
        self._task = asyncio.create_task(self._keep_running(), name=self.spec.name)
        ready = asyncio.create_task(self._ready.wait())
        given_up = asyncio.create_task(self._given_up.wait())
        try:
            await asyncio.wait(
                {self._task, ready, given_up},
                timeout=self.spec.start_seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if self._task.done():
                self._task.result()
            if not self._ready.is_set():
                failure = self._failure(self._ended or f"was not ready after {self.spec.start_seconds:.0f} s")
                if self.spec.is_needed:
                    raise failure
                self._console.warn(f"{failure}\n  Everything else goes on without it.")
        finally:
            ready.cancel()
            given_up.cancel()

    async def ended(self) -> None:
        """Wait until it will not be started again; raises why, if that was not asked for."""
        if self._task is not None:
            await asyncio.shield(self._task)

    async def stop(self) -> None:
        """Ask it to end, and kill its group if it does not. Harmless when it never ran."""
        self._stopping = True
        if self._task is None:
            return
        if self.process is None:
            # It waits to be started again, and now must not be.
            self._task.cancel()
        else:
            self._signal(self.spec.stop_signal)
        done, _ = await asyncio.wait({self._task}, timeout=self.spec.stop_seconds)
        if not done:
            self._console.warn(
                f"{self.spec.name} did not end within {self.spec.stop_seconds:.0f} s; killing it"
            )
            self.kill()
            await asyncio.wait({self._task})

    def kill(self) -> None:
        """End it and all that it started at once, jobs in sessions of their own included."""
        self._stopping = True
        if self.process is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                for descendant in psutil.Process(self.process.pid).children(recursive=True):
                    with contextlib.suppress(psutil.NoSuchProcess):
                        descendant.kill()
            _kill_group(self.process.pid)

    async def _keep_running(self) -> None:
        deaths = 0
        try:
            while not self._stopping:
                started = time.monotonic()
                status = await self._run_once()
                if self._stopping:
                    self._write(describe_status(status))
                    return
                deaths = 1 if time.monotonic() - started > STEADY_SECONDS else deaths + 1
                self._ended = describe_status(status)
                if not self._was_ready and deaths >= ATTEMPTS_TO_START:
                    if self.spec.is_needed:
                        raise self._failure(self._ended)
                    self._given_up.set()
                delay = min(FIRST_DELAY_SECONDS * 2 ** min(deaths - 1, 10), LONGEST_DELAY_SECONDS)
                self._console.warn(f"{self.spec.name} {self._ended}; starting it again in {delay:g} s")
                await asyncio.sleep(delay)
        finally:
            self._log.close()

    async def _run_once(self) -> int:
        self._ready.clear()
        # A pipe of our own: asyncio's would keep `wait()` from returning while a grandchild holds it.
        reading_end, writing_end = os.pipe()
        try:
            self.process = process = await asyncio.create_subprocess_exec(
                *self.spec.spawn.argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=writing_end,
                stderr=writing_end,
                **self.spec.spawn.options(),
            )
        except OSError as error:
            os.close(reading_end)
            raise self._failure(f"could not be started: {error}") from error
        finally:
            os.close(writing_end)
        reading = asyncio.create_task(read_lines(reading_end, self._line))
        asking = asyncio.create_task(self._ask_until_ready())
        try:
            return await process.wait()
        finally:
            asking.cancel()
            _kill_group(process.pid)
            self.process = None
            # The rest of its output; another process may hold the pipe open for longer.
            await asyncio.wait({reading}, timeout=1.0)
            reading.cancel()

    def _line(self, line: str) -> None:
        self._tail.append(line)
        self._write(line)
        if not (self.spec.routine and self.spec.routine.search(line)):
            self._console.child_line(self.spec.name, line)
        if self.spec.ready_line and self.spec.ready_line.search(line):
            self._is_ready()

    def _write(self, line: str) -> None:
        self._log.emit(logging.makeLogRecord({"msg": line}))

    async def _ask_until_ready(self) -> None:
        if self.spec.is_ready is not None:
            while not await self.spec.is_ready():
                await asyncio.sleep(POLL_SECONDS)
            self._is_ready()

    def _is_ready(self) -> None:
        if self._ready.is_set():
            return
        if self._was_ready or self._given_up.is_set():
            self._console.warn(f"{self.spec.name} works again")
        self._was_ready = True
        self._ready.set()

    def _signal(self, number: signal.Signals) -> None:
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(number)

    def _failure(self, what: str) -> StartError:
        said = "".join(f"\n    {line}" for line in self._tail) or "\n    (nothing)"
        return StartError(f"{self.spec.name} {what}. It said last:{said}\n  All of it: {self._log_path}")


def _kill_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def describe_status(status: int) -> str:
    """A subprocess's return code in words."""
    if status < 0:
        return f"was ended by signal {signal.Signals(-status).name}"
    return f"ended with exit status {status}"


async def read_lines(descriptor: int, on_line: Callable[[str], None]) -> None:
    """Call `on_line` for each line until the last writer is gone; closes the descriptor."""
    reader = asyncio.StreamReader(limit=LINE_BYTES)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
    )
    try:
        while True:
            try:
                line = await reader.readuntil(b"\n")
            except asyncio.IncompleteReadError as end:
                if end.partial:
                    on_line(_text(end.partial))
                return
            except asyncio.LimitOverrunError as overrun:
                line = await reader.read(max(overrun.consumed, 1))
            on_line(_text(line))
    finally:
        transport.close()


def _text(line: bytes) -> str:
    return line.decode(errors="replace").rstrip()
