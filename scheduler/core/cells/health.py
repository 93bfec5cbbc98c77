"""Broken nodes: what is free and healthy always holds what is owed, or it is said whose cell is doomed.

A broken node leaves the pool. When what is left does not hold all that virtual clusters own and have not
got, an owned cell must end on broken hardware: it is *doomed*, bound to a broken cell, so that its virtual
cluster sees what is left of it and plans without the rest.

The published code dooms a virtual cluster's cells when it alone could not get all of its own, so that two
can be told that they are fine while there is one cell for both. Here all are counted together: a cell that is
not doomed is one that everybody can have at the same time. The cell of the virtual cluster that has most of
that kind left is doomed, since that hurts least.
"""

from __future__ import annotations

from scheduler.core.cells.pairs import bind_whole, conceal, expose, unbind_whole
from scheduler.core.cells.physical import Hardware
from scheduler.core.cells.virtual import Space
from scheduler.core.cells.world import World


def fail(world: World, hardware: Hardware, node: int) -> None:
    """Take a healthy node as broken. Groups on it are left alone."""
    level = hardware.chain.node_level
    root = hardware.root_above(level, node)
    if root is None:
        for part in hardware.unowned_parts(level, node):
            hardware.pool.take(*part)
    hardware.mark(node, broken=True)
    if root is not None:
        expose(hardware, hardware.roots[root][0], node)
    else:
        for space, virtual, lower in _roots_in(hardware, node):
            unit = space.unit_at(lower, virtual)
            assert unit is not None
            space.rooms.close(unit)
    settle(world, hardware)


def heal(world: World, hardware: Hardware, node: int) -> None:
    """Take a broken node as healthy."""
    level = hardware.chain.node_level
    hardware.mark(node, broken=False)
    root = hardware.root_above(level, node)
    if root is not None:
        conceal(hardware, hardware.roots[root][0], node)
    else:
        for space, virtual, lower in _roots_in(hardware, node):
            unit = space.unit_at(lower, virtual)
            assert unit is not None
            space.rooms.open(unit)
        for part in hardware.unowned_parts(level, node):
            hardware.pool.give_back(*part)
    settle(world, hardware)


def _roots_in(hardware: Hardware, node: int) -> list[tuple[Space, int, int]]:
    """Return (space, virtual cell, level) of the owned cells smaller than a node that are bound in it."""
    found = []
    for level in range(hardware.chain.node_level):
        for number in hardware.chain.within(hardware.chain.node_level, node, level):
            if (level, number) in hardware.roots:
                space, virtual = hardware.roots[level, number]
                found.append((space, virtual, level))
    return found


def settle(world: World, hardware: Hardware) -> None:
    """Undo what is not doomed any more, and doom what must be."""
    hopeless: set[int] = set()
    for level, physical in list(hardware.doomed):
        space, virtual = hardware.roots[level, physical]
        if space.uses[level, virtual]:
            # It serves; when it does no more, it is unbound like any other.
            del hardware.doomed[level, physical]
        elif level not in hopeless or not hardware.is_bad(level, physical):
            if hardware.is_bad(level, physical) and hardware.pool.spare(level) < 1:
                # The parts of a broken cell make no whole one; this spares the attempt for hundreds of cells.
                hopeless.add(level)
                continue
            unbind_whole(hardware, space, level, virtual)
            hopeless.clear()
            if hardware.pool.shortage() is not None:
                _doom(hardware, space, level, virtual, physical)
    while (short := hardware.pool.shortage()) is not None:
        space = _who_has_most(world, hardware, short)
        virtual = max(
            number
            for roots in space.roots
            for number in roots.numbers
            if roots.level == short and not space.is_bound(short, number)
        )
        _doom(hardware, space, short, virtual, _most_broken(hardware, short))
    hardware.settled = True


def _doom(hardware: Hardware, space: Space, level: int, virtual: int, physical: int) -> None:
    bind_whole(hardware, space, level, virtual, physical)
    hardware.doomed[level, physical] = None


def _who_has_most(world: World, hardware: Hardware, level: int) -> Space:
    """Return the space with most cells of a level that are not bound, the first of equals."""
    spaces = [
        by_chain[hardware.chain.name] for by_chain in world.spaces.values() if hardware.chain.name in by_chain
    ]
    return max(spaces, key=lambda space: space.unbound.get(level, 0))


def _most_broken(hardware: Hardware, level: int) -> int:
    """Return the cell of a level, not bound and broken, with the most broken nodes in it.

    There is one: without the broken nodes' failure the pool would hold all that is owed. The more of a cell
    is broken, the more is left for those who are owed smaller ones.
    """
    chain, node = hardware.chain, hardware.chain.node_level
    options: dict[int, int] = {}
    for broken in hardware.broken:
        cells = [chain.above(node, broken, level)] if level >= node else chain.within(node, broken, level)
        for number in cells:
            if number not in options and hardware.is_unowned(level, number):
                options[number] = sum(chain.sizes[part] for part, _ in hardware.healthy_parts(level, number))
    return min(options, key=lambda number: (options[number], number))
