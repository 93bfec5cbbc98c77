"""How long tests wait, and how: for a condition, never for a time to pass.

Only a failing test waits to the end, so a wait is long enough for a busy machine.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from collections.abc import Callable
from typing import Any

#: Multiplies every wait; a machine slower than ours needs more than 1.
VARIABLE = "ALLOT_TEST_PATIENCE"


def scale(text: str) -> float:
    """Return the factor that a text states. Raises ValueError where it is none."""
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not 0.1 <= factor <= 100:
        raise ValueError(f"{VARIABLE} must be a number from 0.1 to 100, not {text!r}")
    return factor


PATIENCE_SECONDS = 60.0 * scale(os.environ.get(VARIABLE, "1"))
# Between two looks: most conditions hold soon, and those that do not cost a request or a command each.
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.01, 0.2

What = str | Callable[[], str]


class _Wait:
    """The bookkeeping of one wait."""

    def __init__(self, condition: Callable[[], Any], what: What, seconds: float) -> None:
        self._condition, self._what, self._seconds = condition, what, seconds
        self._end = time.monotonic() + seconds
        self._pause = FIRST_PAUSE_SECONDS

    def pause(self) -> float:
        """Return how long to wait before the next look. Raises AssertionError when the time is over."""
        if time.monotonic() > self._end:
            raise AssertionError(f"waited {self._seconds:g} s in vain for {self._awaited()}")
        pause = self._pause
        self._pause = min(1.3 * pause, LONGEST_PAUSE_SECONDS)
        return pause

    def _awaited(self) -> str:
        if self._what:
            return self._what if isinstance(self._what, str) else self._what()
        try:
            return inspect.getsource(self._condition).strip()
        except (OSError, TypeError):
            return repr(self._condition)


def until(condition: Callable[[], Any], what: What = "", *, seconds: float = PATIENCE_SECONDS) -> Any:
    """Return the condition's first true value; fail with what was awaited when the time is over.

    `what` may be called for its text, where only the end of the wait knows it. Without it, the failure shows
    the condition's source.
    """
    wait = _Wait(condition, what, seconds)
    while not (value := condition()):
        time.sleep(wait.pause())
    return value


async def until_async(
    condition: Callable[[], Any], what: What = "", *, seconds: float = PATIENCE_SECONDS
) -> Any:
    """Do as `until` does while the event loop goes on. The condition may return an awaitable."""
    wait = _Wait(condition, what, seconds)
    while True:
        value = condition()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        await asyncio.sleep(wait.pause())
