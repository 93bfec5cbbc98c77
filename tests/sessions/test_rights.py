"""Rights that end, end all that rests on them: real sockets, a real agent, and a job that runs."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.conf import settings as django_settings
from django.utils import timezone
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from controlplane import rights
from controlplane.live import NOT_SIGNED_IN, RIGHTS_CHANGED
from nodeagent.frames import OPENED, PROBLEM
from scheduler.telemetry.logs import api as log_api
from scheduler.telemetry.logs.services.reading import Chunk
from tenants.models import Membership, Token, User
from tests.patience import PATIENCE_SECONDS
from tests.scheduler.builders import make_user
from tests.sessions.conftest import Line, Site

PASSWORD = "walrus-tin-9-bridge"

#: Echoes on a WebSocket, and has an answer that never ends.
PROGRAM = """
import asyncio, os, uvicorn
async def application(scope, receive, send):
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": message["text"]})
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    while not scope["path"].endswith("/ready"):
        await send({"type": "http.response.body", "body": b"tick ", "more_body": True})
        await asyncio.sleep(0.02)
    await send({"type": "http.response.body", "body": b""})
uvicorn.run(application, port=int(os.environ["ALLOT_PORT_NOTEBOOK"]), log_level="error", lifespan="off")
"""

Headers = dict[str, str]


@dataclass
class Opened:
    """All that somebody can have open at once."""

    live: ClientConnection
    command: Line
    page: AsyncIterator[bytes]
    page_socket: ClientConnection
    download: AsyncIterator[bytes]

    async def live_ended(self) -> int | None:
        """The code with which the stream, and the log watched on it, is closed."""
        with contextlib.suppress(ConnectionClosed):
            while True:
                await self.live.recv()
        return self.live.close_code

    async def command_ended(self) -> bytes:
        return (await self.command.all())[PROBLEM]

    async def pages_ended(self) -> None:
        await self.page_socket.wait_closed()
        await broken_off(self.page)

    async def download_ended(self) -> None:
        await broken_off(self.download)


async def broken_off(pieces: AsyncIterator[bytes]) -> None:
    """An answer that ends is not taken for a whole one."""
    with pytest.raises(httpx.RemoteProtocolError):
        async for _ in pieces:
            pass


@contextlib.asynccontextmanager
async def everything(site: Site, headers: Headers) -> AsyncIterator[Opened]:
    """Open it all, as who has these headers: a token's, or those of a signed-in browser's page."""
    server, pages = f"127.0.0.1:{site.port}", f"127.0.0.1:{site.proxy_port}"
    log = f"/api/v1/jobs/{site.job.id}/logs/download"
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(httpx.AsyncClient(base_url=site.url, headers=headers))
        browser = await stack.enter_async_context(httpx.AsyncClient(base_url=f"http://{pages}"))
        address = (await client.post(f"/api/v1/jobs/{site.job.id}/ports/notebook/open")).json()["url"]
        cookie = (await browser.get(address)).headers["set-cookie"].partition(";")[0]
        path = f"/job/{site.job.id}/notebook/"
        while (await browser.get(f"{path}ready", headers={"Cookie": cookie})).status_code == 502:
            pass  # Until the program listens.
        page = await stack.enter_async_context(browser.stream("GET", path, headers={"Cookie": cookie}))
        page_socket = await stack.enter_async_context(
            connect(f"ws://{pages}{path}", additional_headers={"Cookie": cookie}, origin=f"http://{pages}")
        )
        command = await stack.enter_async_context(
            connect(f"ws://{server}/ws/jobs/{site.job.id}/session", additional_headers=headers)
        )
        await command.send(json.dumps({"command": ["sleep", "300"]}))
        live = await stack.enter_async_context(connect(f"ws://{server}/ws/live", additional_headers=headers))
        await live.send(json.dumps({"type": "watch_log", "job": site.job.id}))
        await live.send(json.dumps({"type": "ping"}))
        while json.loads(await live.recv())["type"] != "pong":
            pass
        download = await stack.enter_async_context(client.stream("GET", log))
        assert (page.status_code, download.status_code) == (200, 200)
        opened = Opened(live, Line(command), page.aiter_raw(), page_socket, download.aiter_raw())
        assert await opened.command.next() == OPENED
        assert (await anext(opened.page)).startswith(b"tick")
        assert (await anext(opened.download)).startswith(b"epoch 1")
        await page_socket.send("hello")
        assert await page_socket.recv() == "hello"
        yield opened


@pytest.fixture
async def running(site: Site, tmp_path, monkeypatch, settings) -> Site:
    """A job that runs, whose log takes for ever to download; passwords by a hash that costs nothing."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    monkeypatch.setattr(rights, "RECHECK_SECONDS", 0.1)
    chunk = Chunk(rank=0, sequence=0, at=timezone.now(), text="epoch 1\n" * 4_000)
    monkeypatch.setattr(log_api, "all_chunks", lambda attempt, rank: itertools.repeat([chunk]))
    await sync_to_async(site.set_up)(tmp_path, [sys.executable, "-c", PROGRAM], "notebook")
    await site.start()
    return site


