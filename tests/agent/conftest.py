"""A node without an agent: the process runtime alone, on real processes. And a clock that tests move."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nodeagent import clock as nodes_clock
from tests.agent.moved_clock import MovedClock
from tests.agent.runtime_node import RuntimeNode


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[RuntimeNode]:
    node = RuntimeNode(tmp_path)
    yield node
    await node.clean_up()


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MovedClock:
    """The clock of this process, and of agents, shims and daemons that are started after this."""
    file = tmp_path / "clock"
    monkeypatch.setenv(nodes_clock.VARIABLE, str(file))
    monkeypatch.setattr(nodes_clock, "moved_by", str(file))
    return MovedClock(file)
