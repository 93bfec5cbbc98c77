"""The process runtime as the agent uses it, with its events waited for instead of decided on."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from nodeagent.clock import boot_clock_seconds
from nodeagent.machine import AttemptExited, AttemptPrepared, AttemptStarted, Event, Outcome
from nodeagent.messages import DesiredPart
from nodeagent.process.environment import stray_mark
from nodeagent.process.runtime import ProcessRuntime
from nodeagent.procfs import process_identity, processes_with_setting
from tests.agent.builders import make_configuration
from tests.patience import PATIENCE_SECONDS, until_async

T = TypeVar("T")

#: Longer than any test takes: a lease ends when a test moves the clock.
LEASE_SECONDS = 1000.0
#: So little work that a job which runs does more in the same time.
WORK = "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.02; done"


class RuntimeNode:
    """One node's process runtime, and another after each `restart`."""

    def __init__(self, folder: Path, **changes: Any) -> None:
        self.configuration = replace(make_configuration(folder), **changes)
        self.started: set[int] = set()
        self.outcomes: dict[int, Outcome] = {}
        self.ports: dict[int, int | None] = {}
        self.runtime = ProcessRuntime(self.configuration, self.note)
        self.renew_lease()

    def note(self, event: Event) -> None:
        match event:
            case AttemptStarted(attempt=attempt):
                self.started.add(attempt)
            case AttemptExited(attempt=attempt, outcome=outcome):
                assert attempt not in self.outcomes, "an end was told twice"
                self.outcomes[attempt] = outcome
            case AttemptPrepared(attempt=attempt, master_port=port):
                self.ports[attempt] = port

    def renew_lease(self, seconds: float = LEASE_SECONDS, *attempts: int) -> float:
        """Let the lease end so many seconds from now; return when, by the boot clock.

        Of attempts that the end of a lease froze only those named here go on.
        """
        deadline = boot_clock_seconds() + seconds
        self.runtime.extend_lease(deadline, seconds, attempts)
        return deadline

    async def prepare(self, desired: DesiredPart) -> bool:
        """Return whether it is ready to start."""
        self.runtime.prepare(desired)
        await until_async(lambda: desired.attempt in self.ports.keys() | self.outcomes.keys())
        return desired.attempt in self.ports

    async def start(self, desired: DesiredPart) -> None:
        if await self.prepare(desired):
            self.runtime.start(desired)
        await until_async(lambda: desired.attempt in self.started | self.outcomes.keys())

    async def run(self, desired: DesiredPart) -> Outcome:
        await self.start(desired)
        return await self.end_of(desired.attempt)

    async def end_of(self, attempt: int = 1) -> Outcome:
        await until_async(lambda: attempt in self.outcomes)
        return self.outcomes[attempt]

    def restart(self) -> list[Any]:
        """The agent dies and comes back: nothing but the work folder is left of it."""
        self.runtime.close()
        self.runtime = ProcessRuntime(self.configuration, self.note)
        return self.runtime.recover()

    def text(self, attempt: int = 1, rank: int = 0) -> str:
        path = Path(self.runtime.folder(attempt).log(rank))
        return path.read_text(errors="replace") if path.exists() else ""

    async def line(self, start: str, attempt: int = 1) -> str:
        """Wait for a whole line of output that starts so; return what follows."""

        def found() -> str | None:
            lines = self.text(attempt).splitlines(keepends=True)
            return next((line for line in lines if line.startswith(start) and line.endswith("\n")), None)

        return str(await until_async(found)).removeprefix(start).strip()

    async def pid(self, start: str, attempt: int = 1) -> int:
        """Wait for a line that gives a process's number as the job sees it; return the machine's."""
        inside = await self.line(start, attempt)

        def found() -> int | None:
            return next((pid for pid in self.alive(attempt) if number_inside(pid) == inside), None)

        return int(await until_async(found))

    def alive(self, attempt: int = 1) -> list[int]:
        """The live processes of rank 0, wherever they moved to."""
        return processes_with_setting(stray_mark(self.runtime.folder(attempt), 0))

    def status(self, attempt: int = 1) -> Any:
        return json.loads(Path(self.runtime.folder(attempt).status).read_text())

    async def clean_up(self) -> None:
        for attempt, shim in list(self.runtime.shims.items()):
            shim.signal(signal.SIGKILL)
            await self.end_of(attempt)
        # As the server says of what has ended: services of the node end with their last attempt.
        for attempt in self.ports.keys() | self.outcomes.keys():
            self.runtime.forget(attempt)
        await asyncio.gather(*self.runtime.tasks)
        self.runtime.close()


async def others_work() -> None:
    """Return when a process that was begun now has done a little."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        process = await asyncio.create_subprocess_exec("sh", "-c", WORK)
        await process.wait()


async def settled(read: Callable[[], T]) -> T:
    """Return what is read once it stays as it is while others work: what a job wrote before it was stopped
    may still be on its way to the file. Of a job that runs this never returns."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        before = read()
        while True:
            await others_work()
            if (after := read()) == before:
                return after
            before = after


def daemon_pid(node: RuntimeNode) -> int | None:
    """The process that holds the lock of GPU 0's daemon."""
    path = node.runtime.shared_gpus.folder / "0.lock"
    lock = path.stat().st_ino if path.exists() else 0
    for line in Path("/proc/locks").read_text().splitlines():
        words = line.split()
        if words[1] == "FLOCK" and words[5].rpartition(":")[2] == str(lock):
            return int(words[4])
    return None


def is_alive(pid: int | str) -> bool:
    """A zombie whose new parent has not waited for it yet is dead enough."""
    # By nothing but the standard library: a job of this suite runs with the system's own Python.
    return process_identity(int(pid)) != ""


def number_inside(pid: int) -> str:
    """The number of a process in the innermost namespace it is in."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return ""
    # A process that is just ending has no numbers any more.
    return next((line.split()[-1] for line in lines if line.startswith("NSpid:")), "")
