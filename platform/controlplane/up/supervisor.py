"""All children together: started, watched, and stopped in an order."""

import asyncio
import time
from collections.abc import Coroutine, Iterable
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
