"""All children together: started, watched, held in the foreground, and stopped in an order."""

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any

from controlplane.up.child import Child, ChildSpec
from controlplane.up.console import Console


async def together(*work: Coroutine[Any, Any, Any]) -> list[Any]:
    """The results of all; when one fails, the others are given up and its error is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in work]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


class Supervisor:
    def __init__(self, console: Console, logs: Path) -> None:
        self._console = console
        self._logs = logs
        self._children: list[Child] = []

    async def start(self, title: str, specs: Iterable[ChildSpec], *, began: float | None = None) -> None:
        """Start some at once, and report when every one of them is ready, `began` being when it began."""
        began = time.monotonic() if began is None else began
        children = [Child(spec, self._console, self._logs) for spec in specs]
        self._children += children
        await together(*(child.start() for child in children))
        self._console.done(title, time.monotonic() - began)

    async def watch(self) -> None:
        """Return never; raise what makes going on impossible, such as a child that cannot be forked."""
        await together(*(child.ended() for child in self._children))

    async def stop(self) -> None:
        """Stop those first that need others."""
        for layer in sorted({child.spec.layer for child in self._children}, reverse=True):
            await asyncio.gather(*(child.stop() for child in self._children if child.spec.layer == layer))

    def kill(self) -> None:
        for child in self._children:
            child.kill()


async def in_foreground(start: Callable[[Supervisor], Awaitable[None]], console: Console, logs: Path) -> None:
    """Run `start`, then watch its children until a signal comes or something cannot go on.

    The first SIGINT, SIGTERM or SIGHUP stops the children in order, a second one kills them.
    """
    supervisor = Supervisor(console, logs)
    stopping = asyncio.Event()

    def on_signal() -> None:
        if stopping.is_set():
            console.warn("killing what still runs")
            supervisor.kill()
        else:
            console.say()
            console.warn("stopping; once more to kill at once")
            stopping.set()

    async def work() -> None:
        await start(supervisor)
        await supervisor.watch()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, on_signal)
    working = asyncio.create_task(work())
    waiting = asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait({working, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
    finally:
        # From here on a signal means: at once.
        stopping.set()
        console.follow = False
        working.cancel()
        await asyncio.wait({working, waiting})
        began = time.monotonic()
        await supervisor.stop()
        console.done("stopped", time.monotonic() - began)
