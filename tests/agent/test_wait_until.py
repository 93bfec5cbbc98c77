"""Waiting for an event, with a limit."""

import asyncio

import pytest

from nodeagent.agent import wait_until


async def test_a_cancellation_just_after_the_event_is_not_lost() -> None:
    """It was, and the agent then never ended."""
    event = asyncio.Event()
    waiting = asyncio.create_task(wait_until(event, 10))
    await asyncio.sleep(0)
    event.set()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_it_returns_when_the_time_is_over() -> None:
    await wait_until(asyncio.Event(), 0.01)
