"""What rounds never undo, since they work broken hardware out anew: a failure, and a release."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.core.cells.health import units_in
from scheduler.core.cells.pairs import Pair, pair, unbind_upward
from scheduler.core.cells.physical import Hardware
from scheduler.core.cells.virtual import Space


def heal(hardware: Hardware, node: int) -> None:
    """Take a broken node as healthy. `settle` is to follow."""
    hardware.mark(node, broken=False)
    root = hardware.root_above(hardware.chain.node_level, node)
    if root is not None:
        conceal(hardware, hardware.roots[root][0], node)
    else:
        for space, unit in units_in(hardware, node):
            space.open(unit)


def conceal(hardware: Hardware, space: Space, node: int) -> None:
    """Undo `expose` for a node that is healthy again."""
    level = hardware.chain.node_level
    virtual = hardware.twins[level][node]
    unit = space.unit_at(level, virtual)
    assert unit is not None
    space.open(unit)
    unbind_upward(hardware, space, level, virtual, [])


def redo_pairs(hardware: Hardware, space: Space, pairs: Sequence[Pair]) -> None:
    """Bind again what was unbound."""
    for level, virtual, physical in reversed(pairs):
        pair(hardware, space, level, virtual, physical)
