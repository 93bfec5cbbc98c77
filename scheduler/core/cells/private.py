"""The hardware that one virtual cluster would have if it were alone: all of its cells, on an idle cluster."""

from __future__ import annotations

from scheduler.core.cells.chains import Cell, Layout
from scheduler.core.cells.pool import pools_of


def private_cells(layout: Layout, virtual_cluster: str) -> tuple[Cell, ...]:
    """Return where the cells of a virtual cluster would be, the largest first and the pinned ones last."""
    pools = pools_of(layout)
    found = []
    owned = layout.owned.get(virtual_cluster, {})
    for name, level in sorted(owned, key=lambda kind: (kind[0], -kind[1])):
        pool = pools[name]
        everything = [pool.chain.everything(each) for each in range(len(pool.free))]
        for _ in range(owned[name, level]):
            number = pool.choose(level, [everything])
            assert number is not None, "a checked specification has all cells that it promises"
            pool.take(level, number)
            pool.owed[level] -= 1
            found.append(Cell(name, level, number))
    return (*found, *layout.pinned.get(virtual_cluster, {}).values())
