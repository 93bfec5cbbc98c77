"""Broken nodes: which cells a virtual cluster can have on healthy hardware, and which are doomed.

Broken hardware stays in the pool. So everything owed is always there, and no virtual cluster can use up what
is kept for another. But an owned cell is bound only where everything is healthy. If too few healthy cells are
left for a virtual cluster, the cells that it cannot get are *doomed*: they are bound to broken ones, so that
the virtual cluster plans without the broken hardware.

As in the published code, each virtual cluster is counted separately: two can both appear fine while there is
one healthy cell for both, and the first to ask gets it. The published code compares the sums of each level,
so it may count a cell that cannot be split off later. Here cells are counted by splitting, just as they are
bound.
"""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.core.cells.pairs import bind_whole, expose, unbind_whole
from scheduler.core.cells.physical import Hardware
from scheduler.core.cells.virtual import Space
from scheduler.core.cells.world import World


def fail(hardware: Hardware, node: int) -> None:
    """Mark a healthy node as broken; groups on it are left alone. The caller must call `settle` next."""
    hardware.mark(node, broken=True)
    root = hardware.root_above(hardware.chain.node_level, node)
    if root is not None:
        expose(hardware, hardware.roots[root][0], node)
    else:
        for space, unit in units_in(hardware, node):
            space.close(unit)


def units_in(hardware: Hardware, node: int) -> list[tuple[Space, int]]:
    """Return the units of the owned cells bound in a node that are smaller than the node."""
    found = []
    for level in range(hardware.chain.node_level):
        for number in hardware.chain.within(hardware.chain.node_level, node, level):
            if (level, number) in hardware.roots:
                space, virtual = hardware.roots[level, number]
                unit = space.unit_at(level, virtual)
                assert unit is not None
                found.append((space, unit))
    return found


def settle(world: World, hardware: Hardware) -> None:
    """Doom exactly the cells that must be doomed."""
    for level, physical in list(hardware.doomed):
        space, virtual = hardware.roots[level, physical]
        if space.uses[level, virtual]:
            # The cell is in use; once it is not, it is unbound like any other.
            del hardware.doomed[level, physical]
        else:
            unbind_whole(hardware, space, level, virtual)
    if hardware.broken:
        spaces = [each[hardware.chain.name] for each in world.spaces.values() if hardware.chain.name in each]
        # Splitting off a doomed cell may take a cell that another virtual cluster counted on, so repeat.
        while any([_doom(hardware, space) for space in spaces]):
            pass
    hardware.settled = True


def _doom(hardware: Hardware, space: Space) -> bool:
    """Bind cells that a virtual cluster cannot get healthy to broken ones; return whether there were any."""
    before = len(hardware.doomed)
    for level, count in space.lacking(attainable(hardware, space.unbound)).items():
        for _ in range(count):
            physical = _most_broken(hardware, level)
            if physical is not None:
                bind_whole(hardware, space, level, space.last_unbound(level), physical)
                hardware.doomed[level, physical] = None
    return len(hardware.doomed) > before


def _most_broken(hardware: Hardware, level: int) -> int | None:
    """Return the free cell of a level with the most broken nodes that may be bound, or None.

    The more of the bound cell is broken, the more healthy hardware is left for smaller cells that are owed.
    """
    chain, pool, node = hardware.chain, hardware.pool, hardware.chain.node_level
    options: set[tuple[int, int, int]] = set()
    for broken in hardware.broken:
        cells = [chain.above(node, broken, level)] if level >= node else chain.within(node, broken, level)
        for number in cells:
            source = pool.source(level, number)
            if source is not None:
                options.add((-hardware.broken_in(level, number), source[0], number))
    for _, source_level, number in sorted(options):
        if pool.may_split(source_level, level, owed=True):
            return number
    return None


def attainable(hardware: Hardware, desired: Mapping[int, int]) -> dict[int, int]:
    """Return how many of the desired cells of a virtual cluster could be healthy at the same time, by level.

    Larger cells come first. Healthy cells are split before broken ones, the lowest first; each split uses up
    one cell of its level that is owed to no virtual cluster.
    """
    pool, chain = hardware.pool, hardware.chain
    if not hardware.broken:
        return dict(desired)
    spare = [pool.spare(level) for level in range(chain.top + 1)]
    healthy = [cells.bit_count() for cells in pool.free]
    broken: list[list[int]] = [[] for _ in healthy]
    for level, number in hardware.broken_and_free():
        healthy[level] -= 1
        broken[level].append(number)

    def split(level: int) -> bool:
        """Split a cell above a level that contains healthy cells of it; return False if none may be split."""
        highest = level
        while highest < chain.top and spare[highest + 1] > 0:
            highest += 1
        for each in range(level + 1, highest + 1):
            if healthy[each]:
                healthy[each] -= 1
                healthy[each - 1] += chain.fanouts[each]
                spare[each] -= 1
                return True
        for each in range(level + 1, highest + 1):
            best = max(
                broken[each], key=lambda number: hardware.healthy_in(each, number, level), default=None
            )
            if best is not None and hardware.healthy_in(each, best, level):
                broken[each].remove(best)
                for child in chain.within(each, best, each - 1):
                    if hardware.is_bad(each - 1, child):
                        broken[each - 1].append(child)
                    else:
                        healthy[each - 1] += 1
                spare[each] -= 1
                return True
        return False

    found: dict[int, int] = {}
    for level in sorted(desired, reverse=True):
        found[level] = 0
        while found[level] < desired[level] and (healthy[level] or split(level)):
            taken = min(healthy[level], desired[level] - found[level])
            healthy[level] -= taken
            found[level] += taken
    return found
