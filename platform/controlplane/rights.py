"""When rights end, what depends on them ends: streams, watched logs, sessions in jobs, pages, downloads.

Each of them holds a `Right` for as long as it is open, and waits for it to change. One watch in each process
asks the database about all of them with one statement, at once when a change is announced
(`tenants.rights.tell_changed`), and otherwise every few seconds: a message that is lost costs no more than
that. When the database cannot be asked, a right that held a while ago holds no more. (docs/decisions/0026)
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from channels.db import database_sync_to_async
from channels.layers import get_channel_layer
from django.db import Error as DatabaseError
from django.http import HttpRequest, HttpResponseBase
from redis.exceptions import RedisError

from tenants.rights import GROUP, Facts, SignIn, facts_of, viewer_now
from tenants.selectors import Viewer, viewer_of_scope

T = TypeVar("T")

log = logging.getLogger(__name__)

#: How often rights are read again when no change is reported.
RECHECK_SECONDS = 3.0
#: The time between two checks, however often changes are announced.
PAUSE_SECONDS = 0.25
#: How long a right is served after it was last seen to hold, when it cannot be checked again. A right that
#: ends has ended everywhere after this at the latest.
LONGEST_UNSEEN_SECONDS = 9.0

#: A thread of its own: neither requests nor other sockets can make it wait.
_thread = ThreadPoolExecutor(1, thread_name_prefix="rights")


class Right:
    """The rights of a user who has something open; `release` them when that is closed."""

    def __init__(self, watch: _Watch, sign_in: SignIn, viewer: Viewer, facts: Facts, seen_at: float) -> None:
        self.sign_in = sign_in
        #: The user, with the user's present rights; None: none any more.
        self.viewer: Viewer | None = viewer
        self.facts: Facts | None = facts
        #: When it was last seen in the database, by the event loop's clock.
        self.seen_at = seen_at
        self._watch = watch
        self._news = asyncio.Event()

    async def changed(self) -> Viewer | None:
        """Wait until the rights have changed since this last returned, and return them; None: they ended.

        They may be the same as before: requests in between were answered by those in force then.
        """
        await self._news.wait()
        if self.viewer is not None:
            self._news.clear()
        return self.viewer

    def release(self) -> None:
        self._watch.rights.discard(self)

    def become(self, viewer: Viewer | None, *, has_changed: bool = False) -> None:
        """Record the user's present rights; `has_changed`: report them even if they are unchanged."""
        if viewer is None:
            self.release()
        if has_changed or not _same(viewer, self.viewer):
            self.viewer = viewer
            self._news.set()


async def hold(sign_in: SignIn) -> Right | None:
    """Begin to watch what a user signed in with; None when it is not valid (any more)."""
    seen_at = asyncio.get_running_loop().time()
    ((facts, viewer),) = await _in_thread(partial(_look, [sign_in], [None]))
    if facts is None or viewer is None:
        return None
    return _watch_here().add(sign_in, viewer, facts, seen_at)


async def hold_of_scope(scope: Mapping[str, Any]) -> Right | None:
    """The same for the user who opened a WebSocket."""
    viewer = await viewer_of_scope(scope)
    if viewer is None:
        return None
    session = scope.get("session")
    return await hold(SignIn.of(viewer, session and session.session_key))


class Reader(NamedTuple):
    """The user who asked for an answer that takes its time, and the rights at that time."""

    viewer: Viewer
    sign_in: SignIn
    #: Whether the user may still read it, by the database; without this, the user may while none of the
    #: rights at that time has ended.
    may_read: Callable[[Viewer], bool] | None


def reader_of(request: HttpRequest, response: HttpResponseBase) -> Reader | None:
    """Return the reader of the answer; None where no code asked for the user."""
    viewer = getattr(request, "auth", None)
    if not isinstance(viewer, Viewer):
        return None
    sign_in = SignIn.of(viewer, request.session.session_key)
    return Reader(viewer, sign_in, getattr(response, "may_read", None))


