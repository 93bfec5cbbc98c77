"""The virtual clock and what will happen by it."""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

#: Something that happens; returns False when it turned out to be void by then.
Event = Callable[[], bool]


class EventQueue:
    """Events by their instants; at the same instant, those scheduled first come first."""

    def __init__(self, now: float) -> None:
        #: Virtual time.
        self.now = now
        self._heap: list[tuple[float, int, Event]] = []
        self._order = count()

    def schedule(self, instant: float, event: Event) -> None:
        heappush(self._heap, (instant, next(self._order), event))

    @property
    def next_instant(self) -> float:
        """When something happens next; infinity when nothing does."""
        return self._heap[0][0] if self._heap else math.inf

    def advance_to(self, instant: float) -> bool:
        """Let everything happen up to that instant; return whether anything did."""
        happened = False
        while self._heap and self._heap[0][0] <= instant:
            self.now = max(self.now, self._heap[0][0])
            happened = heappop(self._heap)[2]() or happened
        self.now = instant
        return happened


def nothing() -> bool:
    """A round is due; nothing else happens."""
    return True
