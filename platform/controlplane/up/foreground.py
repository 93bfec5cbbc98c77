"""Hold a supervisor in the foreground: start, watch, and stop everything when told to."""

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from controlplane.up.console import Console
from controlplane.up.supervisor import Supervisor


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
