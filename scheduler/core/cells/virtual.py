"""The virtual cells that a virtual cluster sees: a cluster of its own, whatever hardware it is bound to.

The virtual GPUs of a space are numbered like a chain's, the largest cells first, so that a cell of every
level starts at a multiple of its size. Sharing is safe because groups are placed here, where other virtual
clusters and opportunistic groups are invisible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from scheduler.core.cells.chains import Cell, Chain

NONE = -1


@dataclass(frozen=True, slots=True)
class Roots:
    """Cells of one level that a virtual cluster owns."""

    level: int
    #: Their numbers at that level.
    numbers: range
    first_leaf: int
    end_leaf: int
    #: The level of their units: the node's, or their own when they are smaller than a node.
    unit_level: int
    first_unit: int


class Space:
    """The cells of a virtual cluster in one chain, or one pinned cell."""

    def __init__(self, virtual_cluster: str, pinned: str, chain: Chain, owned: Iterable[tuple[int, int]]):
        """`owned` has (level, number of cells), the highest level first."""
        self.virtual_cluster = virtual_cluster
        #: The name of the pinned cell; empty for cells that are bound on demand.
        self.pinned = pinned
        self.chain = chain
        self.roots: list[Roots] = []
        #: Virtual GPU -> the owned cells that it is in.
        self._roots_of: list[Roots] = []
        leaf = unit = 0
        for level, count in owned:
            size, unit_level = chain.sizes[level], min(level, chain.node_level)
            end = leaf + size * count
            numbers = range(leaf // size, end // size)
            roots = Roots(level, numbers, leaf, end, unit_level, unit)
            self.roots.append(roots)
            self._roots_of += [roots] * (end - leaf)
            unit += (end - leaf) // chain.sizes[unit_level]
            leaf = end
        self.levels = max((roots.level for roots in self.roots), default=NONE) + 1
        self.gpus = leaf
        #: Level -> the numbers of its owned cells; and the levels of units.
        self._owned = {roots.level: roots.numbers for roots in self.roots}
        self._unit_levels = frozenset([roots.unit_level for roots in self.roots])
        sizes = chain.sizes[: self.levels]
        #: By level: virtual cell -> its physical cell, or NONE.
        self.twins = [[NONE] * -(-leaf // size) for size in sizes]
        #: By level: cell -> the set of its children (0 is the first) that have physical cells.
        self.children = [[0] * -(-leaf // size) for size in sizes]
        #: Owned cell (level, number) -> number of its GPUs in use; no entry if none is.
        self.uses: Counter[tuple[int, int]] = Counter()
        #: Level -> number of owned cells that have no physical cell.
        self.unbound = {roots.level: len(roots.numbers) for roots in self.roots}
        #: Units that are known to be on broken hardware.
        self.closed: set[int] = set()
        #: Virtual GPU -> number of its holders: the job that uses it, and the job that gets it next.
        self.holders: Counter[int] = Counter()

    # Geometry

    def roots_of(self, leaf: int) -> Roots:
        """Return the owned cells that a virtual GPU is in."""
        if 0 <= leaf < self.gpus:
            return self._roots_of[leaf]
        raise ValueError(f"there is no virtual GPU {leaf}")

    def root_of(self, leaf: int) -> tuple[int, int]:
        """Return the owned cell (level, number) that a virtual GPU is in."""
        level = self.roots_of(leaf).level
        return level, leaf // self.chain.sizes[level]

    def is_root(self, level: int, number: int) -> bool:
        return level in self._owned and number in self._owned[level]

    def is_bound(self, level: int, number: int) -> bool:
        return self.twins[level][number] != NONE

    def unit_of(self, leaf: int) -> int:
        roots = self.roots_of(leaf)
        return roots.first_unit + (leaf - roots.first_leaf) // self.chain.sizes[roots.unit_level]

    def unit_cell(self, unit: int) -> Cell:
        """Return the virtual cell of a unit."""
        for roots in reversed(self.roots):
            if unit >= roots.first_unit:
                size = self.chain.sizes[roots.unit_level]
                number = roots.first_leaf // size + unit - roots.first_unit
                return Cell(self.chain.name, roots.unit_level, number)
        raise ValueError(f"there is no unit {unit}")

    def unit_at(self, level: int, number: int) -> int | None:
        """Return the unit of a cell; None when the cell is not a unit."""
        if level not in self._unit_levels:
            return None
        leaf = number * self.chain.sizes[level]
        return self.unit_of(leaf) if self.roots_of(leaf).unit_level == level else None

    def all_roots(self) -> Iterator[tuple[int, int]]:
        """Yield the owned cells, the largest first."""
        for roots in self.roots:
            yield from ((roots.level, number) for number in roots.numbers)

    def last_unbound(self, level: int) -> int:
        """Return the last unbound owned cell of a level. Raises ValueError when all are bound."""
        return max(
            number
            for roots in self.roots
            for number in roots.numbers
            if roots.level == level and not self.is_bound(level, number)
        )

    def lacking(self, attainable: Mapping[int, int]) -> dict[int, int]:
        """Return by how many the unbound owned cells exceed the attainable ones, for levels where they do."""
        lacking = {level: count - attainable[level] for level, count in self.unbound.items()}
        return {level: count for level, count in lacking.items() if count > 0}

    # Use

    def close(self, unit: int) -> None:
        """Note that a unit is on broken hardware."""
        self.closed.add(unit)

    def open(self, unit: int) -> None:
        """Note that a unit is on healthy hardware, or on none."""
        self.closed.discard(unit)

    def _change(self, leaves: Iterable[int], sign: int) -> None:
        uses = self.uses
        for leaf in leaves:
            root = self.root_of(leaf)
            used = uses.get(root, 0) - sign
            if used:
                uses[root] = used
            else:
                del uses[root]

    def hold(self, leaves: Sequence[int]) -> None:
        """Note that one more holder has these virtual GPUs."""
        holders, fresh = self.holders, []
        for leaf in leaves:
            count = holders.get(leaf, 0)
            holders[leaf] = count + 1
            if not count:
                fresh.append(leaf)
        self._change(fresh, -1)

    def let_go(self, leaves: Sequence[int]) -> list[int]:
        """Note that one holder gave up these virtual GPUs; return those that have no holder now."""
        holders, free = self.holders, []
        for leaf in leaves:
            count = holders[leaf] - 1
            if count:
                holders[leaf] = count
            else:
                del holders[leaf]
                free.append(leaf)
        self._change(free, 1)
        return free
