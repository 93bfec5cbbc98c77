"""The end of a lease: what runs stands still, and goes on or is killed as the server says, not by itself."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from nodeagent.folder import write_json
from nodeagent.messages import isolation_level
from nodeagent.process import runtime, sandbox
from nodeagent.procfs import boot_clock_seconds, is_stopped
from nodeagent.shim.cgroups import Cgroups
from nodeagent.shim.freezing import LOOK_SECONDS, Lapse
from nodeagent.shim.main import SHORT_SECONDS
from tests.agent.builders import everybodys_python, make_part, python, shell
from tests.agent.runtime_node import RuntimeNode, until
from tests.agent.test_freezing import TICKS, ticks

#: Little more than the time for freezing and killing, which is taken off its end.
LEASE_SECONDS = 2.5
#: Long enough for many ticks of something that runs.
MOMENT_SECONDS = 0.5
#: Each way of freezing every day, with most and with least around the job; the others are slow.
LEVELS_AND_WAYS = [
    ("sandbox", "groups"),
    ("none", "signals"),
    pytest.param(("sandbox", "signals"), marks=pytest.mark.slow),
    pytest.param(("landlock", "groups"), marks=pytest.mark.slow),
    pytest.param(("landlock", "signals"), marks=pytest.mark.slow),
]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder to which every user gets, unlike pytest's."""
    with tempfile.TemporaryDirectory(prefix="allotment-lapse-") as name:
        os.chmod(name, 0o711)
        yield Path(name)


async def make_node(
    folder: Path, monkeypatch: pytest.MonkeyPatch, level: str, way: str, freeze_seconds: float = 3600.0
) -> AsyncIterator[RuntimeNode]:
    if level == "landlock":
        monkeypatch.setattr(sandbox, "bubblewraps", lambda: [])
    if way == "signals":
        monkeypatch.setattr(runtime, "find_cgroups", lambda _: Cgroups(is_unified=False, folders={}))
    node = RuntimeNode(
        folder, sandbox="off" if level == "none" else "required", freeze_seconds=freeze_seconds
    )
    if isolation_level(node.runtime.isolation) != level:
        pytest.skip(node.runtime.isolated.warning())
    groups = node.runtime.cgroups
    if way == "groups" and not groups.is_unified and "freezer" not in groups.folders:
        pytest.skip("no control groups that freeze")
    yield node
    await node.clean_up()


