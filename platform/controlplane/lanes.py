"""Which request is answered next, and in which thread: lanes of threads, in which callers take turns.

There are four lanes, so that none waits for another: the agents' own, that of reads and writes that take
long, that of uploads, and that of everything else. In a lane a thread that becomes free goes to the caller
whose turn it is, however many requests another has waiting. No caller has more than a part of the threads at
once. A caller with too many waiting is answered to come back (docs/decisions/0025).
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import math
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from http.cookies import CookieError, SimpleCookie
from typing import Any, TypeVar

from channels.db import database_sync_to_async
from django.conf import settings

from controlplane.limits import Scope

T = TypeVar("T")
#: How long the user of a token or session is remembered. Only turns depend on it, and no rights.
KNOWN_SECONDS = 60.0
MOST_KNOWN = 10_000
LONGEST_RETRY_SECONDS = 30
#: A caller that would wait longer than this for a heavy request is better answered to come back.
HEAVY_WAIT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller that requests count for: a user, a node, or an address without a known user."""

    name: str
    tenants: tuple[int, ...] = ()


class TooMany(Exception):
    """A caller, or all of a tenant together, has too many requests under way or waiting.

    `policy` names the limit, `quota` is how many may be under way at once.
    """

    def __init__(self, message: str, *, policy: str, quota: int, retry_after_seconds: int) -> None:
        super().__init__(message)
        self.policy = policy
        self.quota = quota
        self.retry_after_seconds = retry_after_seconds

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Retry-After, and the fields of draft-ietf-httpapi-ratelimit-headers."""
        seconds = self.retry_after_seconds
        return [
            (b"retry-after", str(seconds).encode()),
            (b"ratelimit-policy", f'"{self.policy}";q={self.quota};qu="concurrent-requests"'.encode()),
            (b"ratelimit", f'"{self.policy}";r=0;t={seconds}'.encode()),
        ]


class Turn:
    """A request that is under way. One that streams gives its thread back and still counts for its caller."""

    def __init__(self, lane: Lane, caller: Caller, tenant: int | None) -> None:
        self._lane = lane
        self.caller = caller
        self.tenant = tenant
        self.began = time.monotonic()
        self.has_thread = True

    def give_thread_back(self) -> None:
        if self.has_thread:
            self.has_thread = False
            self._lane.thread_is_free(self)


class Lane:
    """Some threads, and those who want one. For use on one event loop.

    name: what its limits are called, `NAME-of-user` and `NAME-of-tenant`.
    threads: how many requests are worked on at once.
    per_caller, per_tenant: how many of these, and of answers that are being sent, one may have.
    waiting: how many more requests of a caller may wait, and for how long.
    """

    def __init__(
        self,
        name: str,
        *,
        threads: int,
        per_caller: int,
        waiting: int,
        per_tenant: int = 0,
        wait_seconds: float = 30.0,
        executor: ThreadPoolExecutor | None = None,
    ) -> None:
        self.name = name
        self.threads = threads
        self.per_caller = per_caller
        self.per_tenant = per_tenant
        self.waiting = waiting
        self.wait_seconds = wait_seconds
        self.executor = executor or ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._busy = 0
        self._under_way: dict[str, int] = {}
        self._of_tenants: dict[int, int] = {}
        #: Callers with requests that wait, in the order of their turns.
        self._queues: OrderedDict[str, deque[tuple[Caller, asyncio.Future[Turn]]]] = OrderedDict()
        #: The duration of a request that has ended, smoothed.
        self._usual_seconds = 0.1

    @contextlib.asynccontextmanager
    async def turn(self, caller: Caller) -> AsyncIterator[Turn]:
        """Wait for the caller's turn, and hold it for the length of the block; raises TooMany."""
        turn = await self._wait(caller)
        try:
            yield turn
        finally:
            self.end(turn)

    async def _wait(self, caller: Caller) -> Turn:
        place = self._place_for(caller)
        if place is not None and self._busy < self.threads:
            # Callers that wait now wait for a turn of their own or of their tenant to end.
            return self._begin(caller, *place)
        queue = self._queues.setdefault(caller.name, deque())
        if len(queue) >= self.waiting:
            raise self._too_many(caller)
        future: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
        queue.append((caller, future))
        try:
            async with asyncio.timeout(self.wait_seconds):
                return await future
        except BaseException as error:
            self._leave(caller, future)
            if isinstance(error, TimeoutError):
                raise self._too_many(caller) from None
            raise

    def _leave(self, caller: Caller, future: asyncio.Future[Turn]) -> None:
        """Wait no longer; a turn that came in the same instant goes to the next."""
        if future.done() and not future.cancelled():
            self.end(future.result())
            return
        queue = self._queues.get(caller.name, deque())
        if (caller, future) in queue:
            queue.remove((caller, future))
        if not queue:
            self._queues.pop(caller.name, None)

    def _next(self) -> None:
        """Hand the free threads to the callers in their turn."""
        while self._busy < self.threads and self._serve_one():
            pass

    def _serve_one(self) -> bool:
        for name, queue in self._queues.items():
            caller, future = queue[0]
            place = self._place_for(caller)
            if place is None:
                continue
            queue.popleft()
            if queue:
                self._queues.move_to_end(name)
            else:
                del self._queues[name]
            if not future.done():
                future.set_result(self._begin(caller, *place))
            return True
        return False

    def _place_for(self, caller: Caller) -> tuple[int | None] | None:
        """Return the tenant that a request of the caller would count for, None where it must wait."""
        if self._under_way.get(caller.name, 0) >= self.per_caller:
            return None
        if not self.per_tenant or not caller.tenants:
            return (None,)
        busy, tenant = min((self._of_tenants.get(tenant, 0), tenant) for tenant in caller.tenants)
        return (tenant,) if busy < self.per_tenant else None

    def _begin(self, caller: Caller, tenant: int | None) -> Turn:
        self._busy += 1
        self._under_way[caller.name] = self._under_way.get(caller.name, 0) + 1
        if tenant is not None:
            self._of_tenants[tenant] = self._of_tenants.get(tenant, 0) + 1
        return Turn(self, caller, tenant)

    def thread_is_free(self, turn: Turn) -> None:
        self._busy -= 1
        self._usual_seconds += 0.1 * (time.monotonic() - turn.began - self._usual_seconds)
        self._next()

    def end(self, turn: Turn) -> None:
        _one_less(self._under_way, turn.caller.name)
        if turn.tenant is not None:
            _one_less(self._of_tenants, turn.tenant)
        turn.give_thread_back()
        # One that was streaming had no thread any more, but the place of another.
        self._next()

    def _too_many(self, caller: Caller) -> TooMany:
        if self._under_way.get(caller.name, 0) >= self.per_caller:
            whose, quota, said = "user", self.per_caller, "You have"
        elif self._place_for(caller) is None:
            whose, quota, said = "tenant", self.per_tenant, "Your tenant has"
        else:
            whose, quota, said = "all", self.threads, "The platform has"
        ahead = len(self._queues.get(caller.name, ())) + 1
        seconds = math.ceil(ahead * self._usual_seconds / quota)
        seconds = min(LONGEST_RETRY_SECONDS, max(1, seconds))
        return TooMany(
            f"{said} {quota} requests of this kind under way, and more that wait. Try again in {seconds} s.",
            policy=f"{self.name}-of-{whose}",
            quota=quota,
            retry_after_seconds=seconds,
        )


