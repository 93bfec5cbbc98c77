"""The physical cells of a chain that no virtual cluster has bound: a buddy allocator that keeps guarantees.

HiveD (OSDI'20, section 3.2, Algorithm 1): a cell is split into its children when a smaller one is requested,
and children that are all free again are merged. As long as the free cells can be split into every cell that
is owed, a virtual cluster that is owed a cell gets one at once.

The published code splits by several rules: the smallest free cell first; a larger one only if hardware is
broken and a count of "splittable" cells allows it. Here there is one rule, from which those follow: *a cell
may be taken if the cells left free still hold everything that is owed*. Cells of a chain nest evenly, so
counting from the top down tests that exactly.
"""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.core.cells.chains import Chain, Layout
from scheduler.core.model.bits import members

#: Cells by level: a set for each, the GPUs first.
ByLevel = Sequence[int]


class Pool:
    """The free cells of a chain, and how many of them are owed."""

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        #: By level: the cells that are free as a whole and not part of a larger free cell.
        self.free = [0] * (chain.top + 1)
        self.free[chain.top] = chain.everything(chain.top)
        #: By level: how many cells virtual clusters own but have not bound.
        self.owed = [0] * (chain.top + 1)

    def copy(self) -> Pool:
        twin = Pool.__new__(Pool)
        twin.chain, twin.free, twin.owed = self.chain, self.free.copy(), self.owed.copy()
        return twin

    def obtainable(self, level: int, among: ByLevel | None = None) -> int:
        """Return how many free cells of a level splitting yields; with `among`, only those out of these."""
        sizes, size = self.chain.sizes, self.chain.sizes[level]
        return sum(
            (self.free[higher] if among is None else self.free[higher] & among[higher]).bit_count()
            * (sizes[higher] // size)
            for higher in range(level, len(sizes))
        )

    def source(self, level: int, number: int) -> tuple[int, int] | None:
        """Return the free cell that a cell is, or is part of; None when the cell is not entirely free."""
        for higher in range(level, len(self.free)):
            ancestor = self.chain.above(level, number, higher)
            if self.free[higher] >> ancestor & 1:
                return higher, ancestor
        return None

    def may_split(self, source: int, level: int, *, owed: bool) -> bool:
        """Return whether everything owed remains when a free cell of level `source` yields one of `level`.

        With `owed` the taker is owed a cell of that level, which then counts as received.
        """
        counts = [cells.bit_count() for cells in self.free]
        counts[source] -= 1
        for lower in range(level, source):
            counts[lower] += self.chain.fanouts[lower + 1] - 1
        left = 0
        for lower in range(len(counts) - 1, -1, -1):
            if lower + 1 < len(counts):
                left *= self.chain.fanouts[lower + 1]
            left += counts[lower] - self.owed[lower] + (owed and lower == level)
            if left < 0:
                return False
        return True

    def spare(self, level: int) -> int:
        """Return how many cells of a level there are beyond those owed at this and higher levels."""
        left = 0
        for each in range(len(self.free) - 1, level - 1, -1):
            if each + 1 < len(self.free):
                left *= self.chain.fanouts[each + 1]
            left += self.free[each].bit_count() - self.owed[each]
        return left

    def choose(self, level: int, tastes: Sequence[ByLevel], *, owed: bool = True) -> int | None:
        """Return the best cell of a level that may be taken, or None.

        The cell is split off the lowest possible level. `tastes` are sets of cells by level, the best first;
        a cell in none of them is not taken.
        """
        for source in range(level, len(self.free)):
            if not self.free[source] or not self.may_split(source, level, owed=owed):
                continue
            for taste in tastes:
                for start in members(self.free[source] & taste[source]):
                    number = self._within(source, start, level, tastes)
                    if number is not None:
                        return number
        return None

    def _within(self, source: int, start: int, level: int, tastes: Sequence[ByLevel]) -> int | None:
        """Return the best cell of `level` in a free cell, or None."""
        part = self.chain.set_within(source, start, level)
        for taste in tastes:
            found = taste[level] & part
            if found:
                return (found & -found).bit_length() - 1
        return None

    def take(self, level: int, number: int) -> None:
        """Take a cell out, splitting the free one around it. Raises ValueError when it is not free."""
        source = self.source(level, number)
        if source is None:
            raise ValueError(f"cell {self.chain.address(level, number)} is not free")
        higher, ancestor = source
        self.free[higher] ^= 1 << ancestor
        for lower in range(higher - 1, level - 1, -1):
            ancestor = self.chain.above(level, number, lower + 1)
            child = self.chain.above(level, number, lower)
            self.free[lower] |= self.chain.set_within(lower + 1, ancestor, lower) ^ (1 << child)

    def give_back(self, level: int, number: int) -> None:
        """Put a cell back, merging it with its siblings while all of them are free."""
        free, chain = self.free, self.chain
        while level < chain.top:
            parent = chain.above(level, number, level + 1)
            siblings = chain.set_within(level + 1, parent, level) ^ (1 << number)
            if free[level] & siblings != siblings:
                break
            free[level] ^= siblings
            level, number = level + 1, parent
        free[level] |= 1 << number


def pools_of(layout: Layout) -> dict[str, Pool]:
    """Return the pool of each chain when only the pinned cells are bound."""
    pools = {name: Pool(chain) for name, chain in layout.chains.items()}
    for cells in layout.pinned.values():
        for cell in cells.values():
            pools[cell.chain].take(cell.level, cell.number)
    for owned in layout.owned.values():
        for (name, level), count in owned.items():
            pools[name].owed[level] += count
    return pools
