"""The virtual clock and its scheduled events."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from heapq import heappop, heappush

#: An event; returns False when it was void by then.
Event = Callable[[], bool]


class EventQueue:
    """Events by their instants; at the same instant, those scheduled first come first."""

    def __init__(self, now: float) -> None:
        #: Virtual time.
        self.now = now
        #: Called with the seconds that pass, before the next event happens.
        self.on_passing: Callable[[float], None] = ignore
        self._heap: list[tuple[float, int, Event, bool]] = []
        #: The place of the next event among those of its instant.
        self._order = 0
        #: The number of scheduled events, without those that repeat forever.
        self.finite = 0

    def schedule(self, instant: float, event: Event, *, repeats: bool = False) -> None:
        """Schedule an event; with `repeats` it always schedules itself again."""
        self.finite += not repeats
        heappush(self._heap, (instant, self._order, event, repeats))
        self._order += 1

    def schedule_rising(self, events: Iterable[tuple[float, Event]], number: int) -> None:
        """Schedule this number of events, whose instants do not fall, as `schedule` one by one would.

        Each is made when the one before it happens: a million jobs that have yet to arrive cost no memory.
        """
        self.finite += number
        self._schedule_next(iter(events), self._order)
        self._order += number

    def _schedule_next(self, events: Iterator[tuple[float, Event]], order: int) -> None:
        for instant, event in events:
            happen: Event = partial(self._happen, event, events, order)
            heappush(self._heap, (instant, order, happen, False))
            return

    def _happen(self, event: Event, later: Iterator[tuple[float, Event]], order: int) -> bool:
        self._schedule_next(later, order + 1)
        return event()

    @property
    def next_instant(self) -> float:
        """When the next event happens; infinity when there is none."""
        return self._heap[0][0] if self._heap else math.inf

    def advance_to(self, instant: float) -> bool:
        """Run all events up to that instant; return whether anything happened."""
        happened = False
        while self._heap and self._heap[0][0] <= instant:
            self._pass_to(self._heap[0][0])
            _, _, event, repeats = heappop(self._heap)
            self.finite -= not repeats
            happened = event() or happened
        self._pass_to(instant)
        return happened

    def _pass_to(self, instant: float) -> None:
        if instant > self.now:
            self.on_passing(instant - self.now)
            self.now = instant


def ignore(seconds: float) -> None:
    """Do nothing while they pass."""


def nothing() -> bool:
    """An event after which a round is due, but nothing else happens."""
    return True
