"""What the page of the oracle says is so."""

from __future__ import annotations

import re
from pathlib import Path

from tests.core.cells import oracle
from tests.core.cells.oracle import reasons

PAGE = Path(__file__).with_name("oracle").joinpath("README.md").read_text()


def test_the_example_runs() -> None:
    example = PAGE.partition("```python\n")[2].partition("```")[0]
    seen: dict[str, object] = {}
    exec(example, seen)
    assert seen["pods"] == (oracle.Pod("n1", tuple(range(8))),)


def test_the_page_lists_every_reason_to_wait() -> None:
    source = Path(reasons.__file__).read_text()
    codes = set(re.findall(r'"((?:cells|nodes|no|held)_[a-z_]+)"', source))
    assert len(codes) == 8
    assert codes == set(re.findall(r"^\| `((?:cells|nodes|no|held)_[a-z_]+)` \|", PAGE, re.MULTILINE))


def test_all_that_is_offered_is_described() -> None:
    for name in oracle.__all__:
        described = getattr(oracle, name)
        assert isinstance(described, int) or described.__doc__, name
    for name in ("schedule", "adopt", "delete", "set_node_health", "reconfigure", "groups", "dump", "check"):
        assert f"`{name}" in PAGE
        assert getattr(oracle.CellState, name).__doc__
