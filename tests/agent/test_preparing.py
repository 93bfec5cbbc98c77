"""Preparing and starting may hang or fail in unforeseen ways: that costs no other attempt, and ends."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from nodeagent.agent import Agent
from nodeagent.machine import DesiredReceived, Phase
from nodeagent.messages import DesiredPart, DesiredState
from nodeagent.process import preparing, runtime
from nodeagent.process.users import make_folder
from nodeagent.threads import in_own_thread
from tests.agent.builders import make_configuration, make_part, make_replica, python, shell
from tests.agent.fake_server import FakeServer
from tests.agent.runtime_node import RuntimeNode, is_alive
from tests.agent.test_agent import NODE, StartAgent, server, start_agent  # noqa: F401 - fixtures
from tests.agent.test_process import IGNORES_TERM
from tests.patience import PATIENCE_SECONDS, until, until_async


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[RuntimeNode]:
    node = RuntimeNode(tmp_path, sandbox="off", users=None)
    yield node
    await node.clean_up()


class HangingDisk:
    """A checkpoint folder that does not answer until it is let go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers = threading.Event()
        self.asked = 0

        def hang(path: str, owner: int) -> None:
            if "checkpoints" in path:
                self.asked += 1
                self.answers.wait(PATIENCE_SECONDS)
            make_folder(path, owner)

        monkeypatch.setattr(preparing, "make_folder", hang)


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[HangingDisk]:
    disk = HangingDisk(monkeypatch)
    yield disk
    disk.answers.set()


async def test_what_is_not_wanted_any_more_is_given_up_and_leaves_nothing(
    node: RuntimeNode, hanging: HangingDisk
) -> None:
    node.runtime.prepare(make_part(shell("true")))
    await until_async(lambda: hanging.asked)
    assert node.runtime.release(1)
    assert not node.runtime.release(1)
    node.runtime.forget(1)
    hanging.answers.set()
    await until_async(lambda: node.runtime.preparer.at_work == 0)
    await asyncio.gather(*node.runtime.tasks)
    assert [*node.runtime.attempts.iterdir()] == []
    assert node.ports.keys() == node.outcomes.keys() == set()


async def test_what_is_given_up_is_removed_though_other_calls_hang(
    node: RuntimeNode, hanging: HangingDisk
) -> None:
    released = threading.Event()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(max_workers=1))
    other = asyncio.create_task(asyncio.to_thread(released.wait))
    node.runtime.prepare(make_part(shell("true")))
    await until_async(lambda: hanging.asked)
    node.runtime.release(1)
    hanging.answers.set()
    try:
        await until_async(lambda: [*node.runtime.attempts.iterdir()] == [])
    finally:
        released.set()
        await other


async def test_what_takes_too_long_is_lost(
    node: RuntimeNode, hanging: HangingDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparing, "UNPACK_SECONDS", 0.05)
    node.runtime.prepare(make_part(shell("true")))
    outcome = await node.end_of(1)
    assert (outcome.category, outcome.exit_code) == ("lost", None)
    assert outcome.message.endswith("it took over 0.05 s; the checkpoint folder may hang.")


async def test_many_that_hang_keep_others_from_nothing_but_preparing(
    node: RuntimeNode, hanging: HangingDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparing, "MOST_AT_ONCE", 40)
    for attempt in range(1, 42):
        node.runtime.prepare(make_part(shell("true"), attempt=attempt))
    outcome = await node.end_of(41)
    assert "it still prepares 40 others" in outcome.message
    await until_async(lambda: hanging.asked == 40)
    # More than asyncio has threads for everything together.
    assert await asyncio.to_thread(lambda: "answered") == "answered"
    assert node.outcomes.keys() == {41}


async def test_a_bug_in_preparing_or_starting_ends_the_attempt(
    node: RuntimeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    with monkeypatch.context() as patched:
        patched.setattr(node.runtime, "_shim_spec", breaks)
        outcome = await node.run(make_part(shell("true"), attempt=1))
        assert (outcome.category, outcome.message) == (
            "start_failed",
            "The node could not start the attempt: a bug",
        )
    monkeypatch.setattr(preparing, "make_folder", breaks)
    outcome = await node.run(make_part(shell("true"), attempt=2))
    assert outcome.category == "start_failed"
    assert "could not prepare the attempt: ZeroDivisionError('a bug')" in outcome.message


async def test_a_shim_that_hears_no_stop_is_killed(
    node: RuntimeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "HANGING_SECONDS", 0.05)
    await node.start(make_part(python(IGNORES_TERM)))
    pid = await node.pid("pid")
    os.kill(node.status()["pid"], signal.SIGSTOP)
    node.runtime.stop(1, 0.0)
    await node.end_of()
    assert not is_alive(pid)


async def test_an_instruction_that_fails_costs_no_other_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Agent(make_configuration(tmp_path))
    prepared: list[int] = []

    def prepare(desired: DesiredPart, code: Any = None) -> None:
        if desired.attempt == 1:
            raise ZeroDivisionError
        prepared.append(desired.attempt)

    monkeypatch.setattr(agent.runtime, "prepare", prepare)
    parts = [make_part(make_replica("true", gpu_indexes=(index,)), attempt=index + 1) for index in range(2)]
    desired = DesiredState(generation=1, lease_seconds=10.0, report_seconds=1.0, parts=tuple(parts))
    agent.post(DesiredReceived(desired=desired, sent_at=0.0))
    assert prepared == [2]
    assert {part.phase for part in agent.state.parts.values()} == {Phase.PREPARING}
    agent.runtime.close()
    await agent.client.close()
    os.close(agent.lock)


async def test_an_attempt_that_cannot_be_prepared_can_be_stopped_and_its_agent_ended(
    server: FakeServer,  # noqa: F811
    start_agent: StartAgent,  # noqa: F811
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root's agent asks for users in the checkpoint folder")
    agent = await start_agent()
    folder = Path(agent.configuration.checkpoint_folder)
    folder.mkdir(exist_ok=True)
    with (folder / ".users.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        part = make_part(shell("true"))
        await server.want(NODE, part)
        await server.until_state(NODE, 1, "preparing")
        await server.want(NODE, make_part(shell("true"), stop=True))
        assert (await server.until_state(NODE, 1, "exited")).category == "stopped"
        async with asyncio.timeout(PATIENCE_SECONDS):
            await agent.end(signal.SIGTERM)


async def test_a_call_in_a_thread_answers_or_raises_as_it_does() -> None:
    assert await in_own_thread("add", lambda: 1 + 1) == 2
    with pytest.raises(ZeroDivisionError):
        await in_own_thread("divide", lambda: 1 // 0)


def test_a_program_ends_while_a_call_hangs() -> None:
    go_on = threading.Event()

    async def give_up() -> None:
        call = asyncio.create_task(in_own_thread("hang", go_on.wait))
        await until_async(lambda: any(thread.name == "hang" for thread in threading.enumerate()))
        call.cancel()

    asyncio.run(give_up())
    go_on.set()
    until(lambda: not any(thread.name == "hang" for thread in threading.enumerate()))
