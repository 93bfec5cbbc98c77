"""Bind pairs of a virtual and a physical cell when something in them is used, and unbind them again.

Inside a bound owned cell, broken cells are bound as well, so that the virtual cluster sees them and plans
without them. Every change is a list of pairs, so that it can be undone exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scheduler.core.cells.physical import Hardware
from scheduler.core.cells.virtual import NONE, Space
from scheduler.core.model.bits import members

#: Level, virtual cell, physical cell.
Pair = tuple[int, int, int]


def pair(hardware: Hardware, space: Space, level: int, virtual: int, physical: int) -> Pair:
    """Bind a virtual cell, but nothing inside; it is an owned cell, or its parent is bound."""
    space.twins[level][virtual] = physical
    hardware.twins[level][physical] = virtual
    if space.is_root(level, virtual):
        if not space.pinned:
            hardware.take(level, physical)
        hardware.roots[level, physical] = space, virtual
        space.unbound[level] -= 1
    else:
        _flip_child(hardware, space, level, virtual, physical)
    if hardware.broken:
        unit = space.unit_at(level, virtual)
        if unit is not None and hardware.is_bad(level, physical):
            space.close(unit)
    return level, virtual, physical


def unpair(hardware: Hardware, space: Space, level: int, virtual: int) -> Pair:
    """Undo `pair`."""
    physical = space.twins[level][virtual]
    space.twins[level][virtual] = NONE
    hardware.twins[level][physical] = NONE
    if space.is_root(level, virtual):
        del hardware.roots[level, physical]
        hardware.doomed.pop((level, physical), None)
        space.unbound[level] += 1
        if not space.pinned:
            hardware.give_back(level, physical)
    else:
        _flip_child(hardware, space, level, virtual, physical)
    if space.closed:
        unit = space.unit_at(level, virtual)
        if unit is not None:
            space.open(unit)
    return level, virtual, physical


def _flip_child(hardware: Hardware, space: Space, level: int, virtual: int, physical: int) -> None:
    fanout = hardware.chain.fanouts[level + 1]
    space.children[level + 1][virtual // fanout] ^= 1 << virtual % fanout
    hardware.children[level + 1][physical // fanout] ^= 1 << physical % fanout


def bind_whole(hardware: Hardware, space: Space, level: int, virtual: int, physical: int) -> None:
    """Bind an owned cell, and the broken cells in it."""
    pair(hardware, space, level, virtual, physical)
    expose_all(hardware, space, level, physical)


def expose_all(hardware: Hardware, space: Space, level: int, physical: int) -> None:
    """Bind the broken cells in a bound owned cell that are not bound yet."""
    node = hardware.chain.node_level
    if level > node and hardware.is_bad(level, physical):
        for number in hardware.chain.within(level, physical, node):
            if number in hardware.broken:
                expose(hardware, space, number)


def expose(hardware: Hardware, space: Space, node: int) -> None:
    """Bind a broken node in a bound cell to an unbound virtual node, unless the node is bound already."""
    chain = hardware.chain
    root = hardware.root_above(chain.node_level, node)
    assert root is not None
    level, physical = root
    virtual = hardware.twins[level][physical]
    while level > chain.node_level:
        level, fanout = level - 1, chain.fanouts[level]
        physical = chain.above(chain.node_level, node, level)
        if hardware.twins[level][physical] == NONE:
            # Take the last one, because groups are packed into the first ones.
            unbound = ~space.children[level + 1][virtual] & ((1 << fanout) - 1)
            pair(hardware, space, level, virtual * fanout + unbound.bit_length() - 1, physical)
        virtual = hardware.twins[level][physical]
    unit = space.unit_at(level, virtual)
    assert unit is not None
    space.close(unit)


def undo_pairs(hardware: Hardware, space: Space, pairs: Sequence[Pair]) -> None:
    """Unbind what was bound."""
    for level, virtual, _ in reversed(pairs):
        unpair(hardware, space, level, virtual)


def release(hardware: Hardware, space: Space, leaves: Iterable[int]) -> list[Pair]:
    """Unbind virtual GPUs that no job holds any more, and cells that only they kept bound; return the pairs.

    An owned cell stays bound in its place while anything in it is used; a pinned cell always stays bound.
    """
    pairs: list[Pair] = []
    roots: dict[tuple[int, int], None] = {}
    for leaf in leaves:
        roots[space.root_of(leaf)] = None
        unbind_upward(hardware, space, 0, leaf, pairs)
    for level, number in roots:
        if not space.pinned and not space.uses[level, number]:
            unbind_whole(hardware, space, level, number, pairs)
    return pairs


def unbind_upward(hardware: Hardware, space: Space, level: int, number: int, pairs: list[Pair]) -> None:
    """Unbind a cell and those around it, below the owned one, until one is broken or holds a bound cell."""
    while not space.is_root(level, number):
        if space.children[level][number] or (space.closed and space.unit_at(level, number) in space.closed):
            return
        pairs.append(unpair(hardware, space, level, number))
        level, number = level + 1, number // hardware.chain.fanouts[level + 1]


def unbind_whole(
    hardware: Hardware, space: Space, level: int, number: int, pairs: list[Pair] | None = None
) -> None:
    """Unbind a cell in which nothing is used, and everything bound in it."""
    pairs = [] if pairs is None else pairs
    for child in members(space.children[level][number]):
        unbind_whole(hardware, space, level - 1, number * hardware.chain.fanouts[level] + child, pairs)
    pairs.append(unpair(hardware, space, level, number))
