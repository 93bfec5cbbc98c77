"""The soft limit of a task as an exception that no policy catches.

Celery raises `SoftTimeLimitExceeded` wherever the task is. It is an `Exception`, so a round takes it for a
fault of the policy that was deciding, degrades its view, and goes on until the hard limit kills the process.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from billiard.pool import SIG_SOFT_TIMEOUT


class OutOfTime(BaseException):
    """The soft limit of this task has passed."""


@contextmanager
def until_soft_limit() -> Iterator[None]:
    """Let the soft limit of the task raise OutOfTime. Only for the main thread, which runs tasks."""
    before = signal.signal(SIG_SOFT_TIMEOUT, _end)
    try:
        yield
    finally:
        signal.signal(SIG_SOFT_TIMEOUT, before)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    raise OutOfTime
