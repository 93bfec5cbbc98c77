"""An address may have so many WebSockets; others have theirs all the same."""

from __future__ import annotations

import asyncio
from typing import Any

from django.conf import settings

from controlplane.connections import SocketLimit


async def test_more_sockets_of_one_address_are_closed_until_others_end() -> None:
    most = settings.CONFIG.connections_per_address
    release = asyncio.Event()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "websocket.accept"})
        await release.wait()

    limit = SocketLimit(application)

    async def connect(address: str, said: list[str]) -> None:
        async def receive() -> dict[str, Any]:
            return {"type": "websocket.connect"}

        async def send(message: dict[str, Any]) -> None:
            said.append(message["type"])

        await limit({"type": "websocket", "client": (address, 1)}, receive, send)

    said: list[list[str]] = [[] for _ in range(most + 3)]
    addresses = ["203.0.113.7"] * (most + 1) + ["203.0.113.8", "127.0.0.1"]
    async with asyncio.TaskGroup() as group:
        for address, each in zip(addresses, said, strict=True):
            group.create_task(connect(address, each))
        await asyncio.sleep(0)
        release.set()
    assert said == [["websocket.accept"]] * most + [["websocket.close"]] + [["websocket.accept"]] * 2
    assert limit.open == {}