async def by_token(site: Site, user: User) -> Headers:
    return {"Authorization": f"Bearer {await site.token(user)}"}


async def by_session(site: Site, user: User) -> Headers:
    """What the page of a browser sends that signed in."""
    async with httpx.AsyncClient(base_url=site.url) as client:
        said = {"username": user.username, "password": PASSWORD}
        me = (await client.post("/api/v1/session", json=said)).json()
        cookies = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    return {"Cookie": cookies, "Origin": site.url, "X-CSRFToken": me["csrf_token"]}


async def revoke(site: Site, headers: Headers) -> None:
    key = headers["Authorization"].split("_")[1]
    await ask(site, "DELETE", f"/tokens/{key}", headers)


async def expire(site: Site, headers: Headers) -> None:
    await Token.objects.filter(user=site.ada).aupdate(expires_at=timezone.now())


async def disable(site: Site, headers: Headers) -> None:
    await User.objects.filter(id=site.ada.id).aupdate(is_active=False)


async def sign_out(site: Site, headers: Headers) -> None:
    await ask(site, "DELETE", "/session", headers)


async def change_password(site: Site, headers: Headers) -> None:
    await ask(site, "POST", "/session/password", headers, {"current": PASSWORD, "new": PASSWORD[::-1]})


async def ask(site: Site, method: str, path: str, headers: Headers, body: object = None) -> None:
    async with httpx.AsyncClient(base_url=f"{site.url}/api/v1", headers=headers) as client:
        assert (await client.request(method, path, json=body)).status_code == 204


async def test_who_is_not_signed_in_any_more_has_nothing_open(running: Site):
    endings: list[tuple[Callable[..., Awaitable[Headers]], Callable[..., Awaitable[None]]]] = [
        (by_token, revoke),
        (by_token, expire),
        (by_token, disable),
        (by_session, disable),
        (by_session, sign_out),
        (by_session, change_password),
    ]
    for sign_in, end in endings:
        running.ada.is_active = True
        await sync_to_async(running.ada.set_password)(PASSWORD)
        await running.ada.asave()
        headers = await sign_in(running, running.ada)
        async with everything(running, headers) as opened:
            await end(running, headers)
            async with asyncio.timeout(PATIENCE_SECONDS):
                assert await opened.live_ended() == NOT_SIGNED_IN, end
                assert b"no longer signed in" in await opened.command_ended()
                await opened.pages_ended()
                await opened.download_ended()


async def test_who_may_do_less_keeps_what_he_may_still_do(running: Site, monkeypatch):
    membership = Membership.objects.filter(user=running.ada)
    headers = await by_token(running, running.ada)
    async with everything(running, headers) as opened:
        await membership.aupdate(role="viewer")
        async with asyncio.timeout(PATIENCE_SECONDS):
            # Its page connects again, and learns what it may do.
            assert await opened.live_ended() == RIGHTS_CHANGED
            assert b"admins of tenant" in await opened.command_ended()
            await opened.pages_ended()
            # A viewer reads logs.
            for _ in range(100):
                assert await anext(opened.download)
            await membership.adelete()
            await opened.download_ended()

    await Membership.objects.acreate(user=running.ada, tenant=running.tenant, role="admin")
    async with everything(running, headers) as opened:
        await membership.aupdate(role="member")
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await opened.live_ended() == RIGHTS_CHANGED
        # It is his own job.
        await opened.page_socket.send("still there")
        assert await opened.page_socket.recv() == "still there"
        assert await anext(opened.page)
        assert opened.command.socket.close_code is None
        await membership.adelete()
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert b"admins of tenant" in await opened.command_ended()
            await opened.pages_ended()
            await opened.download_ended()

    monkeypatch.setattr(django_settings.CONFIG, "operators_enter_jobs", True)
    operator = await sync_to_async(make_user)(operator=True)
    async with everything(running, await by_token(running, operator)) as opened:
        await User.objects.filter(id=operator.id).aupdate(is_operator=False)
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await opened.live_ended() == RIGHTS_CHANGED
            assert await opened.command_ended()
            await opened.pages_ended()
            await opened.download_ended()
