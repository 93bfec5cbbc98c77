"""A node without an agent: the process runtime alone, on real processes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.agent.runtime_node import RuntimeNode


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[RuntimeNode]:
    node = RuntimeNode(tmp_path)
    yield node
    await node.clean_up()
