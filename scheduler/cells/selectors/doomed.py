"""Cells that are owed and could only be had with broken hardware (HiveD calls them doomed-bad)."""

from collections.abc import Iterable, Mapping, Sequence

from scheduler.cells.selectors.use import Owners, Use
from scheduler.core.cells.chains import Chain, Layout


class Whole:
    """How many cells of each level are left whole and healthy in a chain, outside of those already had."""

    def __init__(self, chain: Chain, use: Use, owners: Owners) -> None:
        taken = use.bad
        for cell in owners.virtual_cluster:
            if cell.chain == chain.name:
                taken |= chain.set_within(cell.level, cell.number, 0)
        self._chain = chain
        self._left = [_whole(chain, level, taken) for level in range(chain.top + 1)]

    def lacking(self, owed: Sequence[int]) -> list[int]:
        """Return by level how many of the owed cells can not be had healthy, the others together in mind.

        Larger cells are looked for first. Cells nest evenly, so what is left for the smaller ones does not
        depend on which larger ones are taken.
        """
        chain, had = self._chain, 0
        lacking = [0] * len(owed)
        for level in range(chain.top, -1, -1):
            if level < chain.top:
                had *= chain.fanouts[level + 1]
            got = min(owed[level], max(self._left[level] - had, 0))
            had += got
            lacking[level] = owed[level] - got
        return lacking


def _whole(chain: Chain, level: int, taken: int) -> int:
    size = chain.sizes[level]
    if not taken:
        return chain.count(level)
    if size == 1:
        return chain.count(0) - taken.bit_count()
    cell = (1 << size) - 1
    return sum(not taken >> number * size & cell for number in range(chain.count(level)))


def owed(layout: Layout, chain: Chain, owners: Owners, virtual_clusters: Iterable[str]) -> list[int]:
    """Return by level how many cells these virtual clusters own in a chain and have not got now."""
    counts = [0] * (chain.top + 1)
    for virtual_cluster in virtual_clusters:
        owned: Mapping[tuple[str, int], int] = layout.owned.get(virtual_cluster, {})
        for (name, level), cells in owned.items():
            if name == chain.name:
                had = len(owners.bound(virtual_cluster, name, level))
                counts[level] += max(cells - had, 0)
    return counts
