"""Attempts that share GPUs one at a time: they take turns, frozen in place in those of others."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.clock import boot_clock_seconds, wall_clock_seconds
from nodeagent.machine import ALIVE, DesiredReceived, Part, Phase, State, TakeTurns, step
from nodeagent.messages import DesiredPart, DesiredState, Turn
from nodeagent.process import runtime
from nodeagent.procfs import is_stopped
from nodeagent.shim.cgroups import Cgroups
from nodeagent.shim.freezing import Turns
from nodeagent.shim.main import KILL_MARGIN_SECONDS
from tests.agent.builders import make_part, python
from tests.agent.moved_clock import MovedClock
from tests.agent.runtime_node import RuntimeNode, settled
from tests.patience import until_async

#: Longer than any test takes: a turn ends when a test moves the clock.
SECONDS = 1000.0
#: Of turns that end by themselves; and how long a process may go on in another's.
REAL_SECONDS = 4.0
LATE_SECONDS = 0.75 * REAL_SECONDS
GRACE_SECONDS = 20.0
#: Ticks in a child as well, that left the session.
TICKS = r"""
import os, signal, time
signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b"asked\n"), os._exit(0)))
print("pid", os.getpid(), flush=True)
who = "child" if os.fork() == 0 else "parent"
if who == "child": os.setsid()
while True:
    os.write(1, f"{who} {time.time()}\n".encode())
    time.sleep(0.01)