@pytest.fixture(params=LEVELS_AND_WAYS, ids="-".join)
async def node(
    request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[RuntimeNode]:
    async for node in make_node(folder, monkeypatch, *request.param):
        yield node


@pytest.fixture
async def impatient(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RuntimeNode]:
    """A node that lets jobs stand still for a moment only."""
    async for node in make_node(folder, monkeypatch, "none", "signals", freeze_seconds=0.5):
        yield node


async def until_it_ticks(node: RuntimeNode) -> float:
    """Start a job that ticks, also in a process that left its session; return when its lease ends.

    However long it takes to start, a whole lease is left of it then.
    """
    return await node.start_leased(
        make_part(python(TICKS, interpreter=everybodys_python()), grace_seconds=20.0),
        LEASE_SECONDS,
        lambda: all(ticks(node, 1, who) for who in ("parent", "child")),
    )


async def until_frozen(node: RuntimeNode) -> float:
    """Have a job outlive its lease; return since when it stands still, by the clock of its ticks."""
    deadline = await until_it_ticks(node)
    await until(lambda: node.runtime.is_frozen(1) or node.outcomes)
    since = time.time()
    assert node.outcomes == {}
    assert boot_clock_seconds() < deadline
    return since


async def stands_still(node: RuntimeNode, since: float) -> None:
    """Wait a moment; what the job wrote before may still be on its way to the file."""
    await asyncio.sleep(MOMENT_SECONDS)
    assert max(ticks(node, 1)) <= since


async def goes_on(node: RuntimeNode, since: float, lease_seconds: float = 60.0) -> None:
    """Have a new lease name it, and wait for it to tick again."""
    await node.leased_until(
        lease_seconds,
        lambda: all(max(ticks(node, 1, who)) > since for who in ("parent", "child")),
        1,
    )


def by_the_clock_of_ticks(deadline: float) -> float:
    return time.time() + deadline - boot_clock_seconds()


async def test_a_job_goes_on_where_it_was_when_the_server_still_names_it(node: RuntimeNode) -> None:
    since = await until_frozen(node)
    await stands_still(node, since)
    # For long enough to be worth a word.
    await until(lambda: time.time() > since + SHORT_SECONDS)
    processes = set(node.alive(1))
    await goes_on(node, since)
    assert set(node.alive(1)) == processes
    assert not node.runtime.is_frozen(1)
    assert "[allotment] It stood still for " in node.text(1)
    assert node.outcomes == {}


async def test_what_the_server_has_given_up_is_killed_where_it_stands(node: RuntimeNode) -> None:
    since = await until_frozen(node)
    # The answer makes the node's lease longer, and does not name this attempt.
    node.renew_lease(60.0)
    await stands_still(node, since)
    node.runtime.stop(1, 20.0)
    assert (await node.end_of(1)).category == "stopped"
    assert node.alive(1) == []
    assert "asked" not in node.text(1)
    assert max(ticks(node, 1)) <= since


async def test_what_is_named_and_to_be_stopped_has_its_grace(node: RuntimeNode) -> None:
    await until_frozen(node)
    node.renew_lease(60.0, 1)
    node.runtime.stop(1, 1.0)
    assert (await node.end_of(1)).category == "stopped"
    assert "asked\n" in node.text(1)


async def test_an_agent_that_comes_back_meanwhile_finds_it_as_it_stands(node: RuntimeNode) -> None:
    since = await until_frozen(node)
    node.restart()
    assert node.runtime.is_frozen(1)
    await stands_still(node, since)
    await goes_on(node, since)


async def test_it_goes_on_though_its_disk_was_full_when_it_was_frozen(node: RuntimeNode) -> None:
    deadline = await until_it_ticks(node)
    # Nothing can be written where the shim writes first what it then puts in its place.
    refused = Path(f"{node.runtime.folder(1).frozen}.{node.status()['pid']}.new")
    refused.mkdir()
    await until(lambda: boot_clock_seconds() > deadline)
    await stands_still(node, since := time.time())
    assert not node.runtime.is_frozen(1)
    refused.rmdir()
    await until(lambda: node.runtime.is_frozen(1))
    await goes_on(node, since)


async def test_it_can_stand_still_again_and_the_old_word_does_not_let_it_go_on(node: RuntimeNode) -> None:
    since = await until_frozen(node)
    await goes_on(node, since, LEASE_SECONDS)
    await until(lambda: node.runtime.is_frozen(1) or node.outcomes)
    await stands_still(node, since := time.time())
    await goes_on(node, since)


async def test_a_killed_shim_takes_what_stands_still_with_it(node: RuntimeNode) -> None:
    since = await until_frozen(node)
    os.kill(node.status()["pid"], signal.SIGKILL)
    assert (await node.end_of(1)).category == "lost"
    assert node.alive(1) == []
    assert max(ticks(node, 1)) <= since


async def test_it_stands_still_for_so_long_and_no_longer(impatient: RuntimeNode) -> None:
    since = await until_frozen(impatient)
    outcome = await impatient.end_of(1)
    assert (outcome.category, "lost contact" in outcome.message) == ("lost", True)
    assert impatient.alive(1) == []
    assert "asked" not in impatient.text(1)
    assert max(ticks(impatient, 1)) <= since


async def test_what_somebody_else_lets_go_on_is_stopped_again(node: RuntimeNode) -> None:
    await until_frozen(node)
    for pid in node.alive(1):
        os.kill(pid, signal.SIGCONT)
    await asyncio.sleep(LOOK_SECONDS)
    if not node.runtime.cgroups.folders:
        await until(lambda: all(map(is_stopped, node.alive(1))))
    await stands_still(node, time.time())
    assert node.outcomes == {}


async def test_without_an_agent_it_may_save_its_work_and_is_dead_by_the_deadline(node: RuntimeNode) -> None:
    deadline = by_the_clock_of_ticks(await until_it_ticks(node))
    write_json(node.runtime.agent, {"pid": 2**22 + 1, "identity": "a process that ended"})
    assert (await node.end_of(1)).category == "lost"
    assert max(ticks(node, 1)) <= deadline
    assert "asked\n" in node.text(1)


async def test_one_that_is_being_stopped_is_not_frozen_but_dead_by_the_deadline(node: RuntimeNode) -> None:
    part = make_part(shell("trap '' TERM; while :; do echo deaf $(date +%s.%N); sleep 0.05; done"))
    leased = await node.start_leased(part, LEASE_SECONDS, lambda: "deaf" in node.text(1))
    deadline = by_the_clock_of_ticks(leased)
    node.runtime.stop(1, 60.0)
    assert (await node.end_of(1)).category == "stopped"
    assert max(float(at) for at in re.findall(r"deaf (\S+)\n", node.text(1))) <= deadline


async def test_what_an_earlier_version_wrote_down_is_stopped_with_its_grace(
    impatient: RuntimeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_freezing(path: str, value: dict[str, object]) -> None:
        write_json(path, {key: value[key] for key in value if key not in ("freeze_seconds", "agent")})

    node = impatient
    await node.prepare(make_part(python(TICKS, interpreter=everybodys_python())))
    node.renew_lease(LEASE_SECONDS)
    monkeypatch.setattr(runtime, "write_json", without_freezing)
    node.runtime.start(make_part(python(TICKS, interpreter=everybodys_python())))
    monkeypatch.undo()
    await node.leased_until(LEASE_SECONDS, lambda: ticks(node, 1))
    assert (await node.end_of(1)).category == "lost"
    assert "asked\n" in node.text(1)


def test_only_a_newer_lease_that_names_it_lets_it_go_on() -> None:
    lapse = Lapse(deadline=100.0, complete_by=99.5, until=160.0, now=99.0)
    assert not lapse.is_over(0.0, 120.0, 1.5)  # Nobody named it.
    assert not lapse.is_over(100.0, 99.2, 1.5)  # The lease that ended.
    assert not lapse.is_over(121.0, 120.0, 1.5)  # About to end too: it was read late.
    assert lapse.is_over(150.0, 120.0, 1.5)


def test_what_can_not_be_frozen_in_time_is_killed() -> None:
    lapse = Lapse(deadline=100.0, complete_by=99.5, until=160.0, now=99.0)
    lapse.looked(99.1, is_complete=False)
    assert [lapse.must_end(at) for at in (99.4, 99.5)] == [False, True]
    lapse.looked(99.4, is_complete=True)
    assert [lapse.must_end(at) for at in (99.5, 159.9, 160.0)] == [False, False, True]
    lapse.looked(120.0, is_complete=False)  # Somebody thawed a process, which does not stop any more.
    assert [lapse.must_end(at) for at in (120.5, 121.0)] == [False, True]
