"""The worker's end: connects to trainers, makes the batches that they ask for, and leaves when it has to."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import threading
import time
import traceback
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from allot.training.errors import TrainingError, say
from allot.training.input_workers import line as wire
from allot.training.input_workers.batch import pack
from allot.training.input_workers.line import Line, LineError
from allot.training.input_workers.stream import Missed, Packed, Window

#: Between two tries to reach a trainer, at first and at most.
RETRY_SECONDS, RETRY_MOST_SECONDS = 0.1, 5.0
#: How long a frame may still take to be sent when the worker has to leave, and then to be read.
LEAVE_SECONDS = 10.0
REASON_MOST = 1_000
#: How often the worker checks which trainers follow a stream.
FOLLOW_SECONDS = 0.5

Make = Callable[[Any], object]


class _Left(Exception):
    """This worker has to leave."""


class Worker:
    """Makes batches for trainers until each of them is done, or `leave` is called."""

    def __init__(self, make: Make, secret: bytes, *, give_up_seconds: float) -> None:
        self._make, self._secret, self._give_up_seconds = make, secret, give_up_seconds
        self._leaves = threading.Event()
        self._window = Window(make)
        #: By which all trainers of a stream know it.
        self._name = os.urandom(8).hex()

    def leave(self) -> None:
        """Finish the batches under way, send them, give the others back."""
        self._leaves.set()

    def work(self, trainers: Sequence[tuple[str, int]]) -> bool:
        """Return whether all trainers are done or this worker had to leave; False: one was not found.

        A trainer for each rank that has a loader of its own; each is served by a thread.
        """
        if len(trainers) == 1:
            return self._work(trainers[0])
        with ThreadPoolExecutor(len(trainers)) as threads:
            return all(list(threads.map(self._work, trainers)))

    def follow(self, trainers: Callable[[], Collection[tuple[str, int]] | None]) -> bool:
        """Serve those trainers that `trainers` returns, which come and go; None: the same as before.

        Return whether this worker had to leave; False: there was no trainer for `give_up_seconds`.
        """
        there: set[tuple[str, int]] = set()
        served: dict[tuple[str, int], tuple[threading.Thread, threading.Event]] = {}
        seen_at = time.monotonic()
        while not self._leaves.is_set() and time.monotonic() - seen_at <= self._give_up_seconds:
            if (said := trainers()) is not None:
                there = set(said)
            for trainer, (thread, over) in list(served.items()):
                if trainer not in there:
                    over.set()
                if not thread.is_alive():
                    del served[trainer]
            for new in there - served.keys():
                # One that is done may begin again, as long as it is there.
                over = threading.Event()
                served[new] = threading.Thread(target=self._work, args=(new, over)), over
                served[new][0].start()
            if served:
                seen_at = time.monotonic()
            self._leaves.wait(FOLLOW_SECONDS)
        for thread, _ in served.values():
            thread.join()
        return self._leaves.is_set()

    def _work(self, trainer: tuple[str, int], over: threading.Event | None = None) -> bool:
        """Serve a trainer, and the one that takes its place after an interruption, until `over` is set."""
        wait, seen_at, problem = RETRY_SECONDS, time.monotonic(), ""
        while not self._leaves.is_set() and not (over and over.is_set()):
            try:
                line = self._connect(trainer)
                wait, seen_at = RETRY_SECONDS, time.monotonic()
                try:
                    if self._serve(line):
                        return True
                finally:
                    seen_at = time.monotonic()
            except (OSError, LineError) as error:
                if str(error) != problem and not self._leaves.is_set():
                    problem = str(error)
                    say(f"trainer {trainer[0]}:{trainer[1]}: {problem}; trying again")
            except _Left:
                return True
            if time.monotonic() - seen_at > self._give_up_seconds:
                say(f"no trainer at {trainer[0]}:{trainer[1]} for {self._give_up_seconds:g} s: {problem}")
                return False
            # By chance, so that many workers do not come at once.
            self._leaves.wait(wait * random.uniform(0.5, 1))
            wait = min(2 * wait, RETRY_MOST_SECONDS)
        return True

    def _connect(self, trainer: tuple[str, int]) -> Line:
        connection = socket.create_connection(trainer, wire.HANDSHAKE_SECONDS)
        try:
            line = wire.reach_trainer(connection, self._secret)
        except BaseException:
            connection.close()
            raise
        line.on_silence = self._look
        return line

    def _look(self) -> None:
        if self._leaves.is_set():
            raise _Left

    def _serve(self, line: Line) -> bool:
        """Return True when the trainer is done. Raises OSError or LineError where the line ends otherwise."""
        kind, terms, _ = line.receive()
        if kind != wire.TERMS or not isinstance(most := terms.get("max_batch_bytes"), int):
            raise LineError("the trainer did not send its terms")
        if terms.get("shared"):
            line.send(wire.NAME, {"name": self._name})
        # A batch is sent while the next one is made.
        # The line is cut first: what is still sent then need not be waited for.
        with ThreadPoolExecutor(1) as sender, contextlib.closing(line):
            sending: Future[None] = sender.submit(lambda: None)
            while True:
                try:
                    self._look()
                    kind, order, _ = line.receive()
                except _Left:
                    sending.result(LEAVE_SECONDS)
                    line.send(wire.LEAVES, {})
                    line.end(LEAVE_SECONDS)
                    raise
                if kind == wire.END:
                    return True
                number = order.get("number")
                if isinstance(number, int) and kind == wire.ITEM and "item" in order:
                    answer = self._answer(number, partial(self._made, order["item"]), most)
                elif isinstance(number, int) and kind == wire.WANT:
                    answer = self._answer(number, partial(self._window.batch, number), most)
                else:
                    raise LineError("the trainer sent a frame that a trainer may not send")
                sending.result()
                sending = sender.submit(line.send, *answer)

    def _made(self, item: Any) -> Packed:
        return pack(self._make(item))

    def _answer(
        self, number: int, made: Callable[[], Packed | Missed], most: int
    ) -> tuple[int, dict[str, Any], list[memoryview | bytes]]:
        try:
            found = made()
            if isinstance(found, Missed):
                return wire.MISSED, {"number": number, "floor": found.floor}, []
            header, body = found
            if (size := sum(map(len, body))) > most:
                raise TrainingError(f"a batch of {size} bytes is more than the trainer accepts, {most}")
        except Exception as error:
            traceback.print_exc()
            reason = f"{type(error).__name__}: {error}"[:REASON_MOST]
            return wire.FAILED, {"number": number, "reason": reason}, []
        return wire.BATCH, {**header, "number": number}, body
