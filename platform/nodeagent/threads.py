"""Calls that may hang for ever, in a shared file system or a driver, beside the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_own_thread(name: str, call: Callable[[], T]) -> T:
    """Return what the call returns, or raise what it raises.

    `asyncio.to_thread` has few threads for all, and the program ends only when they do. Here a call that
    hangs keeps no other from its thread, and no program from its end. It goes on if its caller is cancelled.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if answer.done():
            return  # It was cancelled.
        if error is None:
            answer.set_result(result)  # type: ignore[arg-type]  # None only where T is None
        else:
            answer.set_exception(error)

    def work() -> None:
        result, error = None, None
        try:
            result = call()
        except Exception as raised:
            error = raised
        with contextlib.suppress(RuntimeError):  # The loop is closed by now.
            loop.call_soon_threadsafe(settle, result, error)

    # Nothing waits for a daemon at the end of the program.
    threading.Thread(target=work, name=name, daemon=True).start()
    return await answer
