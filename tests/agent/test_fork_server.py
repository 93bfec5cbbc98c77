"""Shims are forked by a process that has loaded them: they outlive it, and it is replaced when it is lost."""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from nodeagent.process import shim_process
from tests.agent.builders import make_part, shell
from tests.agent.runtime_node import RuntimeNode, is_alive
from tests.patience import until_async

WAITS = shell("until [ -e end ]; do sleep 0.01; done; echo done")


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[RuntimeNode]:
    node = RuntimeNode(tmp_path)
    yield node
    await node.clean_up()
    node.runtime.close()


def shim_of(node: RuntimeNode, attempt: int = 1) -> psutil.Process:
    return psutil.Process(node.status(attempt)["pid"])


async def ends_well(node: RuntimeNode, attempt: int = 1) -> bool:
    Path(node.runtime.folder(attempt).work(0), "end").touch()
    return (await node.end_of(attempt)).exit_code == 0 and node.text(attempt) == "done\n"


async def test_one_process_forks_the_shims_of_all_attempts(node: RuntimeNode) -> None:
    await node.start(make_part(WAITS, attempt=1))
    await node.start(make_part(WAITS, attempt=2))
    assert shim_of(node, 1).ppid() == shim_of(node, 2).ppid()
    assert await ends_well(node, 1)
    assert await ends_well(node, 2)


async def test_a_shim_says_which_attempt_is_its_own(node: RuntimeNode) -> None:
    await node.start(make_part(WAITS))
    assert node.runtime.folder(1).path in shim_of(node).cmdline()


def descriptors(pid: int) -> set[str]:
    """Return what a process has open; it may close some while they are read."""
    found = set()
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found.add(os.readlink(path))
    return found


async def test_a_shim_has_a_session_and_no_descriptor_of_another(node: RuntimeNode) -> None:
    await node.start(make_part(WAITS, attempt=1))
    await node.start(make_part(WAITS, attempt=2))
    shim = shim_of(node, 2)
    assert os.getsid(shim.pid) == shim.pid
    open_files = descriptors(shim.pid)
    others = node.runtime.folder(1).path
    assert open_files
    assert not [path for path in open_files if path.startswith(others)]
    assert not {path for path in open_files if path.startswith("socket:")} & descriptors(shim.ppid())


async def test_a_server_that_was_killed_is_replaced_and_its_shims_go_on(node: RuntimeNode) -> None:
    await node.start(make_part(WAITS, attempt=1))
    server = shim_of(node, 1).ppid()
    os.kill(server, signal.SIGKILL)
    await until_async(lambda: not is_alive(server))
    await node.start(make_part(WAITS, attempt=2))
    assert shim_of(node, 2).ppid() != server
    assert await ends_well(node, 1)
    assert await ends_well(node, 2)


async def test_a_server_that_hangs_is_replaced(node: RuntimeNode) -> None:
    await node.start(make_part(WAITS, attempt=1))
    server = shim_of(node, 1).ppid()
    os.kill(server, signal.SIGSTOP)
    assert node.runtime.starter.connection is not None
    node.runtime.starter.connection.setblocking(False)  # Its time is over at once.
    await node.start(make_part(WAITS, attempt=2))
    assert not is_alive(server)
    assert await ends_well(node, 1)
    assert await ends_well(node, 2)


async def test_without_its_agent_it_ends_and_shims_go_on(node: RuntimeNode) -> None:
    await node.start(make_part(WAITS))
    server = shim_of(node).ppid()
    assert node.runtime.starter.connection is not None
    node.runtime.starter.connection.close()  # As the kernel does when the agent is killed.
    await until_async(lambda: not is_alive(server))
    node.restart()
    assert await ends_well(node)


async def test_where_it_cannot_be_started_the_attempt_says_why(
    node: RuntimeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shim_process, "FORK_SERVER", "raise SystemExit(1)")
    outcome = await node.run(make_part(WAITS))
    assert "could not start the attempt: the process that starts shims does not answer" in outcome.message
