"""A whole way in: the real application on real ports, a real agent, and a job that it runs."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from asgiref.sync import sync_to_async
from django.conf import settings
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from controlplane.asgi import application
from controlplane.sessions import consumers
from nodeagent import frames
from nodeagent.frames import EXIT, OPENED, PROBLEM, TAKEN, Flow
from nodeagent.messages import encode
from scheduler.core.model.lifecycle import AttemptState
from scheduler.models import Attempt, Job
from scheduler.nodes.services.managing import node_create
from tenants.models import Token, User
from tenants.tokens import USER_PREFIX, new_secret
from tests.agent.builders import AgentProcess
from tests.patience import PATIENCE_SECONDS, until_async
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_member, make_tenant


class Line:
    """A user's end of a session."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.flow = Flow()
        self.frames: list[bytes] = []

    async def send(self, frame: bytes) -> None:
        await self.socket.send(frame)

    async def next(self) -> bytes | None:
        """The next frame that is no word of what was taken in; None at the end."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                try:
                    frame = await self.socket.recv()
                except ConnectionClosed:
                    return None
                assert isinstance(frame, bytes)
                if (word := self.flow.consume(frame)) is not None:
                    await self.socket.send(word)
                if frame[:1] != TAKEN:
                    return frame

    async def all(self) -> dict[bytes, bytes]:
        """What came of each kind until the end."""
        told: dict[bytes, bytes] = {}
        while (frame := await self.next()) is not None:
            told[frame[:1]] = told.get(frame[:1], b"") + frame[1:]
            if frame[:1] == EXIT:
                await self.socket.close()
        return told

    async def read_until(self, text: bytes) -> bytes:
        """Output up to this text."""
        told = b""
        while text not in told:
            frame = await self.next()
            assert frame is not None, told
            told += frame[1:] if frame[:1] == frames.OUTPUT else b""
        return told


class Site:
    """One server, one node, one tenant with a job that runs on it."""

    def __init__(self, ports: list[int]) -> None:
        self.port, self.proxy_port = ports
        self.url = f"http://127.0.0.1:{self.port}"

    def set_up(self, folder: Path, command: list[str], *ports: str) -> None:
        self.node = node_create(name="node-1", rack="rack-1", actor="test")
        self.tenant = make_tenant("vision")
        self.ada = make_member(self.tenant, "ada")
        self.job: Job = make_job(tenant=self.tenant, submitted_by=self.ada, command=command, gpus=1)
        self.job.spec["ports"] = [{"name": name, "port": None} for name in ports]
        self.job.save()
        self.agent = AgentProcess(folder, self.url)
        configuration = replace(self.agent.configuration, token=self.node.token)
        self.agent.file.write_text(json.dumps(encode(configuration)))

    async def start(self) -> None:
        await self.agent.start()
        await self.until(lambda: gpus_of(self.node.node))
        self.attempt: Attempt = await sync_to_async(self._place)()
        await self.until(lambda: Attempt.objects.get(id=self.attempt.id).state == AttemptState.RUNNING)

    def _place(self) -> Attempt:
        self.node.node.refresh_from_db()
        return make_attempt(self.job, gpus_of(self.node.node)[:1], state=AttemptState.STARTING)

    async def until(self, condition: Any, what: str = "") -> None:
        await until_async(sync_to_async(condition), what)

    async def token(self, user: User, **columns: Any) -> str:
        secret = new_secret(USER_PREFIX)
        await Token.objects.acreate(user=user, name="t", key=secret.key, digest=secret.digest, **columns)
        return secret.text

    async def enter(self, token: str, wanted: dict[str, Any], job: int | None = None) -> Line:
        """Open a session and say what is wanted."""
        socket = await connect(
            f"ws://127.0.0.1:{self.port}/ws/jobs/{job or self.job.id}/session",
            additional_headers={"Authorization": f"Bearer {token}"},
            compression=None,
            proxy=None,
        )
        await socket.send(json.dumps(wanted))
        return Line(socket)

    async def opened(self, token: str, wanted: dict[str, Any]) -> Line:
        line = await self.enter(token, wanted)
        assert await line.next() == OPENED
        return line

    async def refusal(self, token: str, wanted: dict[str, Any], job: int | None = None) -> str:
        """Why a session cannot be had."""
        return (await (await self.enter(token, wanted, job)).all()).get(PROBLEM, b"closed").decode()


def exit_code(told: dict[bytes, bytes]) -> int | None:
    return told[EXIT][0] if EXIT in told else None


@pytest.fixture
async def site(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    """The server; `set_up` and `start` do the rest. The agent and its job end with it."""
    listeners = []
    for _ in range(2):
        # asyncio sends at once (TCP_NODELAY) only on sockets that say they are TCP.
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.bind(("127.0.0.1", 0))
        listeners.append(listener)
    site = Site([listener.getsockname()[1] for listener in listeners])
    monkeypatch.setattr(settings.CONFIG, "proxy_port", site.proxy_port)
    # On a busy machine a node takes its time to join.
    monkeypatch.setattr(consumers, "JOIN_SECONDS", PATIENCE_SECONDS)
    options = uvicorn.Config(application, lifespan="off", log_level="error", timeout_graceful_shutdown=1)
    server = uvicorn.Server(options)
    task = asyncio.create_task(server.serve(sockets=listeners))
    yield site
    if hasattr(site, "agent"):
        await site.agent.end(signal.SIGKILL)
        await site.agent.clean_up()
    server.should_exit = True
    await task
