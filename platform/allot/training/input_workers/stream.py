"""One stream of batches that several trainers follow: what each asks for, and what a worker keeps.

The batches of a stream are numbered from 0 on, and are a function of their number. Each trainer asks for one
number after another; the worker that a number belongs to makes its batch for the first that asks and keeps it
for the others. So the fastest trainer moves the stream on. A trainer that is so slow that a batch is not kept
any more misses it, and goes on where the stream stands, as does one that joins late.
After the sliding window of the tf.data service (A. Audibert et al., "tf.data service", SoCC 2023). Unlike
there, which worker makes a batch follows from its number, so that no process deals them out.
"""

from __future__ import annotations

import heapq
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from allot.training.input_workers.batch import pack
from allot.training.input_workers.dispatch import Failure

#: How far behind the newest number of a stream its batches are kept at most.
WINDOW = 128
WINDOW_BYTES = 2**28
#: As `batch.pack` returns it.
Packed = tuple[dict[str, Any], list[memoryview | bytes]]


@dataclass(frozen=True, slots=True)
class Missed:
    """A batch that is not kept any more; `floor` is the oldest number that may still be asked for."""

    floor: int


class Follower:
    """What one trainer has asked of a stream and still waits for; used as `dispatch.Dispatch` is.

    It gets each batch at most once, and does not get what it asked of a worker that was lost.

    buffer  batches at most that are asked for or wait
    """

    exactly_once = False

    def __init__(self, *, buffer: int) -> None:
        self.buffer = buffer
        #: Batches that were asked of workers that were lost, and those that other trainers had too long ago.
        self.lost = self.skipped = 0
        self.failure: Failure | None = None
        #: Where the stream stood when this trainer joined it, and the first number that it has not asked for.
        self._first = self._next = 0
        self._has_had = False
        #: Names of workers that it may ask, by the number of their line.
        self._names: dict[int, str] = {}
        self._asked: dict[int, int] = {}
        self._again: list[int] = []
        self._ready: deque[int] = deque()

    @property
    def has_room(self) -> bool:
        return len(self._asked) + len(self._again) + len(self._ready) < self.buffer

    @property
    def is_empty(self) -> bool:
        """A stream has no end."""
        return False

    @property
    def busy(self) -> int:
        """How many workers have something to make."""
        return len(set(self._asked.values()))

    def join(self, worker: int, name: str) -> None:
        """Take a worker in; all trainers know it by the same name."""
        self._names[worker] = name

    def leave(self, worker: int, *, gives_back: bool = False) -> list[int]:
        """Take note that a worker is gone; others make what it gives back. Return what was asked of it."""
        self._names.pop(worker, None)
        asked = sorted(number for number, of in self._asked.items() if of == worker)
        for number in asked:
            del self._asked[number]
            if gives_back:
                heapq.heappush(self._again, number)
        if not gives_back:
            self.lost += len(asked)
        return asked

    def has(self, worker: int) -> bool:
        return worker in self._asked.values()

    def assign(self) -> list[tuple[int, int]]:
        """Return which workers are asked for which batches from now on.

        With the same workers each trainer asks the same one for a number: in turn by the order of names.
        """
        workers = sorted(self._names, key=lambda worker: self._names[worker])
        found = []
        while workers and (self._again or self.has_room):
            if self._again:
                number = heapq.heappop(self._again)
            else:
                number, self._next = self._next, self._next + 1
            worker = workers[number % len(workers)]
            self._asked[number] = worker
            found.append((worker, number))
        return found

    def made(self, worker: int, number: int) -> bool:
        """Return whether a batch counts: that worker was asked for it, and it has not come before."""
        if not self._is_asked(worker, number):
            return False
        self._has_had = True
        self._ready.append(number)
        return True

    def missed(self, worker: int, number: int, floor: int) -> bool:
        """Go on at `floor`, the oldest number that is kept; return whether the worker was asked for `number`.

        What the stream was past before this trainer had anything of it does not count as skipped.
        """
        if not self._is_asked(worker, number):
            return False
        if not self._has_had:
            self._first = max(self._first, floor)
        self.skipped += number >= self._first
        if floor > self._next:
            self.skipped += max(floor - max(self._next, self._first), 0)
            self._next = floor
        return True

    def failed(self, worker: int, number: int, reason: str) -> None:
        """Take note that the function raised; it is not tried again."""
        if self._is_asked(worker, number):
            self.failure = self.failure or Failure(number, reason)

    def take(self) -> int | None:
        """Return the next batch, in the order in which they come; None where none has come."""
        return self._ready.popleft() if self._ready else None

    def _is_asked(self, worker: int, number: int) -> bool:
        """Return whether that worker was asked for it, and take the number off what is asked for."""
        if self._asked.get(number) != worker:
            return False
        del self._asked[number]
        return True


class Window:
    """The newest batches of a stream that a worker made, each made once, for all trainers that follow it.

    Asked by a thread for each trainer: none waits for another's line, and one batch is made at a time.
    It keeps the batches of the last `WINDOW` numbers, less where they have more bytes than `most_bytes`.
    """

    def __init__(self, make: Callable[[int], object], most_bytes: int = WINDOW_BYTES) -> None:
        self._make, self._most_bytes = make, most_bytes
        self._lock, self._making = threading.Lock(), threading.Lock()
        self._kept: dict[int, Future[Packed]] = {}
        self._sizes: dict[int, int] = {}
        self._newest = self._floor = 0

    def batch(self, number: int) -> Packed | Missed:
        """Return the batch, made now if it was not asked for yet. Raises what the function raises."""
        with self._lock:
            self._newest = max(self._newest, number)
            self._slide()
            if number < self._floor:
                return Missed(self._floor)
            kept = self._kept.get(number)
            is_first = kept is None
            coming = self._kept[number] = kept or Future()
        if is_first:
            self._fill(number, coming)
        return coming.result()

    def _fill(self, number: int, coming: Future[Packed]) -> None:
        try:
            with self._making:
                made = pack(self._make(number))
        except BaseException as error:
            coming.set_exception(error)
            return
        coming.set_result(made)
        with self._lock:
            if number in self._kept:
                self._sizes[number] = sum(map(len, made[1]))
                self._slide()

    def _slide(self) -> None:
        """Forget what is too old, then the oldest while all together have too many bytes."""
        self._floor = max(self._floor, self._newest - WINDOW + 1)
        bytes_kept = sum(self._sizes.values())
        for number in sorted(self._sizes)[:-1]:
            if bytes_kept <= self._most_bytes:
                break
            bytes_kept -= self._sizes[number]
            self._floor = max(self._floor, number + 1)
        for number in [number for number in self._kept if number < self._floor]:
            del self._kept[number]
            self._sizes.pop(number, None)
