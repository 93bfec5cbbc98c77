"""A budget for the turn of each view: ends a policy or placer that does not return.

Rounds, previews, what-if questions, forecasts and simulations decide where they are, because handing all
facts to another process would cost a healthy round a good part of its time. Meanwhile a thread watches the
turns. When a turn lasts too long, it raises an exception inside the thread that decides, at whatever line of
Python that is. What was decided so far is thrown away, since shared indexes may be half changed; the same
facts are decided again with a cheap policy and placer for that view. A simulation ends there.

This ends every loop written in Python, in any thread. It cannot end one call into C that never returns: the
hard limit of Celery's tasks does that in workers. Computations known to be long have a process (`solver`).
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from django.conf import settings

from scheduler.core.building_blocks.computing import Timekeeper

T = TypeVar("T")

#: Turns of a loop within which an exception that waits for this thread has arrived.
_MOMENTS = 100
#: How often a turn is checked, as a part of what it may take, and at most.
_LOOKS, _LONGEST_PAUSE_SECONDS = 10, 0.25


class _TurnOver(BaseException):
    """Is raised inside a policy or placer. No `except Exception` of theirs catches it."""


class _Turn:
    """One view's turn; a new one is another object."""

    def __init__(self, view: str, seconds: float) -> None:
        self.view, self.ends_at = view, time.monotonic() + seconds


class ViewOverran(Exception):
    """The turn of this view was ended. Its cause passed the line at which that was."""

    def __init__(self, view: str) -> None:
        super().__init__(view)
        self.view = view


class Watchdog:
    """Watches the turns of views while one function runs in this thread."""

    def __init__(self, seconds: float, spared: Container[str] = ()) -> None:
        """A turn may take `seconds`, and those of the spared views as long as they like."""
        self._seconds, self._spared = seconds, spared
        self._turn: _Turn | None = None
        #: The view that was interrupted.
        self._ended: str | None = None
        self._lock, self._is_over = threading.Lock(), threading.Event()
        self._watched = threading.get_ident()
        self._thread = threading.Thread(target=self._look, name="view-watchdog", daemon=True)

    def run(self, function: Callable[[], T]) -> T:
        """Return what the function returns; raise ViewOverran when the turn of a view had to be ended."""
        try:
            try:
                self._thread.start()
                return function()
            finally:
                self._stop()
        except _TurnOver as over:
            # It may have come as late as while the watchdog was being ended.
            self._stop()
            assert self._ended is not None
            raise ViewOverran(self._ended) from over

    @contextmanager
    def turn_of(self, view: str) -> Iterator[None]:
        """Let a view's policy and placer run until the block ends."""
        if view not in self._spared:
            self._turn = _Turn(view, self._seconds)
        try:
            yield
        finally:
            with self._lock:
                self._turn = None

    def _stop(self) -> None:
        while True:
            try:
                self._is_over.set()
                self._thread.join()
                # An exception raised at the last moment arrives here, and not later in this thread. To
                # take it back instead would slow the interpreter down for good: it would look for it again
                # and again.
                for _ in range(_MOMENTS):
                    pass
                return
            except _TurnOver:
                continue

    def _look(self) -> None:
        pause = min(self._seconds / _LOOKS, _LONGEST_PAUSE_SECONDS)
        while not self._is_over.wait(pause):
            turn = self._turn
            if turn is None or time.monotonic() < turn.ends_at:
                continue
            # Raised again at every look: a policy may have caught it. This thread keeps the lock for good if
            # the exception came between taking it and the block that releases it.
            if self._lock.acquire(timeout=pause):
                if self._turn is turn:
                    self._ended = turn.view
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(
                        ctypes.c_ulong(self._watched), ctypes.py_object(_TurnOver)
                    )
                self._lock.release()


def within_budget(
    attempt: Callable[[Timekeeper, Mapping[str, str]], T],
    overran: Mapping[str, str] | None = None,
    *,
    seconds: float | None = None,
    renew: Callable[[], None] = lambda: None,
    crowded_out: Callable[[Sequence[str]], Mapping[str, str]] = lambda _: {},
) -> T:
    """Return what an attempt decides; each view may take at most `seconds`, or the configured time.

    An attempt gets a timekeeper and the views that are known to take too long, with the reason of each. It
    decides on the same facts each time. `renew` is called before each further attempt. `crowded_out` returns
    the views that have no time left after others took too long, with the reason of each.
    """
    seconds = settings.CONFIG.view_budget_seconds if seconds is None else seconds
    found, late = dict(overran or {}), list[str]()
    while True:
        watchdog = Watchdog(seconds, found)
        try:
            return watchdog.run(partial(attempt, watchdog.turn_of, found))
        except ViewOverran as overrun:
            late.append(overrun.view)
            found[overrun.view] = f"its policy or placer took longer than the {seconds:g} s that a view has"
            found.update({view: why for view, why in crowded_out(late).items() if view not in found})
            renew()
