"""What a connection may do before anything is answered: at a real server, by real sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import uvicorn
from django.conf import settings

from controlplane import connections
from controlplane.connections import ADDRESS_BYTES, BoundedProtocol, SocketLimit
from controlplane.limits import Receive, Scope, Send
from tests.patience import PATIENCE_SECONDS

HEAD = b"GET /x HTTP/1.1\r\nHost: localhost\r\n"


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"hi"})


@pytest.fixture
async def port(monkeypatch) -> AsyncIterator[int]:
    monkeypatch.setattr(connections, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.2)
    monkeypatch.setattr(connections, "BODY_SECONDS", 0.2)
    config = uvicorn.Config(hello, port=0, http=BoundedProtocol, log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    yield server.servers[0].sockets[0].getsockname()[1]
    await server.shutdown()


async def said(port: int, *sent: bytes) -> tuple[int, str]:
    """Status, and code of the error, of what comes back before the connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for piece in sent:
        writer.write(piece)
    async with asyncio.timeout(PATIENCE_SECONDS):
        answer = await reader.read()
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    status = int(head.split()[1])
    return status, json.loads(body)["code"] if status != 200 else body.decode()


async def test_what_is_sent_as_it_should_be_is_answered(port):
    assert await said(port, HEAD + b"Connection: close\r\n\r\n") == (200, "hi")


@pytest.mark.parametrize("sent", [b"", b"GET /x", HEAD], ids=["nothing", "half a line", "half a head"])
async def test_a_head_that_does_not_come_is_not_waited_for(port, sent):
    assert await said(port, sent) == (408, "too_slow")


async def test_a_body_that_does_not_come_is_not_waited_for(port):
    assert await said(port, HEAD + b"Content-Length: 10\r\n\r\nhalf") == (408, "too_slow")


@pytest.mark.parametrize(
    "address", [b"/" + b"a" * ADDRESS_BYTES, b"/x?q=" + b"a" * 100_000, b"/" + b"a" * 1_000_000]
)
async def test_an_address_that_is_too_long_is_refused_in_the_one_format(port, address):
    head = b"GET " + address + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
    assert await said(port, head) == (414, "address_too_long")


async def test_headers_that_are_too_long_and_what_is_no_http_are_refused_in_it_too(port):
    assert await said(port, HEAD + b"X: " + b"a" * 200_000) == (431, "too_large")
    assert await said(port, b"\x16\x03\x01 what is this\r\n\r\n") == (400, "malformed")


async def test_an_address_has_so_many_connections_and_no_more(port, settings, monkeypatch):
    monkeypatch.setattr(connections, "is_bounded", lambda address: True)
    monkeypatch.setattr(settings.CONFIG, "connections_per_address", 2)
    kept = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
    for reader, writer in kept:
        writer.write(HEAD + b"\r\n")
        assert (await reader.readline()).split()[1] == b"200"
    assert await said(port) == (429, "too_many_requests")
    kept[0][1].close()
    await kept[0][1].wait_closed()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (await said(port, HEAD + b"Connection: close\r\n\r\n"))[0] != 200:
            pass
    kept[1][1].close()


@pytest.mark.parametrize(
    ("address", "is_bounded"),
    [("127.0.0.1", False), ("::1", False), ("10.0.0.7", False), ("10.0.1.7", True), ("", False)],
)
def test_this_machine_and_trusted_proxies_have_no_limit(settings, monkeypatch, address, is_bounded):
    monkeypatch.setattr(settings.CONFIG, "trusted_proxies", "10.0.0.0/24")
    assert connections.is_bounded(address) == is_bounded


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
