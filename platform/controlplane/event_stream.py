"""Events as they are written, by Server-Sent Events: `GET /api/v1/events/stream`.

- *Nothing is lost.* A stream reads on only as far as the events are settled (`Settling`), and each piece of
  it has the id after which another stream goes on, the heartbeats too.
- *Nothing is kept.* A piece is read from the database when the one before has been sent. A slow reader
  costs no memory, and one that takes nothing is dropped (`connections.TAKE_SECONDS`).
- *It ends for a reason*, which the last event says: the rights of its reader changed, the database does not
  answer, or the server stops.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from weakref import WeakKeyDictionary

from channels.db import database_sync_to_async
from django.db import Error as DatabaseError

from controlplane import rights
from controlplane.open_streams import stopping
from scheduler.models.selectors.events import Settling, events_between, settle
from scheduler.telemetry.events.api import EventStream

log = logging.getLogger(__name__)

#: The time between two checks of how far the events are settled, while a reader follows them.
LOOK_SECONDS = 1.0
#: The longest silence: proxies close connections on which nothing comes for a minute.
HEARTBEAT_SECONDS = 15.0
#: How long a reader waits before it comes back, in milliseconds.
RETRY_MS = 2_000
#: The most ids that one piece is about.
IDS_AT_ONCE = 500

#: Why a stream ends, by the code in its last event.
ENDS = {
    "rights_changed": "Your rights have changed; connect again for what you may see now.",
    "not_signed_in": "Your session or token is no longer valid.",
    "unavailable": "The database does not answer just now; connect again with Last-Event-ID.",
    "stopping": "The server stops; connect again with Last-Event-ID.",
}

#: All streams read in turns, so that they take no thread from requests.
_thread = ThreadPoolExecutor(1, thread_name_prefix="events")
_settle = database_sync_to_async(settle, thread_sensitive=False, executor=_thread)
_read = database_sync_to_async(events_between, thread_sensitive=False, executor=_thread)


async def follow(response: EventStream) -> AsyncGenerator[bytes, None]:
    """Yield a stream, piece by piece, until something ends it."""
    right = await rights.hold(response.sign_in)
    if right is None:
        yield _end("not_signed_in")
        return
    ending = asyncio.ensure_future(_ending(right))
    try:
        async with _horizon_here().watched() as horizon:
            async for piece in _pieces(response, horizon, ending):
                yield piece
        yield _end(ending.result())
    except DatabaseError as error:
        log.warning("A stream of events ended: %s", error)
        yield _end("unavailable")
    finally:
        ending.cancel()
        right.release()


async def _pieces(
    response: EventStream, horizon: _Horizon, ending: asyncio.Future[str]
) -> AsyncIterator[bytes]:
    settled = await horizon.beyond(None)
    after = settled if response.after is None else response.after
    yield f"retry: {RETRY_MS}\n".encode() + message("hello", {"version": 1}, after)
    while not ending.done():
        if after >= settled:
            try:
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    settled = await _unless(ending, horizon.beyond(after), settled)
            except TimeoutError:
                yield f": heartbeat\nid: {after}\n\n".encode()
            continue
        until = min(settled, after + IDS_AT_ONCE)
        found = await _read(response.rows, response.viewer, after=after, until=until)
        after = until
        if found and not ending.done():
            yield b"".join(message("event", event, event["id"]) for event in found)


async def _unless(ending: asyncio.Future[str], waiting: Coroutine[Any, Any, int], now: int) -> int:
    """Return what is waited for, or `now` when the end of the stream comes first."""
    task = asyncio.ensure_future(waiting)
    either: set[asyncio.Future[Any]] = {task, ending}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else now
    finally:
        task.cancel()


async def _ending(right: rights.Right) -> str:
    """Wait until the stream has to end, and return the code of the reason."""
    changed = asyncio.ensure_future(right.changed())
    stops = asyncio.ensure_future(stopping().wait())
    try:
        await asyncio.wait({changed, stops}, return_when=asyncio.FIRST_COMPLETED)
        if stops.done():
            return "stopping"
        return "not_signed_in" if changed.result() is None else "rights_changed"
    finally:
        changed.cancel()
        stops.cancel()


def message(name: str, data: Mapping[str, Any], last_id: int | None = None) -> bytes:
    """Return one message of a stream; JSON has no line break that would end its data."""
    said = "" if last_id is None else f"id: {last_id}\n"
    return f"event: {name}\n{said}data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def _end(code: str) -> bytes:
    return message("end", {"code": code, "message": ENDS[code]})


class _Horizon:
    """How far the events are settled, looked up once for all streams of an event loop."""

    def __init__(self) -> None:
        self._watchers = 0
        self._looking: asyncio.Task[None] | None = None
        self._forget()

    def _forget(self) -> None:
        self._state = Settling()
        self._error: DatabaseError | None = None
        self._looked = asyncio.Event()

    @contextlib.asynccontextmanager
    async def watched(self) -> AsyncIterator[_Horizon]:
        self._watchers += 1
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
        try:
            yield self
        finally:
            self._watchers -= 1
            if not self._watchers:
                self._looking.cancel()
                self._looking = None
                self._forget()

    async def beyond(self, after: int | None) -> int:
        """Wait until more than this is settled (None: until it is known), and return how much."""
        while True:
            if self._error is not None:
                raise self._error
            settled = self._state.settled
            if settled is not None and (after is None or settled > after):
                return settled
            await self._looked.wait()

    async def _look(self) -> None:
        while True:
            try:
                self._state = await _settle(self._state)
                self._error = None
            except DatabaseError as error:
                self._error = error
            self._looked.set()
            self._looked = asyncio.Event()
            await asyncio.sleep(LOOK_SECONDS)


_horizons: WeakKeyDictionary[asyncio.AbstractEventLoop, _Horizon] = WeakKeyDictionary()


def _horizon_here() -> _Horizon:
    return _horizons.setdefault(asyncio.get_running_loop(), _Horizon())
