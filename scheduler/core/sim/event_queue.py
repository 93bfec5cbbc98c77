"""The virtual clock and its scheduled events."""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

#: An event; returns False when it was void by then.
Event = Callable[[], bool]


class EventQueue:
    """Events by their instants; at the same instant, those scheduled first come first."""

    def __init__(self, now: float) -> None:
        #: Virtual time.
        self.now = now
        self._heap: list[tuple[float, int, Event, bool]] = []
        self._order = count()
        #: The number of scheduled events, without those that repeat forever.
        self.finite = 0

    def schedule(self, instant: float, event: Event, *, repeats: bool = False) -> None:
        """Schedule an event; with `repeats` it always schedules itself again."""
        self.finite += not repeats
        heappush(self._heap, (instant, next(self._order), event, repeats))

    @property
    def next_instant(self) -> float:
        """When the next event happens; infinity when there is none."""
        return self._heap[0][0] if self._heap else math.inf

    def advance_to(self, instant: float) -> bool:
        """Run all events up to that instant; return whether anything happened."""
        happened = False
        while self._heap and self._heap[0][0] <= instant:
            self.now = max(self.now, self._heap[0][0])
            _, _, event, repeats = heappop(self._heap)
            self.finite -= not repeats
            happened = event() or happened
        self.now = instant
        return happened


def nothing() -> bool:
    """An event after which a round is due, but nothing else happens."""
    return True
