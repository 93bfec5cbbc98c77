"""The client for asyncio: the same calls, several at a time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from allot.aio import AsyncClient
from allot.client import Client
from allot.errors import NotFound
from allot.following import watch
from tests.allot.fake_api import TOKEN, FakeApi, ended, running
from tests.patience import PATIENCE_SECONDS


def run(api: FakeApi, program: Callable[[AsyncClient], Awaitable[None]], connections: int = 4) -> None:
    async def main() -> None:
        async with AsyncClient(lambda: Client(api.url, token=TOKEN), connections=connections) as client:
            await asyncio.wait_for(program(client), PATIENCE_SECONDS)

    asyncio.run(main())


def test_submit_and_watch(api: FakeApi) -> None:
    async def program(client: AsyncClient) -> None:
        job = await client.call(Client.submit, {"name": "train"}, idempotency_key="k")
        api.timeline[job["id"]] = [running(), ended()]
        states = [seen["state"] async for seen in client.each(watch, [job["id"]])]
        assert states == ["running", "succeeded"]
        assert await client.call(lambda own: own.job(job["id"])["name"]) == "train"

    run(api, program)
    assert [job["name"] for job in api.jobs.values()] == ["train"]


def test_it_is_signed_in_as_the_command_unless_another_client_is_given(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALLOT_URL", api.url)
    monkeypatch.setenv("ALLOT_TOKEN", TOKEN)

    async def main() -> None:
        async with AsyncClient() as client:
            assert [job async for job in client.each(Client.jobs)] == []

    asyncio.run(main())


def test_what_the_server_refuses_is_raised_and_the_client_goes_on(api: FakeApi) -> None:
    api.add(1, name="prep")

    async def program(client: AsyncClient) -> None:
        with pytest.raises(NotFound):
            await client.call(Client.job, 99)
        assert (await client.call(Client.job, 1))["name"] == "prep"

    run(api, program)


def test_calls_run_side_by_side_up_to_the_number_of_connections(api: FakeApi) -> None:
    both_run, running_now, most = threading.Barrier(2), [0], [0]
    lock = threading.Lock()

    def meet(client: Client) -> None:
        with lock:
            running_now[0] += 1
            most[0] = max(most[0], running_now[0])
        both_run.wait(PATIENCE_SECONDS)
        with lock:
            running_now[0] -= 1

    async def program(client: AsyncClient) -> None:
        # The event loop is free meanwhile: all four are asked for before the first one ends.
        await asyncio.gather(*[client.call(meet) for _ in range(4)])

    run(api, program, connections=2)
    assert most == [2]


def test_one_that_is_left_early_or_cancelled_keeps_nothing_waiting(api: FakeApi) -> None:
    for number in (1, 2, 3):
        api.add(number, name=f"job-{number}")
    is_called, may_end = threading.Event(), threading.Event()

    def wait(client: Client) -> None:
        is_called.set()
        may_end.wait(PATIENCE_SECONDS)

    async def program(client: AsyncClient) -> None:
        jobs = client.each(Client.jobs)
        assert (await anext(jobs))["name"] == "job-3"
        await jobs.aclose()
        waiting = asyncio.create_task(client.call(wait))
        await asyncio.to_thread(is_called.wait, PATIENCE_SECONDS)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        may_end.set()
        assert (await client.call(Client.job, 2))["name"] == "job-2"

    run(api, program, connections=1)
