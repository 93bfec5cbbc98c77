"""The end of a lease: what runs stands still, and goes on or is killed as the server says, not by itself."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from nodeagent.clock import boot_clock_seconds
from nodeagent.folder import write_json
from nodeagent.isolation_levels import isolation_level
from nodeagent.process import runtime, sandbox
from nodeagent.shim.cgroups import Cgroups
from nodeagent.shim.freezing import FREEZE_SECONDS, Lapse
from nodeagent.shim.main import KILL_MARGIN_SECONDS
from tests.agent.builders import everybodys_python, make_part, python, shell
from tests.agent.moved_clock import MovedClock
from tests.agent.runtime_node import LEASE_SECONDS, RuntimeNode, settled
from tests.agent.test_freezing import TICKS, is_silent, ticks
from tests.patience import until_async

#: When freezing has begun, of which a part of a second is left until everything would be killed instead.
FREEZING_BEFORE_END = KILL_MARGIN_SECONDS + FREEZE_SECONDS / 2
#: Of what is told to stop, and has no process that answers.
KILLED_BEFORE_END = KILL_MARGIN_SECONDS
GRACE_SECONDS = 20.0
IMPATIENT_SECONDS = 100.0
#: A lease that ends by itself.
REAL_SECONDS = 30.0
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
    request: pytest.FixtureRequest, clock: MovedClock, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[RuntimeNode]:
    async for node in make_node(folder, monkeypatch, *request.param):
        yield node


@pytest.fixture
async def impatient(
    clock: MovedClock, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[RuntimeNode]:
    """A node that lets jobs stand still for a while only."""
    async for node in make_node(folder, monkeypatch, "none", "signals", IMPATIENT_SECONDS):
        yield node


@pytest.fixture
async def timed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RuntimeNode]:
    """A node whose clock nobody moves, with leases that end soon."""
    async for node in make_node(folder, monkeypatch, "none", "signals"):
        node.renew_lease(REAL_SECONDS)
        yield node


async def until_it_ticks(node: RuntimeNode, lease_seconds: float = LEASE_SECONDS) -> float:
    """Start a job that ticks, also in a process that left its session; return when its lease ends."""
    ticking = python(TICKS, interpreter=everybodys_python())
    await node.start(make_part(ticking, grace_seconds=GRACE_SECONDS))
    await both_tick(node)
    return node.renew_lease(lease_seconds)


async def both_tick(node: RuntimeNode, since: float = 0.0) -> None:
    """Wait until both have ticked after that, by their own clock, which nothing moves."""
    await until_async(
        lambda: all(max(ticks(node, 1, who), default=0.0) > since for who in ("parent", "child"))
    )


async def until_frozen(node: RuntimeNode, clock: MovedClock, deadline: float = 0.0) -> float:
    """Have a job outlive its lease; return since when it stands still, by the clock of its ticks.

    The clock stops while the shim freezes it, so that this may take any time.
    """
    clock.stop_at((deadline or await until_it_ticks(node)) - FREEZING_BEFORE_END)
    await until_async(lambda: node.runtime.is_frozen(1) or node.outcomes)
    assert node.outcomes == {}
    return time.time()


async def stands_still(node: RuntimeNode, since: float) -> None:
    assert max(await settled(lambda: ticks(node, 1))) <= since


async def goes_on(node: RuntimeNode) -> float:
    """Have a new lease name it, and wait for it to tick again; return when that lease ends."""
    since, deadline = time.time(), node.renew_lease(LEASE_SECONDS, 1)
    await both_tick(node, since)
    return deadline


async def test_a_job_goes_on_where_it_was_when_the_server_still_names_it(
    clock: MovedClock, node: RuntimeNode
) -> None:
    deadline = await until_it_ticks(node)
    clock.stop_at(deadline - KILL_MARGIN_SECONDS - FREEZE_SECONDS - 0.1)
    await both_tick(node, time.time())  # It is not over yet.
    since = await until_frozen(node, clock, deadline)
    await stands_still(node, since)
    clock.stop_at(deadline - FREEZING_BEFORE_END + 1234.0)
    processes = set(node.alive(1))
    await stands_still(node, since)
    await goes_on(node)
    assert set(node.alive(1)) == processes
    assert not node.runtime.is_frozen(1)
    assert "[allotment] It stood still for 1234 s: " in node.text(1)
    assert node.outcomes == {}


async def test_what_the_server_has_given_up_is_killed_where_it_stands(
    clock: MovedClock, node: RuntimeNode
) -> None:
    since = await until_frozen(node, clock)
    # The answer makes the node's lease longer, and does not name this attempt.
    node.renew_lease()
    await stands_still(node, since)
    node.runtime.stop(1, GRACE_SECONDS)
    assert (await node.end_of(1)).category == "stopped"
    assert node.alive(1) == []
    assert "asked" not in node.text(1)
    assert max(ticks(node, 1)) <= since


async def test_what_is_named_and_to_be_stopped_has_its_grace(clock: MovedClock, node: RuntimeNode) -> None:
    await until_frozen(node, clock)
    node.renew_lease(LEASE_SECONDS, 1)
    node.runtime.stop(1, GRACE_SECONDS)
    await until_async(lambda: "asked\n" in node.text(1))
    clock.jump(GRACE_SECONDS)  # Its child, which nobody asked, is killed then.
    assert (await node.end_of(1)).category == "stopped"


async def test_an_agent_that_comes_back_meanwhile_finds_it_as_it_stands(
    clock: MovedClock, node: RuntimeNode
) -> None:
    since = await until_frozen(node, clock)
    node.restart()
    assert node.runtime.is_frozen(1)
    await stands_still(node, since)
    await goes_on(node)


async def test_it_goes_on_though_its_disk_was_full_when_it_was_frozen(
    clock: MovedClock, node: RuntimeNode
) -> None:
    deadline = await until_it_ticks(node)
    # Nothing can be written where the shim writes first what it then puts in its place.
    refused = Path(f"{node.runtime.folder(1).frozen}.{node.status()['pid']}.new")
    refused.mkdir()
    clock.stop_at(deadline - FREEZING_BEFORE_END)
    await until_async(lambda: is_silent(node))
    await stands_still(node, time.time())
    assert not node.runtime.is_frozen(1)
    refused.rmdir()
    await until_async(lambda: node.runtime.is_frozen(1))
    await goes_on(node)


async def test_it_can_stand_still_again_and_the_old_word_does_not_let_it_go_on(
    clock: MovedClock, node: RuntimeNode
) -> None:
    await until_frozen(node, clock)
    deadline = await goes_on(node)
    since = await until_frozen(node, clock, deadline)
    await stands_still(node, since)
    await goes_on(node)


async def test_a_killed_shim_takes_what_stands_still_with_it(clock: MovedClock, node: RuntimeNode) -> None:
    since = await until_frozen(node, clock)
    os.kill(node.status()["pid"], signal.SIGKILL)
    assert (await node.end_of(1)).category == "lost"
    assert node.alive(1) == []
    assert max(ticks(node, 1)) <= since


async def test_it_stands_still_for_so_long_and_no_longer(clock: MovedClock, impatient: RuntimeNode) -> None:
    deadline = await until_it_ticks(impatient)
    since = await until_frozen(impatient, clock, deadline)
    clock.stop_at(deadline + IMPATIENT_SECONDS - 0.1)
    await stands_still(impatient, since)
    assert impatient.alive(1)
    clock.stop_at(deadline + IMPATIENT_SECONDS)
    outcome = await impatient.end_of(1)
    assert (outcome.category, "lost contact" in outcome.message) == ("lost", True)
    assert impatient.alive(1) == []
    assert "asked" not in impatient.text(1)
    assert max(ticks(impatient, 1)) <= since


async def test_what_somebody_else_lets_go_on_is_stopped_again(clock: MovedClock, node: RuntimeNode) -> None:
    await until_frozen(node, clock)
    for pid in node.alive(1):
        os.kill(pid, signal.SIGCONT)
    await until_async(lambda: is_silent(node))
    await stands_still(node, time.time())
    assert node.outcomes == {}


async def test_without_an_agent_it_may_save_its_work_and_is_dead_by_the_deadline(
    clock: MovedClock, node: RuntimeNode
) -> None:
    deadline = await until_it_ticks(node)
    write_json(node.runtime.agent, {"pid": 2**22 + 1, "identity": "a process that ended"})
    clock.stop_at(deadline - KILLED_BEFORE_END - GRACE_SECONDS)
    await until_async(lambda: "asked\n" in node.text(1))
    assert node.outcomes == {}, "its child was not asked, and still runs"
    clock.stop_at(deadline - KILLED_BEFORE_END)
    assert (await node.end_of(1)).category == "lost"
    assert boot_clock_seconds() < deadline
    assert node.alive(1) == []


async def test_one_that_is_being_stopped_is_not_frozen_but_dead_by_the_deadline(
    clock: MovedClock, node: RuntimeNode
) -> None:
    await node.start(make_part(shell("trap '' TERM; while :; do echo deaf; sleep 0.05; done")))
    await node.line("deaf")
    deadline = node.renew_lease()
    node.runtime.stop(1, 2 * LEASE_SECONDS)
    clock.stop_at(deadline - KILLED_BEFORE_END - 0.1)
    size = len(node.text(1))
    await until_async(lambda: len(node.text(1)) > size + 20)
    clock.stop_at(deadline - KILLED_BEFORE_END)
    assert (await node.end_of(1)).category == "stopped"
    assert boot_clock_seconds() < deadline
    assert node.alive(1) == []


@pytest.mark.clock
async def test_the_end_of_a_lease_in_real_time(timed: RuntimeNode) -> None:
    """One attempt is frozen before the lease ends, and one that is being stopped is dead by then."""
    deaf = shell("trap '' TERM; while :; do echo deaf $(date +%s.%N); sleep 0.05; done")
    await timed.start(make_part(deaf, attempt=2, grace_seconds=600.0))
    await timed.line("deaf", 2)
    ends_at = await until_it_ticks(timed, REAL_SECONDS) + time.time() - boot_clock_seconds()
    timed.runtime.stop(2, 600.0)
    assert (await timed.end_of(2)).category == "stopped"
    said = [float(line.split()[1]) for line in timed.text(2).splitlines() if line.count(".") == 1]
    assert ends_at - 10.0 < max(said) <= ends_at
    await until_async(lambda: timed.runtime.is_frozen(1))
    await stands_still(timed, ends_at)
    assert max(ticks(timed, 1)) > ends_at - 10.0
    await goes_on(timed)


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
