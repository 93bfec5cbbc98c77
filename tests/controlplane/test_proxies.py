"""Who is believed about whom he speaks for: a real server, asked over a real connection from this machine."""

import asyncio
from collections.abc import Callable

import httpx
import pytest
import uvicorn

from controlplane.uvicorn_server import listen, trusting


async def tells_the_client(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": scope["client"][0].encode()})


@pytest.fixture
async def client_seen():
    """Ask a server that trusts these proxies, and return whom it takes for the client."""
    running = []

    async def ask(proxies: list[str], *forwarded: str) -> str:
        listener = listen("127.0.0.1", 0)
        options = uvicorn.Config(
            tells_the_client, lifespan="off", log_level="error", ws="none", **trusting(proxies)
        )
        server = uvicorn.Server(options)
        running.append((server, asyncio.create_task(server.serve(sockets=[listener]))))
        async with httpx.AsyncClient() as client:
            headers = [("X-Forwarded-For", value) for value in forwarded]
            return (await client.get(f"http://127.0.0.1:{listener.getsockname()[1]}", headers=headers)).text

    yield ask
    for server, task in running:
        server.should_exit = True
        await task


async def test_nobody_is_believed_unless_he_is_configured(client_seen: Callable):
    assert await client_seen([], "203.0.113.7") == "127.0.0.1"
    assert await client_seen(["10.0.0.5"], "203.0.113.7") == "127.0.0.1"


async def test_a_proxy_is_believed_and_what_its_client_claims_is_not(client_seen: Callable):
    assert await client_seen(["127.0.0.0/8"], "203.0.113.7") == "203.0.113.7"
    # Proxies append: the last one that is not a proxy is who asked.
    assert await client_seen(["127.0.0.1", "10.0.0.5"], "6.6.6.6, 203.0.113.7", "10.0.0.5") == "203.0.113.7"
