"""Connections of pages and sessions that break or close at an awkward moment."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.db import OperationalError

from controlplane.sessions import consumers, pages
from controlplane.sessions.consumers import AgentSession, SessionEnd, UserSession
from controlplane.sessions.relay import Relay
from nodeagent.folder import AttemptFolder
from nodeagent.frames import INPUT, TOWARDS_JOB
from tenants.models import Token
from tests.patience import PATIENCE_SECONDS
from tests.sessions.conftest import Site
from tests.sessions.test_pages import address

#: Listens late. Answers one request of each connection, with how many it has seen, and then breaks the
#: connection when it is used again. Never answers `wait`.
PROGRAM = """
import asyncio, os
seen = 0
async def serve(reader, writer):
    global seen
    for _ in range(2):
        head = await reader.readuntil(b"\\r\\n\\r\\n")
        if b"/wait " in head:
            open("waited-for", "w").close()
            await asyncio.sleep(600)
        seen += 1
        if _ == 0:
            writer.write(b"HTTP/1.1 200 OK\\r\\ncontent-length: 4\\r\\n\\r\\n%4d" % seen)
            await writer.drain()
    writer.close()
async def main():
    await asyncio.sleep(1)
    server = await asyncio.start_server(serve, "127.0.0.1", int(os.environ["ALLOT_PORT_NOTEBOOK"]))
    await server.serve_forever()
asyncio.run(main())
"""


async def test_a_page_is_answered_though_the_program_closes_what_it_used_before(
    site: Site, tmp_path, monkeypatch
):
    monkeypatch.setattr(pages, "RECHECK_SECONDS", 0.05)
    await sync_to_async(site.set_up)(tmp_path, [sys.executable, "-c", PROGRAM], "notebook")
    await site.start()
    base = f"http://127.0.0.1:{site.proxy_port}"
    path = f"/job/{site.job.id}/notebook/"
    async with httpx.AsyncClient(base_url=base, timeout=PATIENCE_SECONDS) as browser:
        await browser.get(await address(site, await site.token(site.ada)))
        while (answer := await browser.get(path)).status_code != 200:
            # Until it listens. Nothing else ever comes of that.
            assert answer.status_code == 502, answer.text
            assert "listens" in answer.text
        assert answer.text.strip() == "1"
        # The program sees it twice, and who asked knows nothing of that.
        answer = await browser.get(path)
        assert (answer.status_code, answer.text.strip()) == (200, "3")
        # What changes something may have been done, so it is not asked for again.
        answer = await browser.post(path, headers={"Origin": base})
        assert answer.status_code == 502
        assert "closed the connection" in answer.text
        answer = await browser.get(path)
        assert (answer.status_code, answer.text.strip()) == (200, "5")

        waiting = asyncio.create_task(browser.get(f"{path}wait"))
        work = Path(AttemptFolder(str(site.agent.attempts / str(site.attempt.id))).work(0))
        await site.until((work / "waited-for").exists, "the request to reach the program")
        assert not waiting.done()
        await Token.objects.all().adelete()
        assert (await waiting).status_code == 403


# Channels looks after the connections to the database before it passes on a message.
@pytest.mark.django_db
@pytest.mark.parametrize("error", [OSError, RuntimeError])
async def test_an_end_whose_socket_is_gone_does_not_fail_the_other(error: type[Exception]):
    gone = asyncio.Event()

    async def send(message: object) -> None:
        gone.set()
        raise error

    agent = AgentSession()
    agent.base_send = send
    agent.relay = Relay("agent", agent.dispatch)
    user = Relay("user", agent.dispatch)
    try:
        user.peer = "agent"
        await user.send(INPUT + b"x", TOWARDS_JOB)
        assert gone.is_set()
        gone.clear()
        await user.leave("over")
        assert gone.is_set()
        assert agent.relay is None
    finally:
        user.close()


def an_end(kind: type[SessionEnd], sent: list[Any]) -> Any:
    """An end without a socket, which notes what it would send."""

    async def send(message: Any) -> None:
        sent.append(message["type"])

    end = kind()
    end.base_send = send
    end.relay = Relay(kind.__name__, end.dispatch)
    end.relay.peer = "other"
    return end


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("kind", "question", "over"),
    [(UserSession, "session_problem", "The attempt has ended."), (AgentSession, "session_is_open", False)],
)
async def test_an_end_is_watched_on_when_the_database_was_away(kind, question, over, monkeypatch):
    monkeypatch.setattr(consumers, "RECHECK_SECONDS", 0.0)
    monkeypatch.setattr(consumers, "JOIN_SECONDS", 0.0)
    asked: list[object] = []

    def ask(*arguments: object) -> object:
        asked.append(arguments)
        if len(asked) == 1:
            raise OperationalError
        return over

    monkeypatch.setattr(consumers, question, ask)
    end = an_end(kind, sent := [])
    end.used_at = time.monotonic()
    monkeypatch.setattr(Relay, "leave", nothing)
    async with asyncio.timeout(PATIENCE_SECONDS):
        await (end._watch(uuid4()) if kind is UserSession else end._watch(uuid4(), ""))
    assert len(asked) == 2
    assert sent[-1] == "websocket.close"


async def nothing(self: Relay, problem: str = "") -> None:
    """Notify no other end."""


async def test_an_end_closes_its_socket_though_the_other_cannot_be_notified(monkeypatch):
    async def away(self: Relay, problem: str = "") -> None:
        raise ConnectionError

    monkeypatch.setattr(Relay, "leave", away)
    end = an_end(AgentSession, sent := [])
    with pytest.raises(ConnectionError):
        await end.end("over", consumers.OVER)
    assert sent == ["websocket.close"]
