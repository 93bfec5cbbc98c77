"""Clients of the live stream for a benchmark: many WebSockets in one process, and what they got when."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
import time
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from websockets.asyncio.client import connect

#: All messages have come when none came for this long; how long they may be on their way at the end.
QUIET_SECONDS, LAST_SECONDS = 2.0, 60.0
CONNECTING_AT_ONCE = 20
#: What identifies a message, to those who send and receive it.
Key = tuple[Any, ...]


def key_of(message: Mapping[str, Any]) -> Key | None:
    """Return what identifies a message among those of a run; None: nothing does."""
    match message:
        case {"type": "objects", "objects": [first, *_] as objects}:
            return "objects", first["kind"], first["id"], first["version"], len(objects)
        case {"type": "queues", "round": number, "positions": positions}:
            return "queues", number, next(iter(positions), "")
        case {"type": "samples", "node": node, "gpus": [first, *_]}:
            return "samples", node, first["memory_used_bytes"]
    return None


@dataclass
class Seen:
    """What one process of clients saw."""

    #: By kind of viewer: the messages in their order.
    messages: dict[str, list[Key | None]]
    #: By client: its kind, when each frame came, and the bytes of all of them.
    clients: list[tuple[str, array[float], int]]
    closed: int


class Client(asyncio.Protocol):
    """A WebSocket that reads the bounds of its frames, and when they came."""

    def __init__(self, kind: str, request: bytes, hello: asyncio.Future[None]) -> None:
        self.kind, self._request, self.hello = kind, request, hello
        self.times, self.bytes, self.is_closed = array("d"), 0, False
        self._left, self._is_upgraded = b"", False

    def connection_made(self, transport) -> None:
        self.transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now, data = time.monotonic(), self._left + data
        if not self._is_upgraded:
            head, end, data = data.partition(b"\r\n\r\n")
            if not end:
                self._left = head
                return
            assert head.startswith(b"HTTP/1.1 101"), head
            self._is_upgraded = True
        while (size := frame_size(data)) and len(data) >= size:
            self._take(data[0] & 15, data[:size], now)
            data = data[size:]
        self._left = data

    def _take(self, code: int, frame: bytes, now: float) -> None:
        if code == 9:
            # A ping, answered with an empty mask.
            payload = frame[2:]
            self.transport.write(bytes([0x8A, 0x80 | len(payload), 0, 0, 0, 0]) + payload)
        elif code in (1, 2) and not self.hello.done():
            self.hello.set_result(None)
        elif code in (1, 2):
            self.times.append(now)
            self.bytes += len(frame)

    def connection_lost(self, _error) -> None:
        self.is_closed = True


def frame_size(data: bytes) -> int:
    """Return the size of the frame that begins the data, with its head; 0: not known yet."""
    if len(data) < 2:
        return 0
    size = data[1] & 127
    if size < 126:
        return 2 + size
    more = 2 if size == 126 else 8
    return 2 + more + int.from_bytes(data[2 : 2 + more], "big") if len(data) >= 2 + more else 0


def watch(port: int, address: str, viewers: list[tuple[str, str]], pipe) -> None:
    """Hold the WebSockets, say when all are open, and return what they saw when asked to stop."""
    import uvloop

    uvloop.run(watch_all(port, address, viewers, pipe))


async def watch_all(port: int, address: str, viewers: list[tuple[str, str]], pipe) -> None:
    began = time.monotonic()
    loop, clients = asyncio.get_running_loop(), []
    turns = asyncio.Semaphore(CONNECTING_AT_ONCE)
    messages: dict[str, list[Key | None]] = {}
    readers = []
    tokens = dict(reversed(viewers))
    for kind, token in tokens.items():
        messages[kind] = []
        hello = loop.create_future()
        readers.append(asyncio.create_task(read(port, address, token, messages[kind], hello)))
        await hello

    async def open_one(kind: str, token: str) -> None:
        hello = loop.create_future()
        async with turns:
            request = upgrade(port, address, token)
            _, client = await loop.create_connection(lambda: Client(kind, request, hello), "127.0.0.1", port)
            clients.append(client)
            await asyncio.wait_for(hello, 60)

    await asyncio.gather(*[open_one(kind, token) for kind, token in viewers if tokens[kind] != token])
    for kind in messages:
        messages[kind].clear()
    pipe.send(time.monotonic() - began)
    await asyncio.to_thread(pipe.recv)
    asked = time.monotonic()
    until, last = asked + LAST_SECONDS, asked
    while time.monotonic() < min(until, last + QUIET_SECONDS):
        await asyncio.sleep(0.1)
        last = max([last, *[client.times[-1] for client in clients if client.times]])
    pipe.send(last - asked)
    seen = [(client.kind, client.times, client.bytes) for client in clients]
    for reader in readers:
        reader.cancel()
    pipe.send(Seen(messages, seen, sum(client.is_closed for client in clients)))


async def read(
    port: int, address: str, token: str, messages: list[Key | None], hello: asyncio.Future[None]
) -> None:
    headers = {"Authorization": f"Bearer {token}"}
    async with connect(
        f"ws://127.0.0.1:{port}{address}", additional_headers=headers, max_size=None
    ) as socket:
        async for text in socket:
            message = json.loads(text)
            if message["type"] == "hello":
                hello.set_result(None)
            else:
                messages.append(key_of(message))


def upgrade(port: int, address: str, token: str) -> bytes:
    lines = [
        f"GET {address} HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {base64.b64encode(secrets.token_bytes(16)).decode()}",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits",
        f"Authorization: Bearer {token}",
    ]
    return "\r\n".join([*lines, "", ""]).encode()
