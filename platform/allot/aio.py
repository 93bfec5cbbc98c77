"""The client for programs on asyncio: every call of `Client`, awaited.

async with AsyncClient() as client:
    job = await client.call(Client.submit, {"name": "train", "gpus": 2, "command": ["python", "train.py"]})
    async for seen in client.each(watch, [job["id"]]):
        print(seen["state"])

The calls run in threads, so that both clients have the same methods, types, retries and errors.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Concatenate, ParamSpec, TypeVar, cast

from allot.client import Client

P = ParamSpec("P")
T = TypeVar("T")


class AsyncClient:
    """One signed-in user of one server, in one event loop.

    `new_client` makes the clients that it uses: `lambda: Client(url, token=...)`, or as `allot` is signed in.
    At most `connections` calls run at a time; others wait for their turn. A call whose task is cancelled ends
    in its thread, within its time-outs, and its answer is lost.
    """

    def __init__(
        self, new_client: Callable[[], Client] = Client.from_environment, *, connections: int = 4
    ) -> None:
        self._new_client = new_client
        self._threads = ThreadPoolExecutor(connections, thread_name_prefix="allot")
        #: A client is not for several threads, so each thread has one.
        self._own = threading.local()
        self._clients: list[Client] = []

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Wait for the calls that run, drop those that wait for their turn, and close the connections."""
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)
        for client in self._clients:
            client.close()

    async def call(
        self, function: Callable[Concatenate[Client, P], T], *arguments: P.args, **named: P.kwargs
    ) -> T:
        """Return what a method of `Client`, or another function of one, returns.

        The methods of its parts: `client.call(lambda own: own.secrets.set("KEY", "value"))`. What returns an
        iterator is for `each`. Raises what the function raises (`allot.errors`).
        """

        def run() -> T:
            return function(self._client_of_thread(), *arguments, **named)

        return await asyncio.get_running_loop().run_in_executor(self._threads, run)

    async def each(
        self, function: Callable[Concatenate[Client, P], Iterable[T]], *arguments: P.args, **named: P.kwargs
    ) -> AsyncGenerator[T]:
        """Yield what a function of a client yields, such as `Client.jobs` or `allot.following.watch`.

        It has a thread and a connection of its own, so that one that waits long keeps no call waiting.
        """
        loop, end = asyncio.get_running_loop(), object()
        thread, client = ThreadPoolExecutor(1, thread_name_prefix="allot"), self._new_client()
        try:
            items = await loop.run_in_executor(thread, lambda: iter(function(client, *arguments, **named)))
            while (item := await loop.run_in_executor(thread, next, items, end)) is not end:
                yield cast("T", item)
        finally:
            thread.shutdown(wait=False, cancel_futures=True)
            client.close()

    def _client_of_thread(self) -> Client:
        client: Client | None = getattr(self._own, "client", None)
        if client is None:
            client = self._own.client = self._new_client()
            self._clients.append(client)
        return client
