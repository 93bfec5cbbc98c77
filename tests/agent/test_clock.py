"""The one clock of a node: tests move it, and no job does."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from nodeagent import clock as nodes_clock
from nodeagent.clock import boot_clock_seconds, steady_microseconds, wait_seconds, wall_clock_seconds
from tests.agent.builders import make_part, python
from tests.agent.moved_clock import MovedClock
from tests.agent.runtime_node import RuntimeNode

SAYS_ITS_ENVIRONMENT = "import os, time; print(*sorted(os.environ)); print('up'); time.sleep(600)"


def environment_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/environ").read_text().split("\0")[:-1]


def faces() -> list[float]:
    """How far each face of the clock is ahead of the machine's own."""
    return [
        boot_clock_seconds() - time.clock_gettime(time.CLOCK_BOOTTIME),
        wall_clock_seconds() - time.time(),
        steady_microseconds() / 1e6 - time.monotonic(),
    ]


def test_the_machines_clocks_are_shown_and_nothing_is_looked_at_early() -> None:
    assert faces() == pytest.approx([0.0] * 3, abs=1.0)
    assert wait_seconds(5.0) == 5.0
    assert nodes_clock.environment() == {}


def test_a_test_moves_all_faces_together_and_lets_them_stand(clock: MovedClock) -> None:
    clock.jump(1e6)
    assert faces() == pytest.approx([1e6] * 3, abs=100.0)
    clock.stop_at(5e6)
    assert boot_clock_seconds() == pytest.approx(5e6, abs=1e-6)
    assert boot_clock_seconds() == boot_clock_seconds()
    clock.go_on_from(6e6)
    assert boot_clock_seconds() > 6e6
    assert wait_seconds(5.0) == nodes_clock.LOOK_SECONDS


async def test_a_shim_reads_the_clock_of_its_agent_and_its_job_hears_nothing_of_it(
    clock: MovedClock, node: RuntimeNode
) -> None:
    await node.start(make_part(python(SAYS_ITS_ENVIRONMENT)))
    await node.line("up")
    assert environment_of(node.status()["pid"]) == [f"{nodes_clock.VARIABLE}={clock.file}"]
    assert nodes_clock.VARIABLE not in node.text()
    assert not any(nodes_clock.VARIABLE in line for pid in node.alive() for line in environment_of(pid))


async def test_what_a_job_asks_for_its_environment_is_not_its_shims(node: RuntimeNode) -> None:
    script = python(SAYS_ITS_ENVIRONMENT, env={nodes_clock.VARIABLE: "/nowhere"})
    await node.start(make_part(script))
    await node.line("up")
    assert nodes_clock.VARIABLE in node.text(), "it is a name like any other"
    assert environment_of(node.status()["pid"]) == []
