"""The trainer's end: accepts input workers, gives them items to make, and receives the batches."""

from __future__ import annotations

import contextlib
import json
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any

from allot.training.errors import TrainingError, say
from allot.training.input_workers import line as wire
from allot.training.input_workers.batch import unpack
from allot.training.input_workers.dispatch import Dispatch
from allot.training.input_workers.line import Line, LineError
from allot.training.input_workers.scaling import Desired, Meter, Seen, decide
from allot.training.input_workers.stream import Follower

#: The most connections, and the most that have not identified themselves yet: the oldest of these makes room.
CONNECTIONS_MOST, STRANGERS_MOST = 1024, 64
#: How often a trainer that waits looks whether it should stop, and how many workers it wants.
LOOK_SECONDS = 0.5
ITEM_MOST, REASON_MOST, NAME_MOST = 1_000_000, 2_000, 100
#: How long workers may take to leave after they are sent the end.
CLOSE_SECONDS = 5.0
#: After this many workers were lost with it, an item is named as the likely cause.
SUSPICIOUS = 3
#: In place of a batch's number: there is room for another item.
_MORE = 0


class InputWorkers:
    """Made by `Session.input_workers`, and entered by `with`; one pass of `batches` at a time."""

    def __init__(
        self,
        *,
        listen: str,
        secret: bytes,
        buffer: int,
        max_batch_bytes: int,
        silent_seconds: float,
        least: int,
        most: int,
        shared: bool,
        on_stop: Callable[[], None],
    ) -> None:
        if buffer < 1 or max_batch_bytes < 1 or silent_seconds <= 0 or not 0 <= least <= most or most < 1:
            raise TrainingError(
                "buffer, max_batch_bytes, silent_seconds and most must be above 0, and 0 <= least <= most"
            )
        self._secret, self._buffer, self._max_batch_bytes = secret, buffer, max_batch_bytes
        self._silent_seconds, self._least, self._most = silent_seconds, least, most
        self._shared, self._on_stop = shared, on_stop
        self._changed = threading.Condition()
        self._dispatch: Dispatch | Follower = Dispatch(exactly_once=True, buffer=buffer)
        self._items: dict[int, _Item] = {}
        self._batches: dict[int, object] = {}
        self._number = self._worker = 0
        self._workers: dict[int, _Worker] = {}
        self._strangers: dict[socket.socket, None] = {}
        self._meter: Meter | None = None
        self._is_waiting = False
        self._desired = Desired(least)
        self._lost_before = self._skipped_before = 0
        self._is_closed = False
        address = wire.address_of(listen)
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        try:
            self._server = socket.create_server(address, family=family, backlog=128)
        except OSError as error:
            raise TrainingError(f"cannot listen for input workers at {listen}: {error}") from None
        threading.Thread(target=self._accept, name="allot-inputs", daemon=True).start()

    def __enter__(self) -> InputWorkers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(is_done=kind is None)

    @property
    def port(self) -> int:
        """Where workers connect; the system has chosen it where `listen` ends with :0."""
        port: int = self._server.getsockname()[1]
        return port

    @property
    def connected(self) -> int:
        """How many workers are there."""
        return len(self._workers)

    @property
    def lost(self) -> int:
        """Batches that were lost with their workers, of streams and of passes with `exactly_once=False`."""
        return self._lost_before + self._dispatch.lost

    @property
    def skipped(self) -> int:
        """Batches of a shared stream that were not kept any more when this trainer came to them."""
        follower = self._dispatch
        return self._skipped_before + (follower.skipped if isinstance(follower, Follower) else 0)

    @property
    def seconds_waited(self) -> float:
        """How long the trainer has waited for batches, from the beginning."""
        with self._changed:
            self._measure()
            return self._meter.waited if self._meter else 0.0

    def line(self) -> dict[str, float]:
        """Return what a progress line says of it; once it is closed, that no worker is wanted any more."""
        with self._changed:
            if self._is_closed:
                return {"input_workers": 0, "input_workers_desired": 0}
            seen = self._look()
            told: dict[str, float] = {
                "input_stall": round(seen.stall, 4),
                "input_busy": round(seen.busy, 4),
                "input_workers": seen.workers,
                "input_workers_desired": self._desired.workers,
            }
            return told | {"input_skipped": self.skipped} if self._shared else told

    def batches(self, items: Iterable[Any], *, exactly_once: bool = True) -> Iterator[tuple[Any, Any]]:
        """Yield each item with the batch that a worker has made of it; items are what JSON can represent.

        exactly_once    in the order of items, whatever becomes of workers. Else as they come, without what
                        workers had that were lost

        Raises TrainingError where the function raises for the same item again and again (else at once), and
        for input workers that several jobs share, which give nothing exactly once.
        """
        if self._shared:
            raise TrainingError(
                "these input workers are shared: use stream(), which gives each batch at most once; items of"
                " the trainer's own, and exactly once, are for input workers that are not shared"
            )
        coming, is_over = iter(items), False
        with self._changed:
            self._begin(Dispatch(exactly_once=exactly_once, buffer=self._buffer))
        while True:
            while not is_over and self._dispatch.has_room:
                try:
                    item = next(coming)
                except StopIteration:
                    is_over = True
                else:
                    self._add(item)
            number = self._next(is_over)
            if number is None:
                return
            if number != _MORE:
                with self._changed:
                    made = self._items.pop(number).plain, self._batches.pop(number)
                yield made

    def stream(self) -> Iterator[tuple[int, Any]]:
        """Yield number and batch of a stream that other jobs follow too, from where it stands, without end.

        Each batch at most once, as they come. Where this trainer is slower than others it goes without those
        that are not kept any more (`skipped`).

        Raises TrainingError where the function raises, and for input workers that are not shared.
        """
        if not self._shared:
            raise TrainingError(
                "these input workers are not shared: use batches(), or let the job say input_workers.shared"
            )
        with self._changed:
            self._begin(Follower(buffer=self._buffer))
            self._give()
        while (number := self._next(is_over=True)) is not None:
            with self._changed:
                del self._items[number]
                made = self._batches.pop(number)
                self._give()
            yield number, made

    def close(self, *, is_done: bool = True) -> None:
        """Let the workers go: for good, or to wait for the next start of this trainer."""
        with self._changed:
            if self._is_closed:
                return
            self._is_closed = True
            workers = list(self._workers.values())
            strangers = list(self._strangers)
        # Closing alone does not wake who accepts.
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for stranger in strangers:
            _cut(stranger)
        for worker in workers:
            worker.end(is_done=is_done)
        deadline = time.monotonic() + CLOSE_SECONDS
        for worker in workers:
            worker.gone.wait(max(deadline - time.monotonic(), 0))
            worker.line.close()

    def _begin(self, dispatch: Dispatch | Follower) -> None:
        """Forget what was under way: batches that still come of it do not count."""
        self._lost_before, self._skipped_before = self.lost, self.skipped
        self._dispatch = dispatch
        self._items.clear()
        self._batches.clear()
        for worker in self._workers:
            self._join(worker)
        if self._meter is None:
            self._meter = Meter.started(time.monotonic())
        self._measure()

    def _add(self, item: Any) -> None:
        try:
            content = json.dumps(item)
        except (TypeError, ValueError) as error:
            raise TrainingError(f"an item must be what JSON can represent: {error}") from None
        if len(content) > ITEM_MOST:
            raise TrainingError(f"an item may have {ITEM_MOST} characters as JSON, not {len(content)}")
        with self._changed:
            assert isinstance(self._dispatch, Dispatch)
            self._number += 1
            self._items[self._number] = _Item(item, content)
            self._dispatch.add(self._number)
            self._give()

    def _join(self, worker: int) -> None:
        """Give a worker something to make from now on, where several trainers share it once it has a name."""
        name = self._workers[worker].name
        if isinstance(self._dispatch, Dispatch):
            self._dispatch.join(worker)
        elif name:
            self._dispatch.join(worker, name)

    def _next(self, is_over: bool) -> int | None:
        """Wait for the next batch; _MORE: there is room for another item; None: all were taken."""
        while True:
            with self._changed:
                number = self._dispatch.take()
                if number is None and (failure := self._dispatch.failure):
                    raise TrainingError(
                        f"an input worker cannot make a batch of {self._items[failure.number].plain!r:.200}: "
                        f"{failure.reason}"
                    )
                if number is None and not is_over and self._dispatch.has_room:
                    return _MORE
                if number is not None or self._dispatch.is_empty:
                    self._measure(is_waiting=False)
                    return number
                if self._is_closed:
                    raise TrainingError("the input workers were closed while a batch was waited for")
                self._measure(is_waiting=True)
                self._changed.wait(LOOK_SECONDS)
                self._look()
            self._on_stop()

    def _give(self) -> None:
        """Give out what is to be made; called at each change, with the lock held."""
        for worker, number in self._dispatch.assign():
            if self._shared:
                self._items[number] = _Item(number, str(number))
                self._workers[worker].give(wire.WANT, f'{{"number":{number}}}')
            else:
                content = self._items[number].content
                self._workers[worker].give(wire.ITEM, f'{{"number":{number},"item":{content}}}')
        self._measure()

    def _measure(self, *, is_waiting: bool | None = None) -> None:
        if is_waiting is not None:
            self._is_waiting = is_waiting
        if self._meter is not None:
            self._meter.tell(
                time.monotonic(),
                is_waiting=self._is_waiting,
                workers=len(self._workers),
                busy=self._dispatch.busy,
            )

    def _look(self) -> Seen:
        """Return what is seen, and decide by it how many workers to wish for."""
        self._measure()
        seen = self._meter.seen if self._meter else Seen(len(self._workers), 0.0, 0.0)
        self._desired = decide(self._desired, seen, now=time.monotonic(), least=self._least, most=self._most)
        return seen

    def _accept(self) -> None:
        while True:
            try:
                stranger, _ = self._server.accept()
            except OSError:
                if self._is_closed:
                    return
                time.sleep(LOOK_SECONDS)  # Out of files, perhaps: others give theirs back.
                continue
            with self._changed:
                if self._is_closed or len(self._workers) + len(self._strangers) >= CONNECTIONS_MOST:
                    stranger.close()
                    continue
                if len(self._strangers) >= STRANGERS_MOST:
                    _cut(next(iter(self._strangers)))
                self._strangers[stranger] = None
            threading.Thread(target=self._serve, args=(stranger,), name="allot-input", daemon=True).start()

    def _serve(self, stranger: socket.socket) -> None:
        """Let a worker in, and read from it until it is gone. Runs in a thread of its own."""
        try:
            line = wire.receive_worker(stranger, self._secret, self._max_batch_bytes)
        except (OSError, LineError):
            # Neither a stranger's bytes nor how often it comes should fill the log.
            _cut(stranger)
            return
        finally:
            with self._changed:
                self._strangers.pop(stranger, None)
        worker = _Worker(line)
        with self._changed:
            if self._is_closed:
                line.close()
                return
            self._worker += 1
            number = self._worker
            self._workers[number] = worker
            self._join(number)
            terms = {"max_batch_bytes": self._max_batch_bytes, "shared": self._shared}
            worker.outbox.put((wire.TERMS, terms))
            self._forget()
            self._give()
        line.on_silence = lambda: self._look_for(number, line)
        threading.Thread(target=worker.write, name="allot-input-out", daemon=True).start()
        gives_back = False
        try:
            while not gives_back:
                gives_back = self._hear(number, *line.receive())
        except TrainingError as error:
            say(f"warning: input worker {number} is disconnected: {error}")
        except OSError:
            pass
        self._let_go(number, gives_back)

    def _hear(self, worker: int, kind: int, header: dict[str, Any], body: bytearray) -> bool:
        """Take what a worker sends; return whether it leaves. Raises TrainingError for a frame that it may
        not send.
        """
        if kind == wire.LEAVES:
            return True
        if self._shared and kind == wire.NAME:
            self._hear_name(worker, header.get("name"))
            return False
        number, floor = header.get("number"), header.get("floor", 0)
        kinds = (wire.BATCH, wire.FAILED, wire.MISSED) if self._shared else (wire.BATCH, wire.FAILED)
        if kind not in kinds or not isinstance(number, int) or not isinstance(floor, int):
            raise LineError("it sent a frame that a worker may not send")
        batch = unpack(header, body) if kind == wire.BATCH else None
        with self._changed:
            if kind == wire.MISSED:
                if isinstance(self._dispatch, Follower) and self._dispatch.missed(worker, number, floor):
                    del self._items[number]
            elif kind == wire.FAILED:
                self._dispatch.failed(worker, number, str(header.get("reason"))[:REASON_MOST])
            elif self._dispatch.made(worker, number):
                self._batches[number] = batch
            self._give()
            self._changed.notify_all()
        return False

    def _hear_name(self, worker: int, name: object) -> None:
        if not isinstance(name, str) or not 0 < len(name) <= NAME_MOST or self._workers[worker].name:
            raise LineError("it has no valid name, or sent another one")
        with self._changed:
            self._workers[worker].name = name
            self._join(worker)
            self._give()

    def _look_for(self, worker: int, line: Line) -> None:
        """Give a worker up that says nothing though it has something to make. Raises LineError."""
        with self._changed:
            since = max(line.heard_at, self._workers[worker].given_at)
            if self._dispatch.has(worker) and time.monotonic() - since > self._silent_seconds:
                raise LineError(f"it has sent nothing for {self._silent_seconds:g} s")

    def _let_go(self, number: int, gives_back: bool) -> None:
        with self._changed:
            worker = self._workers.pop(number)
            had = self._dispatch.leave(number, gives_back=gives_back)
            if had and not gives_back:
                self._suspect(had[0])
                if not self._dispatch.exactly_once:
                    for lost in had:
                        del self._items[lost]
            self._forget()
            self._give()
            self._changed.notify_all()
        worker.end(is_done=False)
        worker.gone.set()

    def _suspect(self, number: int) -> None:
        item = self._items[number]
        item.lost_with += 1
        if item.lost_with % SUSPICIOUS == 0:
            say(f"warning: {item.lost_with} input workers were lost while they made {item.content[:200]}")

    def _forget(self) -> None:
        """Measure again, for there are other workers now."""
        self._measure()
        if self._meter is not None:
            self._meter.forget()


