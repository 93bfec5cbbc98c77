"""The hardware of a chain: its broken parts, and the virtual cells bound to it."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.core.cells.chains import Chain
from scheduler.core.cells.pool import Pool
from scheduler.core.cells.virtual import NONE, Space
from scheduler.core.model.bits import members


class Hardware:
    """The cells of one chain."""

    def __init__(self, chain: Chain, pool: Pool) -> None:
        self.chain = chain
        #: The unbound cells, broken or not; it owes the cells that virtual clusters own and have not bound.
        self.pool = pool
        #: By level: cell -> number of GPUs in it that opportunistic groups use.
        self.opportunistic = [[0] * chain.count(level) for level in range(chain.top + 1)]
        self.broken: set[int] = set()
        #: By level, from the node's up: cell -> number of broken nodes in it.
        self._broken_in = {
            level: [0] * chain.count(level) for level in range(chain.node_level, chain.top + 1)
        }
        #: By level: physical cell -> its virtual cell in the space of the owned cell around it, or NONE.
        self.twins = [[NONE] * chain.count(level) for level in range(chain.top + 1)]
        #: By level: cell -> the set of its children (0 is the first) that have virtual cells.
        self.children = [[0] * chain.count(level) for level in range(chain.top + 1)]
        #: Physical cell (level, number) -> the space that owns it now, and the number of its virtual cell.
        self.roots: dict[tuple[int, int], tuple[Space, int]] = {}
        #: Physical cells that are bound only because a virtual cell cannot get a healthy one.
        self.doomed: dict[tuple[int, int], None] = {}
        #: Whether nothing has been bound or unbound since the doomed cells were last determined.
        self.settled = True

    # Health

    def is_bad(self, level: int, number: int) -> bool:
        """Return whether a node of the cell, or the node that it is part of, is broken."""
        node = self.chain.node_level
        if level < node:
            return self.chain.above(level, number, node) in self.broken
        return self._broken_in[level][number] > 0

    def mark(self, node: int, *, broken: bool) -> None:
        """Note that a node is broken or healthy."""
        self.settled = False
        if broken:
            self.broken.add(node)
        else:
            self.broken.discard(node)
        for level, counts in self._broken_in.items():
            counts[self.chain.above(self.chain.node_level, node, level)] += 1 if broken else -1

    def broken_in(self, level: int, number: int) -> int:
        """Return the number of broken nodes in a cell; below a node, 1 if the node is broken."""
        node = self.chain.node_level
        return self._broken_in[level][number] if level >= node else int(self.is_bad(level, number))

    def healthy_in(self, level: int, number: int, below: int) -> int:
        """Return the number of cells of a lower level in a cell that have nothing broken."""
        if not self.is_bad(level, number):
            return self.chain.sizes[level] // self.chain.sizes[below]
        if level <= self.chain.node_level or level == below:
            return 0
        children = self.chain.within(level, number, level - 1)
        return sum(self.healthy_in(level - 1, child, below) for child in children)

    def broken_and_free(self) -> set[tuple[int, int]]:
        """Return the cells of the pool that have something broken."""
        chain, free, found = self.chain, self.pool.free, set[tuple[int, int]]()
        for node in self.broken:
            source = self.pool.source(chain.node_level, node)
            if source is not None:
                found.add(source)
                continue
            for level in range(chain.node_level):
                inside = free[level] & chain.set_within(chain.node_level, node, level)
                found.update((level, number) for number in members(inside))
        return found

    def root_above(self, level: int, number: int) -> tuple[int, int] | None:
        """Return the bound owned cell that a cell is, or is part of."""
        for higher in range(level, self.chain.top + 1):
            root = higher, self.chain.above(level, number, higher)
            if root in self.roots:
                return root
        return None

    # Binding of owned cells

    def take(self, level: int, number: int) -> None:
        """Take a cell out of the pool, for a virtual cluster that is owed a cell of that level."""
        self.pool.take(level, number)
        self.pool.owed[level] -= 1
        self.settled = False

    def give_back(self, level: int, number: int) -> None:
        """Put a cell into the pool; its virtual cluster is owed one again."""
        self.pool.give_back(level, number)
        self.pool.owed[level] += 1
        self.settled = False

    def disturb(self, leaves: Sequence[int], by: int) -> None:
        """Count GPUs that a binding would take from a holder (`by` 1), or stop counting them (-1)."""
        for level, counts in enumerate(self.opportunistic):
            size = self.chain.sizes[level]
            for leaf in leaves:
                counts[leaf // size] += by