"""
#: Nobody's turn for as long as any test runs: a turn of years, which is not this one's.
FROZEN = Turn(index=1 - int(time.time() // 1e9) % 2, count=2, seconds=1e9)


@pytest.fixture(params=["groups", "signals"])
async def node(
    request: pytest.FixtureRequest, node: RuntimeNode, monkeypatch: pytest.MonkeyPatch
) -> RuntimeNode:
    if request.param == "signals":
        nothing = Cgroups(is_unified=False, folders={})
        node.runtime.cgroups = nothing
        monkeypatch.setattr(runtime, "find_cgroups", lambda _: nothing)
    elif not node.runtime.cgroups.is_unified and "freezer" not in node.runtime.cgroups.folders:
        pytest.skip("no control groups that freeze")
    return node


def ticking(attempt: int, turn: Turn | None) -> DesiredPart:
    return replace(make_part(python(TICKS), attempt=attempt, grace_seconds=GRACE_SECONDS), turn=turn)


def ticks(node: RuntimeNode, attempt: int, who: str = "") -> list[float]:
    lines = [line.split() for line in node.text(attempt).splitlines(keepends=True) if line.endswith("\n")]
    return [
        float(words[1]) for words in lines if words and words[0] in {"parent", "child"} & {who or words[0]}
    ]


async def both_tick(node: RuntimeNode, attempt: int, since: float = 0.0) -> None:
    """Wait until both have ticked after that, by their own clock, which nothing moves."""
    await until_async(
        lambda: all(max(ticks(node, attempt, who), default=0.0) > since for who in ("parent", "child"))
    )


async def stands_still(node: RuntimeNode, attempt: int) -> None:
    """Wait until an attempt is frozen, and see that it then does nothing."""
    await until_async(lambda: is_silent(node, attempt))
    since = time.time()
    assert max(await settled(lambda: ticks(node, attempt)), default=0.0) <= since


async def start_and_freeze(node: RuntimeNode) -> None:
    await node.start(ticking(1, None))
    await both_tick(node, 1)
    node.runtime.take_turns(1, FROZEN)
    await until_async(lambda: is_silent(node))


def is_silent(node: RuntimeNode, attempt: int = 1) -> bool:
    """Whether nothing of the attempt can do anything."""
    group = node.runtime.cgroups.group(f"attempt-{attempt}-rank-0")
    if "freezer" in group.paths:
        return Path(group.paths["freezer"], "freezer.state").read_text() == "FROZEN\n"
    if group.paths:
        return "frozen 1\n" in Path(group.paths["pids"], "cgroup.events").read_text()
    return all(map(is_stopped, node.alive(attempt)))


async def test_two_take_turns_and_never_run_together(clock: MovedClock, node: RuntimeNode) -> None:
    # The first one's turn begins.
    turn_at = boot_clock_seconds() - wall_clock_seconds() % (2 * SECONDS) + 2 * SECONDS
    clock.stop_at(turn_at)
    node.renew_lease(10 * SECONDS)
    for attempt in (1, 2):
        await node.start(ticking(attempt, Turn(index=attempt - 1, count=2, seconds=SECONDS)))
    for turn in range(3):
        on, off = (1, 2) if turn % 2 == 0 else (2, 1)
        clock.stop_at(turn_at + turn * SECONDS + 0.1)
        await stands_still(node, off)
        await both_tick(node, on, time.time())
        # To its very end.
        clock.stop_at(turn_at + (turn + 1) * SECONDS - 0.1)
        await stands_still(node, off)
        await both_tick(node, on, time.time())
    node.runtime.take_turns(2, None)  # The other has ended, say: from now on it runs all the time.
    await both_tick(node, 2, time.time())
    await both_tick(node, 1, time.time())


@pytest.mark.parametrize("node", ["signals"], indirect=True)
async def test_what_goes_on_in_the_turn_of_another_is_stopped_again(node: RuntimeNode) -> None:
    """Made while the others were stopped, or let go on by another process of its user."""
    await start_and_freeze(node)
    for pid in node.alive():
        os.kill(pid, signal.SIGCONT)
    await stands_still(node, 1)


@pytest.mark.clock
@pytest.mark.parametrize("node", ["signals"], indirect=True)
async def test_turns_change_in_real_time(node: RuntimeNode) -> None:
    for attempt in (1, 2):
        await node.start(ticking(attempt, Turn(index=attempt - 1, count=2, seconds=REAL_SECONDS)))
    for attempt in (1, 2):
        turns = Turns(attempt - 1, 2, REAL_SECONDS)

        def had_turns(attempt: int = attempt) -> bool:
            return all(
                len({at // REAL_SECONDS for at in ticks(node, attempt, who)}) >= 2
                for who in ("parent", "child")
            )

        await until_async(had_turns)
        strays = [at for at in ticks(node, attempt) if not turns.is_on(at)]
        assert max([at % REAL_SECONDS for at in strays], default=0.0) < LATE_SECONDS


async def test_what_is_frozen_is_asked_to_end_and_does(clock: MovedClock, node: RuntimeNode) -> None:
    await start_and_freeze(node)
    node.runtime.stop(1, GRACE_SECONDS)
    await until_async(lambda: "asked\n" in node.text(1))
    clock.jump(GRACE_SECONDS)  # Nobody asks the child, which left the session.
    outcome = await node.end_of(1)
    assert (outcome.exit_code, outcome.category) == (0, "stopped")


async def test_the_lease_ends_what_is_frozen(clock: MovedClock, node: RuntimeNode) -> None:
    node.runtime.configuration = replace(node.configuration, freeze_seconds=0.0)
    await start_and_freeze(node)
    deadline = node.renew_lease()
    clock.stop_at(deadline - KILL_MARGIN_SECONDS - GRACE_SECONDS)
    await until_async(lambda: "asked\n" in node.text(1))
    assert node.outcomes == {}
    clock.stop_at(deadline - KILL_MARGIN_SECONDS)
    assert (await node.end_of(1)).category == "lost"
    assert boot_clock_seconds() < deadline
    assert node.alive(1) == []


async def test_an_agent_that_comes_back_finds_it_frozen_and_can_let_it_go_on(node: RuntimeNode) -> None:
    await start_and_freeze(node)
    (adopted,) = node.restart()
    assert adopted.part.desired.turn == FROZEN
    await stands_still(node, 1)
    node.runtime.take_turns(1, None)
    await both_tick(node, 1, time.time())


def test_turns_follow_from_the_clock_and_every_instant_is_somebodys() -> None:
    all_turns = [Turns(index, 3, 60.0) for index in range(3)]
    assert [
        [turns.is_on(at) for turns in all_turns].index(True) for at in (0.0, 59.9, 60.0, 150.0, 180.0)
    ] == [
        0,
        0,
        1,
        2,
        0,
    ]
    assert all(sum(turns.is_on(at) for turns in all_turns) == 1 for at in range(0, 400, 7))
    assert all_turns[0].changes_at(59.0) == all_turns[1].changes_at(0.0) == 60.0


@pytest.mark.parametrize(
    "value", [None, 7, {}, {"index": 2, "count": 2, "seconds": 1}, {"index": 0, "count": 2, "seconds": 0}]
)
def test_what_can_not_be_turns_is_none(value: object) -> None:
    assert Turns.read(value) is None


def test_the_machine_tells_of_other_turns_once_and_only_what_is_alive() -> None:
    part = make_part()
    turn = Turn(index=0, count=2, seconds=60.0)
    for phase in Phase:
        state = State(parts={part.attempt: Part(desired=part, phase=phase)})
        desired = DesiredState(
            generation=1, lease_seconds=30.0, report_seconds=1.0, parts=(replace(part, turn=turn),)
        )
        state, instructions = step(state, DesiredReceived(desired=desired, sent_at=0.0))
        told = [each for each in instructions if isinstance(each, TakeTurns)]
        assert told == ([TakeTurns(attempt=part.attempt, turn=turn)] if phase in ALIVE else [])
        _, instructions = step(state, DesiredReceived(desired=desired, sent_at=0.0))
        assert not [each for each in instructions if isinstance(each, TakeTurns)]


def test_the_dead_count_as_stopped_and_the_living_do_not() -> None:
    assert is_stopped(2**22 + 1)
    assert not is_stopped(os.getpid())