class _Item:
    __slots__ = ("content", "lost_with", "plain")

    def __init__(self, plain: Any, content: str) -> None:
        self.plain, self.content, self.lost_with = plain, content, 0


class _Worker:
    """A connected worker; messages to it wait for a thread that may block."""

    def __init__(self, line: Line) -> None:
        self.line = line
        #: The name by which all trainers of its stream know it; "": not received yet.
        self.name = ""
        #: That nothing more comes from it.
        self.gone = threading.Event()
        self.outbox: queue.SimpleQueue[tuple[int, dict[str, Any] | bytes] | None] = queue.SimpleQueue()
        #: When it was given something last, by `time.monotonic`.
        self.given_at = time.monotonic()

    def give(self, kind: int, order: str) -> None:
        self.given_at = time.monotonic()
        self.outbox.put((kind, order.encode()))

    def end(self, *, is_done: bool) -> None:
        """Cut the line; or send that all is done, and the worker cuts it.

        Cut from here at once, a message that it has not read yet would be lost.
        """
        if is_done:
            self.outbox.put((wire.END, {}))
        else:
            self.outbox.put(None)
            self.line.close()

    def write(self) -> None:
        """Send what is put into the outbox until its end. Runs in a thread of its own."""
        with contextlib.suppress(OSError):
            while (told := self.outbox.get()) is not None:
                self.line.send(*told)
            self.line.close()
        # A worker that takes nothing any more may have sent batches, and that it leaves, which are not read
        # yet: the thread that reads cuts the line.


def _cut(socket_: socket.socket) -> None:
    with contextlib.suppress(OSError):
        socket_.shutdown(socket.SHUT_RDWR)
    socket_.close()
