"""The worker's end: connects to trainers, makes the batches that they ask for, and leaves when told to."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from allot.training.errors import TrainingError, say
from allot.training.input_workers import line as wire
from allot.training.input_workers.batch import pack
from allot.training.input_workers.line import Line, LineError

#: Between two tries to reach a trainer, at first and at most.
RETRY_SECONDS, RETRY_MOST_SECONDS = 0.1, 5.0
#: How long a frame may still take to be sent when the worker is told to leave, and then to be read.
LEAVE_SECONDS = 10.0
REASON_MOST = 1_000

Make = Callable[[Any], object]


class _Left(Exception):
    """This worker was told to leave."""


class Worker:
    """Makes batches for trainers until each of them is done, or `leave` is called."""

    def __init__(self, make: Make, secret: bytes, *, give_up_seconds: float) -> None:
        self._make, self._secret, self._give_up_seconds = make, secret, give_up_seconds
        self._leaves = threading.Event()

    def leave(self) -> None:
        """Finish the batches under way, send them, give the others back."""
        self._leaves.set()

    def work(self, trainers: Sequence[tuple[str, int]]) -> bool:
        """Return whether all trainers are done or this worker was told to leave; False: one was not found.

        A trainer for each rank that has a loader of its own; each is served by a thread.
        """
        if len(trainers) == 1:
            return self._work(trainers[0])
        with ThreadPoolExecutor(len(trainers)) as threads:
            return all(list(threads.map(self._work, trainers)))

    def _work(self, trainer: tuple[str, int]) -> bool:
        """Serve a trainer, and the one that takes its place after an interruption."""
        wait, seen_at, problem = RETRY_SECONDS, time.monotonic(), ""
        while not self._leaves.is_set():
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
            raise LineError("the trainer does not say its terms")
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
                if kind != wire.ITEM or not isinstance(order.get("number"), int) or "item" not in order:
                    raise LineError("the trainer sends what a trainer does not send")
                answer = self._answer(order["number"], order["item"], most)
                sending.result()
                sending = sender.submit(line.send, *answer)

    def _answer(
        self, number: int, item: Any, most: int
    ) -> tuple[int, dict[str, Any], list[memoryview | bytes]]:
        try:
            header, body = pack(self._make(item))
            if (size := sum(map(len, body))) > most:
                raise TrainingError(f"a batch of {size} bytes is more than the trainer takes, {most}")
        except Exception as error:
            traceback.print_exc()
            reason = f"{type(error).__name__}: {error}"[:REASON_MOST]
            return wire.FAILED, {"number": number, "reason": reason}, []
        return wire.BATCH, {**header, "number": number}, body
