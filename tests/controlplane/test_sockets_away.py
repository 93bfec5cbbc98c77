"""While Redis is away, a real server refuses WebSockets with what says: try again."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
import uvicorn
from asgiref.sync import sync_to_async
from channels.layers import get_channel_layer
from redis.exceptions import ConnectionError as RedisConnectionError
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from controlplane.asgi import application
from controlplane.embedded import ports
from controlplane.sockets_away import TRY_AGAIN_LATER, SocketsAway
from controlplane.uvicorn_server import listen
from tests.api.caller import make_token
from tests.patience import PATIENCE_SECONDS
from tests.scheduler.builders import make_user

pytestmark = pytest.mark.django_db(transaction=True)


@contextlib.asynccontextmanager
async def served(served_application: object) -> AsyncIterator[str]:
    listener = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(served_application, lifespan="off", log_level="critical"))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield f"ws://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving


def opening(url: str, token: str) -> connect:
    headers = {"Authorization": f"Bearer {token}"}
    return connect(url, additional_headers=headers, open_timeout=PATIENCE_SECONDS, proxy=None)


async def test_pages_agents_and_sessions_are_told_to_try_again(monkeypatch: pytest.MonkeyPatch):
    token = await sync_to_async(lambda: make_token(make_user()))()
    monkeypatch.setitem(get_channel_layer()._kwargs, "hosts", [f"redis://127.0.0.1:{ports.pick()}"])
    async with served(application.application) as url:
        for path in ("/ws/live", "/ws/agent", "/ws/jobs/1/session", f"/ws/agent/sessions/{uuid4()}"):
            with pytest.raises(InvalidStatus) as refusal:
                await opening(url + path, token).__aenter__()
            answer = refusal.value.response
            assert answer.status_code == 503, path
            assert json.loads(answer.body)["code"] == "unavailable"


async def test_one_that_is_open_already_is_closed_with_the_code_for_that():
    async def accepts_and_fails(scope, receive, send):
        await send({"type": "websocket.accept"})
        raise RedisConnectionError("away")

    async with served(SocketsAway(accepts_and_fails)) as url:
        socket: ClientConnection
        async with opening(url, "") as socket:
            with pytest.raises(ConnectionClosed):
                await socket.recv()
            assert socket.close_code == TRY_AGAIN_LATER


async def test_one_that_is_gone_is_told_nothing_and_other_errors_stay_faults():
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "websocket.disconnect", "code": 1001}

    async def hears_the_end_and_fails(scope, receive, send):
        await receive()
        raise RedisConnectionError("away")

    async def breaks(scope, receive, send):
        raise ValueError("a fault")

    scope = {"type": "websocket", "extensions": {"websocket.http.response": {}}}
    await SocketsAway(hears_the_end_and_fails)(scope, receive, send)
    with pytest.raises(ValueError, match="a fault"):
        await SocketsAway(breaks)(scope, receive, send)
    assert sent == []