async def lost(reader: Reader) -> None:
    """Wait until the user may no longer read the answer, or the database does not say in time."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + LONGEST_UNSEEN_SECONDS
    # Most answers are complete by then, and cost nothing.
    await asyncio.sleep(RECHECK_SECONDS)
    right = await _answered_by(deadline, partial(hold, reader.sign_in))
    if right is None:
        return
    try:
        while (viewer := right.viewer) is not None:
            if not await _answered_by(deadline, partial(_still_reads, reader, viewer)):
                return
            await right.changed()
            deadline = clock() + LONGEST_UNSEEN_SECONDS - RECHECK_SECONDS
    finally:
        right.release()


async def _answered_by(deadline: float, ask: Callable[[], Awaitable[T]]) -> T | None:
    """Return what the database says; None where it says nothing by then, on the event loop's clock."""
    try:
        async with asyncio.timeout_at(deadline):
            while True:
                try:
                    return await ask()
                except DatabaseError as error:
                    log.warning("Rights cannot be checked: %s", error)
                    await asyncio.sleep(PAUSE_SECONDS)
    except TimeoutError:
        log.warning("Rights cannot be checked: no answer in time")
        return None


async def _still_reads(reader: Reader, now: Viewer) -> bool:
    if reader.may_read is not None:
        return await _in_thread(partial(reader.may_read, now))
    if reader.viewer.is_operator:
        return now.is_operator
    return all(now.may(tenant, role) for tenant, role in reader.viewer.roles.items())


class _Watch:
    """Looks after the rights that are held on one event loop, as long as there are any."""

    def __init__(self) -> None:
        self.rights: set[Right] = set()
        self._said = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def add(self, sign_in: SignIn, viewer: Viewer, facts: Facts, seen_at: float) -> Right:
        right = Right(self, sign_in, viewer, facts, seen_at)
        self.rights.add(right)
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        return right

    async def _run(self) -> None:
        listening = asyncio.create_task(self._listen())
        try:
            while self.rights:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(RECHECK_SECONDS):
                        await self._said.wait()
                self._said.clear()
                await self._look_again()
                await asyncio.sleep(PAUSE_SECONDS)
        finally:
            self._task = None
            listening.cancel()
            # Only where this watch broke down is one left: then no caller is served that is not watched.
            for right in list(self.rights):
                right.become(None)

    async def _look_again(self) -> None:
        rights = list(self.rights)
        if not rights:
            return
        clock = asyncio.get_running_loop().time
        begun_at = clock()
        try:
            async with asyncio.timeout_at(min(right.seen_at for right in rights) + LONGEST_UNSEEN_SECONDS):
                look = partial(_look, [right.sign_in for right in rights], [right.facts for right in rights])
                found = await _in_thread(look)
        except (DatabaseError, TimeoutError) as error:
            log.warning("Rights cannot be checked: %s", error or "no answer in time")
            for right in rights:
                if clock() >= right.seen_at + LONGEST_UNSEEN_SECONDS:
                    right.become(None)
            self._said.set()
            return
        for right, (facts, viewer) in zip(rights, found, strict=True):
            if facts is None:
                right.become(None)
            elif facts != right.facts:
                right.become(viewer, has_changed=right.facts is None or facts.roles != right.facts.roles)
            right.facts, right.seen_at = facts, begun_at

    async def _listen(self) -> None:
        """Hear that something changed; without Redis nothing is heard, and the repeated reading suffices."""
        layer = get_channel_layer()
        while True:
            channel = None
            try:
                channel = await layer.new_channel("rights")
                await layer.group_add(GROUP, channel)
                while True:
                    await layer.receive(channel)
                    self._said.set()
            except (RedisError, OSError):
                await asyncio.sleep(RECHECK_SECONDS)
            finally:
                if channel is not None:
                    with contextlib.suppress(RedisError, OSError):
                        await layer.group_discard(GROUP, channel)


def _look(
    sign_ins: Sequence[SignIn], known: Sequence[Facts | None]
) -> list[tuple[Facts | None, Viewer | None]]:
    """Return the facts of each, and the viewer of those whose facts are not the known ones."""
    # The facts first: what changes in between is then seen the next time.
    facts = facts_of(sign_ins)
    return [
        (now, viewer_now(sign_in) if now is not None and now != before else None)
        for sign_in, now, before in zip(sign_ins, facts, known, strict=True)
    ]


async def _in_thread(ask: Callable[[], T]) -> T:
    """Ask the database in the thread that answers nothing else."""
    answer: T = await database_sync_to_async(ask, thread_sensitive=False, executor=_thread)()
    return answer


_watches: WeakKeyDictionary[asyncio.AbstractEventLoop, _Watch] = WeakKeyDictionary()


def _watch_here() -> _Watch:
    return _watches.setdefault(asyncio.get_running_loop(), _Watch())


def _same(one: Viewer | None, other: Viewer | None) -> bool:
    if one is None or other is None:
        return one is other
    # Users are compared by their numbers alone.
    return one == other and one.is_operator == other.is_operator
