"""A live stream gives back what it holds, however it ends."""

import asyncio

import pytest
from channels.generic.websocket import AsyncJsonWebsocketConsumer

from controlplane import live, open_streams


class _Right:
    released = 0

    def release(self) -> None:
        self.released += 1


def test_a_stream_that_an_error_of_redis_ends_counts_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer, right = live.LiveConsumer(), _Right()

    async def fails(self: live.LiveConsumer, *_: object) -> None:
        self.counted, self.right = 7, right  # type: ignore[assignment]
        assert open_streams.take(7)
        raise ConnectionError("Redis is away")

    monkeypatch.setattr(AsyncJsonWebsocketConsumer, "__call__", fails)
    with pytest.raises(ConnectionError):
        asyncio.run(consumer({}, None, None))  # type: ignore[arg-type]
    assert open_streams.count_of(7) == 0
    assert right.released == 1
