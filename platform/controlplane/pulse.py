"""The server's own pulse: once a second, in the lane of agents, it does what serving one of them takes.

What interrupts it (the process is down, its threads are busy, the database is away) would have kept agents
from being heard. So their leases are made longer by it (`scheduler.agents.services.leases.pulse`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from channels.db import database_sync_to_async

from controlplane.lanes import Caller, Lane, TooMany
from controlplane.limits import AsgiApplication, Receive, Scope, Send
from scheduler.agents.services import leases

log = logging.getLogger(__name__)

SERVER = Caller("server")


class Lifespan:
    """Keeps the pulse for as long as the server that runs the application."""

    def __init__(self, application: AsgiApplication, lane: Lane) -> None:
        self.application = application
        self.lane = lane

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await self.application(scope, receive, send)
            return
        await receive()
        keeping = asyncio.create_task(keep_pulse(self.lane))
        await send({"type": "lifespan.startup.complete"})
        await receive()
        keeping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await keeping
        await send({"type": "lifespan.shutdown.complete"})


async def keep_pulse(lane: Lane) -> None:
    pulse = database_sync_to_async(leases.pulse, thread_sensitive=False, executor=lane.executor)
    while True:
        try:
            async with lane.turn(SERVER):
                stood_still = await pulse()
            if stood_still:
                log.warning(
                    "Agents were not served for %.0f s; their leases last as much longer.", stood_still
                )
        except TooMany:
            log.warning("The lane of agents is full.")
        except Exception as error:
            # The database is away, say. It is when it is back that this is made good.
            log.warning("No pulse: %s", error)
        await asyncio.sleep(leases.PULSE_SECONDS)
