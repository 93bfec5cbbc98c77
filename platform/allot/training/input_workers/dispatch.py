"""Which worker makes which batch: decided from what joined, left and was made, without a clock or a socket.

Batches are numbered in the order of their items. Exactly once: the batches of a lost worker go to others, and
all come in their order, so that one number states where a run is in its data. At most once: the batches of a
lost worker are lost, and the others come as they are made.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass

#: Batches that a worker has at a time: while one is sent the next is made.
AHEAD = 2
#: How often an item is tried whose function raises.
TRIES = 3


@dataclass(frozen=True, slots=True)
class Failure:
    """A batch that cannot be made: what its function last raised."""

    number: int
    reason: str


class Dispatch:
    """The batches of one pass, from when they are added until they are taken.

    buffer  the most batches that are added and not taken yet: this bounds their memory
    """

    def __init__(self, *, exactly_once: bool, buffer: int) -> None:
        self.exactly_once, self.buffer = exactly_once, buffer
        #: Batches lost with their workers; at most once only.
        self.lost = 0
        self.failure: Failure | None = None
        self._waiting: list[int] = []
        #: By worker, in the order in which it makes them.
        self._given: dict[int, list[int]] = {}
        self._ready: deque[int] = deque()
        self._is_ready: set[int] = set()
        #: What is not taken yet, where the order counts.
        self._order: deque[int] = deque()
        self._failures: dict[int, int] = {}
        self._held = 0

    @property
    def has_room(self) -> bool:
        return self._held < self.buffer

    @property
    def is_empty(self) -> bool:
        """Whether all that was added has been taken."""
        return self._held == 0

    @property
    def busy(self) -> int:
        """How many workers have something to make."""
        return sum(bool(given) for given in self._given.values())

    def add(self, number: int) -> None:
        """Take in a batch to be made. Numbers ascend; only where there is room."""
        self._held += 1
        if self.exactly_once:
            self._order.append(number)
        heapq.heappush(self._waiting, number)

    def join(self, worker: int) -> None:
        self._given[worker] = []

    def leave(self, worker: int, *, gives_back: bool = False) -> list[int]:
        """Note that a worker is gone; if it gives back, it has made nothing of what it still had.

        Return what it had, in the order in which it makes it.
        """
        given = self._given.pop(worker, [])
        if self.exactly_once or gives_back:
            for number in given:
                heapq.heappush(self._waiting, number)
        else:
            self.lost += len(given)
            self._held -= len(given)
        return given

    def has(self, worker: int) -> bool:
        """Whether a worker has something to make."""
        return bool(self._given.get(worker))

    def assign(self) -> list[tuple[int, int]]:
        """Return which worker makes which batch from now on: the first goes to the worker with the least to
        do.
        """
        free = [(len(given), worker) for worker, given in self._given.items() if len(given) < AHEAD]
        heapq.heapify(free)
        found = []
        while free and self._waiting:
            count, worker = heapq.heappop(free)
            number = heapq.heappop(self._waiting)
            self._given[worker].append(number)
            found.append((worker, number))
            if count + 1 < AHEAD:
                heapq.heappush(free, (count + 1, worker))
        return found

    def made(self, worker: int, number: int) -> bool:
        """Return whether a batch counts: it is that worker's to make, and has not come before."""
        given = self._given.get(worker, [])
        if number not in given:
            return False
        given.remove(number)
        if self.exactly_once:
            self._is_ready.add(number)
        else:
            self._ready.append(number)
        return True

    def failed(self, worker: int, number: int, reason: str) -> None:
        """Take note that the function raised. At most once it is not tried again."""
        given = self._given.get(worker, [])
        if number not in given:
            return
        given.remove(number)
        self._failures[number] = self._failures.get(number, 0) + 1
        if not self.exactly_once or self._failures[number] >= TRIES:
            self.failure = self.failure or Failure(number, reason)
        else:
            heapq.heappush(self._waiting, number)

    def take(self) -> int | None:
        """Return the next batch, which frees its place; None where it has not come yet."""
        if self.exactly_once:
            if not self._order or self._order[0] not in self._is_ready:
                return None
            number = self._order.popleft()
            self._is_ready.remove(number)
        elif self._ready:
            number = self._ready.popleft()
        else:
            return None
        self._failures.pop(number, None)
        self._held -= 1
        return number
