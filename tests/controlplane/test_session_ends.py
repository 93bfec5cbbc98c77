"""A session gives back what it holds, however its socket ends."""

import asyncio
from typing import Any
from uuid import UUID, uuid4

import pytest
from channels.generic.websocket import AsyncWebsocketConsumer

from controlplane.sessions import consumers


class _Held:
    """A right, or an end of a relay."""

    given_back = 0

    def release(self) -> None:
        self.given_back += 1

    close = release

    async def leave(self, problem: str = "") -> None:
        raise ConnectionError("Redis is away")


def _ends(
    monkeypatch: pytest.MonkeyPatch, end: consumers.SessionEnd, *held: str, disconnects: bool = False
) -> list[int]:
    """Let an error of Redis end this socket while it holds these; return how often it gave back each."""
    holds = {name: _Held() for name in held}
    watches: list[asyncio.Task[None]] = []

    async def fails(self: consumers.SessionEnd, *_: object) -> None:
        for name, each in holds.items():
            setattr(self, name, each)
        self.watch = asyncio.create_task(_goes_on())
        watches.append(self.watch)
        if disconnects:
            await self.disconnect(1000)
        raise ConnectionError("Redis is away")

    async def serve() -> None:
        with pytest.raises(ConnectionError):
            await end({}, None, None)
        assert watches[0].cancelling(), "its watch goes on"

    monkeypatch.setattr(AsyncWebsocketConsumer, "__call__", fails)
    asyncio.run(serve())
    return [each.given_back for each in holds.values()]


@pytest.mark.parametrize("disconnects", [False, True])
def test_a_session_that_an_error_of_redis_ends_holds_nothing_and_is_over(
    monkeypatch: pytest.MonkeyPatch, disconnects: bool
) -> None:
    ended: list[UUID] = []

    def ends(session_id: UUID, **_: Any) -> None:
        ended.append(session_id)

    monkeypatch.setattr(consumers, "session_end", ends)
    monkeypatch.setattr(consumers, "database_sync_to_async", _as_async)
    user = consumers.UserSession()
    user.session_id = uuid4()
    assert _ends(monkeypatch, user, "right", "relay", disconnects=disconnects) == [1, 1]
    assert ended == [user.session_id]


def test_the_agents_end_that_an_error_of_redis_ends_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _ends(monkeypatch, consumers.AgentSession(), "relay") == [1]


def _as_async(function: Any) -> Any:
    async def call(*values: Any, **named: Any) -> Any:
        return function(*values, **named)

    return call


async def _goes_on() -> None:
    await asyncio.Event().wait()