def _one_less(counts: dict[Any, int], key: Any) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]


class Callers:
    """Whose requests are whose: learned from answers, so that it costs nothing before it is their turn."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: OrderedDict[bytes, tuple[float, Caller]] = OrderedDict()

    def of(self, scope: Scope) -> Caller:
        """Return the caller, as far as it is known: credentials not known to be valid count for their
        address.
        """
        learned, caller = self._known.get(_credential(scope), (0.0, None))
        if caller is not None and self._clock() - learned < KNOWN_SECONDS:
            return caller
        return Caller(f"address {(scope.get('client') or ('unknown',))[0]}")

    def learn(self, scope: Scope, caller: Caller) -> None:
        credential = _credential(scope)
        if credential:
            self._known[credential] = (self._clock(), caller)
            self._known.move_to_end(credential)
            if len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)


def _credential(scope: Scope) -> bytes:
    """Return a digest of what the request signs in with; empty when that is nothing."""
    session = b""
    for name, value in scope["headers"]:
        if name == b"authorization":
            return hashlib.sha256(value).digest()
        if name == b"cookie":
            with contextlib.suppress(CookieError):
                morsel = SimpleCookie(value.decode("latin-1")).get(settings.SESSION_COOKIE_NAME)
                session = morsel.value.encode("latin-1") if morsel is not None else b""
    return hashlib.sha256(session).digest() if session else b""


@cache
def agents_threads() -> ThreadPoolExecutor:
    """What agents' requests and their sockets use, and nothing else does."""
    return ThreadPoolExecutor(settings.AGENT_THREADS, thread_name_prefix="agent")


async def in_agents_thread(function: Callable[..., T], *arguments: Any, **more: Any) -> T:
    """Ask the database for an agent's socket."""
    ask = database_sync_to_async(function, thread_sensitive=False, executor=agents_threads())
    answer: T = await ask(*arguments, **more)
    return answer


def agents_lane() -> Lane:
    """A node has a report, output and the code of a job on the way at most; requests of others count for
    their address.
    """
    threads = settings.AGENT_THREADS
    return Lane("agents", threads=threads, per_caller=3, waiting=100, executor=agents_threads())


def heavy_lane(name: str = "heavy-requests") -> Lane:
    config = settings.CONFIG
    return Lane(
        name,
        threads=config.heavy_requests,
        per_caller=config.heavy_requests_per_user,
        per_tenant=config.heavy_requests_per_tenant,
        waiting=config.heavy_requests_waiting,
        wait_seconds=HEAVY_WAIT_SECONDS,
    )


def uploads_lane() -> Lane:
    """As that of heavy requests, apart from it: a thread waits for what its caller sends."""
    return heavy_lane("uploads")


def others_lane() -> Lane:
    """Return the lane of other requests, in which no caller has more than half of the threads."""
    threads = settings.REQUEST_THREADS
    per_caller = max(1, threads // 2)
    return Lane("request", threads=threads, per_caller=per_caller, waiting=settings.CONFIG.requests_waiting)
