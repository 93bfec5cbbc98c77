"""The virtual clock and what will happen by it."""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

#: Something that happens; returns False when it turned out to be void by then.
Event = Callable[[], bool]


class Agenda:
    """Events by their instants; at the same instant, those noted first come first."""

    def __init__(self, now: float) -> None:
        #: Virtual time.
        self.now = now
        self._events: list[tuple[float, int, Event]] = []
        self._order = count()

    def note(self, instant: float, event: Event) -> None:
        heappush(self._events, (instant, next(self._order), event))

    @property
    def next_instant(self) -> float:
        """When something happens next; infinity when nothing does."""
        return self._events[0][0] if self._events else math.inf

    def pass_to(self, instant: float) -> bool:
        """Let everything happen up to that instant; return whether anything did."""
        happened = False
        while self._events and self._events[0][0] <= instant:
            self.now = max(self.now, self._events[0][0])
            happened = heappop(self._events)[2]() or happened
        self.now = instant
        return happened


def nothing() -> bool:
    """A round is due; nothing else happens."""
    return True
