"""How the agent waits: between failures, and for an event with a limit."""

from __future__ import annotations

import asyncio

import pytest

from nodeagent.agent import wait_until
from nodeagent.client import Backoff


def test_waits_double_up_to_the_limit_and_begin_anew() -> None:
    backoff = Backoff(0.25, 3.0, chance=lambda: 1.0)
    assert [backoff.failed() for _ in range(6)] == [0.25, 0.5, 1.0, 2.0, 3.0, 3.0]
    backoff.succeeded()
    assert backoff.failed() == 0.25


def test_chance_spreads_agents_over_half_of_the_wait() -> None:
    assert Backoff(1.0, 8.0, chance=lambda: 0.0).failed() == 0.5


def test_a_very_long_outage_does_not_overflow() -> None:
    backoff = Backoff(0.25, 3.0, chance=lambda: 1.0)
    backoff.failures = 100_000
    assert backoff.failed() == 3.0


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
