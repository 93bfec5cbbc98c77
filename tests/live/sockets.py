"""A WebSocket client that speaks ASGI to the application itself, as a server would.

Channels has one too, but importing it needs a whole second ASGI server.
"""

import json
from typing import Any

from asgiref.testing import ApplicationCommunicator

from tests.live.described import check
from tests.patience import PATIENCE_SECONDS


class Socket:
    """One WebSocket; every wait is bounded, so a message that never comes fails the test."""

    def __init__(
        self, application: Any, path: str, headers: list[tuple[bytes, bytes]], query: str = ""
    ) -> None:
        scope = {
            "type": "websocket",
            "path": path,
            "query_string": query.encode(),
            "headers": headers,
            "subprotocols": [],
        }
        self.is_described = path == "/ws/live"
        self.peer = ApplicationCommunicator(application, scope)

    async def connect(self) -> bool:
        """Whether the server accepted."""
        await self.peer.send_input({"type": "websocket.connect"})
        return (await self.event())["type"] == "websocket.accept"

    async def event(self) -> dict[str, Any]:
        return await self.peer.receive_output(timeout=PATIENCE_SECONDS)

    async def receive(self) -> dict[str, Any]:
        event = await self.event()
        assert event["type"] == "websocket.send", event
        message: dict[str, Any] = json.loads(event["text"])
        if self.is_described:
            check(message["type"], message)
        return message

    async def closed_with(self) -> int:
        event = await self.event()
        assert event["type"] == "websocket.close", event
        return event["code"]

    async def say(self, message: Any) -> None:
        await self.say_text(json.dumps(message))

    async def say_text(self, text: str) -> None:
        await self.peer.send_input({"type": "websocket.receive", "text": text})
