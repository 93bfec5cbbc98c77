"""Whose turn it is: callers take turns for the threads of a lane, and none takes them all."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from controlplane.lanes import Caller, Callers, Lane, TooMany

LOUD, QUIET, THIRD = Caller("user 1", (1,)), Caller("user 2", (2,)), Caller("user 3", (1,))


def lane(*, threads: int = 4, per_caller: int = 2, waiting: int = 10, **more) -> Lane:
    return Lane("test", threads=threads, per_caller=per_caller, waiting=waiting, **more)


class Requests:
    """Requests that are under way until they are told to end."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.under_way: list[str] = []
        self.ends: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    def begin(self, caller: Caller, name: str) -> None:
        self.ends[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._run(caller, name))

    async def _run(self, caller: Caller, name: str) -> None:
        async with self.lane.turn(caller):
            self.under_way.append(name)
            await self.ends[name].wait()
            self.under_way.remove(name)

    async def end(self, name: str) -> None:
        self.ends[name].set()
        await self.tasks[name]
        await settled()


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_nobody_has_more_than_his_part_of_the_threads():
    requests = Requests(lane(threads=4, per_caller=2))
    for number in range(5):
        requests.begin(LOUD, f"loud {number}")
    await settled()
    assert requests.under_way == ["loud 0", "loud 1"]
    requests.begin(QUIET, "quiet")
    await settled()
    assert requests.under_way == ["loud 0", "loud 1", "quiet"]


async def test_a_thread_that_becomes_free_goes_to_who_has_waited_for_a_turn_and_not_to_who_asks_most():
    requests = Requests(lane(threads=1, per_caller=1))
    for number in range(4):
        requests.begin(LOUD, f"loud {number}")
    await settled()
    requests.begin(QUIET, "quiet 0")
    requests.begin(QUIET, "quiet 1")
    order = []
    while requests.under_way or any(not task.done() for task in requests.tasks.values()):
        await settled()
        order += requests.under_way
        await requests.end(requests.under_way[0])
    assert order == ["loud 0", "loud 1", "quiet 0", "loud 2", "quiet 1", "loud 3"]


async def test_users_of_a_tenant_share_its_part():
    requests = Requests(lane(threads=4, per_caller=2, per_tenant=3))
    for number in range(2):
        requests.begin(LOUD, f"loud {number}")
        requests.begin(THIRD, f"third {number}")
    requests.begin(QUIET, "quiet")
    await settled()
    assert sorted(requests.under_way) == ["loud 0", "loud 1", "quiet", "third 0"]
    await requests.end("loud 0")
    assert "third 1" in requests.under_way


async def test_who_is_in_several_tenants_counts_for_the_one_that_has_room():
    both = Caller("user 4", (1, 2))
    requests = Requests(lane(threads=4, per_caller=2, per_tenant=1))
    requests.begin(LOUD, "loud")
    requests.begin(both, "both")
    await settled()
    assert requests.under_way == ["loud", "both"]


async def test_who_has_too_many_waiting_is_told_how_long_to_wait():
    crowded = lane(threads=2, per_caller=1, waiting=1)
    requests = Requests(crowded)
    requests.begin(LOUD, "first")
    requests.begin(LOUD, "second")
    await settled()
    with pytest.raises(TooMany) as caught:
        async with crowded.turn(LOUD):
            pass
    assert dict(caught.value.headers()) == {
        b"retry-after": b"1",
        b"ratelimit-policy": b'"test-of-user";q=1;qu="concurrent-requests"',
        b"ratelimit": b'"test-of-user";r=0;t=1',
    }
    async with crowded.turn(QUIET):
        pass
    await requests.end("first")
    assert requests.under_way == ["second"]


async def test_who_waits_too_long_is_told_that_it_is_his_tenants_doing():
    crowded = lane(threads=4, per_caller=2, per_tenant=1, wait_seconds=0.01)
    async with crowded.turn(LOUD):
        with pytest.raises(TooMany) as caught:
            async with crowded.turn(THIRD):
                pass
    assert caught.value.policy == "test-of-tenant"
    async with crowded.turn(THIRD):
        pass


async def test_who_leaves_while_he_waits_takes_no_turn():
    narrow = lane(threads=1, per_caller=1)
    requests = Requests(narrow)
    requests.begin(LOUD, "first")
    requests.begin(QUIET, "gone")
    requests.begin(THIRD, "third")
    await settled()
    requests.tasks["gone"].cancel()
    await settled()
    await requests.end("first")
    assert requests.under_way == ["third"]


async def test_a_turn_that_comes_as_its_caller_leaves_goes_to_the_next():
    narrow = lane(threads=1, per_caller=1)
    requests = Requests(narrow)
    async with narrow.turn(LOUD):
        requests.begin(QUIET, "gone")
        requests.begin(THIRD, "third")
        await settled()
    # In the same step of the event loop in which the turn was handed over.
    requests.tasks["gone"].cancel()
    await settled()
    assert requests.under_way == ["third"]


async def test_what_streams_gives_its_thread_back_and_still_counts():
    narrow = lane(threads=1, per_caller=1, wait_seconds=0.01)
    async with AsyncExitStack() as stack:
        turn = await stack.enter_async_context(narrow.turn(LOUD))
        turn.give_thread_back()
        async with narrow.turn(QUIET):
            pass
        with pytest.raises(TooMany):
            async with narrow.turn(LOUD):
                pass
    async with narrow.turn(LOUD):
        pass


def scope(address: str, **headers: str) -> dict:
    return {"client": (address, 1), "headers": [(k.encode(), v.encode()) for k, v in headers.items()]}


def test_callers_are_known_by_what_they_were_seen_to_sign_in_with():
    now = 1000.0
    callers = Callers(clock=lambda: now)
    by_token, by_session = (
        scope("10.0.0.1", authorization="Bearer alt_x"),
        scope("10.0.0.1", cookie="allot_session=s; y=1"),
    )
    assert callers.of(by_token).name == callers.of(by_session).name == "address 10.0.0.1"
    callers.learn(by_token, LOUD)
    callers.learn(by_session, QUIET)
    callers.learn(scope("10.0.0.1"), THIRD)
    assert callers.of(by_token) is LOUD
    assert callers.of(by_session) is QUIET
    assert callers.of(scope("10.0.0.1", authorization="Bearer alt_y")).name == "address 10.0.0.1"
    assert callers.of(scope("10.0.0.1")).name == "address 10.0.0.1"
    now += 61
    assert callers.of(by_token).name == "address 10.0.0.1"
