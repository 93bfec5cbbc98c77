"""What docs/cells-api.md says is so."""

from __future__ import annotations

import re
from pathlib import Path

import scheduler.core.cells as cells
from scheduler.core.cells import reasons

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "cells-api.md").read_text()


def test_the_example_runs() -> None:
    example = PAGE.partition("```python\n")[2].partition("```")[0]
    seen: dict[str, object] = {}
    exec(example, seen)
    assert seen["pods"] == (cells.Pod("n1", tuple(range(8))),)


def test_the_page_lists_every_reason_to_wait() -> None:
    source = Path(reasons.__file__).read_text()
    codes = set(re.findall(r'"((?:cells|nodes|no|held)_[a-z_]+)"', source))
    assert len(codes) == 8
    assert codes == set(re.findall(r"^\| `((?:cells|nodes|no|held)_[a-z_]+)` \|", PAGE, re.MULTILINE))


def test_all_that_is_offered_is_described() -> None:
    for name in cells.__all__:
        described = getattr(cells, name)
        assert isinstance(described, int) or described.__doc__, name
    for name in ("schedule", "adopt", "delete", "set_node_health", "reconfigure", "groups", "dump", "check"):
        assert f"`{name}" in PAGE
        assert getattr(cells.CellState, name).__doc__
