"""How many GPUs are free in each unit, found by their number instead of by sorting.

A *unit* is what a pod must stay inside: a node, or a smaller cell that a virtual cluster owns by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scheduler.core.model.bits import members


@dataclass(slots=True)
class Room:
    """What is left in a unit while a group is being placed."""

    unit: int
    #: The lower the better.
    rank: int
    left: int
    #: How many of these GPUs are not in use by anybody.
    clear: int


class Rooms:
    """The units of one virtual cluster's cells, or of hardware."""

    def __init__(self, sizes: Sequence[int], larger: Sequence[tuple[int, int]]) -> None:
        """`larger`: (units of a cell, number of cells) of each level above; its cells start at unit 0."""
        self.sizes = sizes
        self.free = list(sizes)
        self.ranks = [0] * len(sizes)
        #: Closed units are broken: they have no room, whatever is free.
        self.closed: set[int] = set()
        self.largest = max(sizes, default=0)
        self.larger = [
            (ratio, [sum(sizes[cell * ratio : (cell + 1) * ratio]) for cell in range(cells)])
            for ratio, cells in larger
        ]
        #: (rank, free) -> the set of open units.
        self._sets: dict[tuple[int, int], int] = {}
        for unit, size in enumerate(sizes):
            self._sets[0, size] = self._sets.get((0, size), 0) | 1 << unit

    def copy(self) -> Rooms:
        twin = Rooms.__new__(Rooms)
        twin.sizes, twin.free, twin.ranks = self.sizes, self.free.copy(), self.ranks.copy()
        twin.closed, twin.largest = self.closed, self.largest
        twin.larger = [(ratio, sums.copy()) for ratio, sums in self.larger]
        twin._sets = self._sets.copy()
        return twin

    def change(self, unit: int, free: int, rank: int = 0) -> None:
        """Add to what is free in a unit, and to its rank."""
        if unit in self.closed:
            self.free[unit] += free
            self.ranks[unit] += rank
            return
        self._leave(unit)
        self.free[unit] += free
        self.ranks[unit] += rank
        self._enter(unit)
        self._sum(unit, free)

    def close(self, unit: int) -> None:
        if unit not in self.closed:
            self._leave(unit)
            self._sum(unit, -self.free[unit])
            self.closed.add(unit)

    def open(self, unit: int) -> None:
        if unit in self.closed:
            self.closed.discard(unit)
            self._enter(unit)
            self._sum(unit, self.free[unit])

    def offers(self, least: int, most: int, among: int | None = None, *, clear: bool = True) -> list[Room]:
        """Return units with at least `least` GPUs free, of those alike the first `most`.

        `among`: a set of units, all where it is None. `clear`: a unit's rank says nothing of its GPUs; if
        not, it says how many of them are in use.
        """
        found = []
        for (rank, free), units in self._sets.items():
            if free < least:
                continue
            several = members(units if among is None else units & among)
            for unit, _ in zip(several, range(most), strict=False):
                found.append(Room(unit, rank, free, free if clear else free - rank))
        return found

    def snuggest(self, rank: int, free: int, among: int | None = None) -> int:
        """Return, of the open units of a rank with so much free, that in the fullest of the larger cells."""
        units = self._sets[rank, free]
        units = units if among is None else units & among
        if self.larger and units & (units - 1):
            (ratio, sums), *higher = self.larger
            # Units outside of larger cells come first: they are all that is left of nothing larger.
            outside = units >> ratio * len(sums) << ratio * len(sums)
            if outside:
                return (outside & -outside).bit_length() - 1
            around = [(up // ratio, upper) for up, upper in higher]
            order = sorted(
                range(len(sums)),
                key=lambda cell: (
                    sums[cell],
                    *(upper[cell // up] if cell // up < len(upper) else 0 for up, upper in around),
                ),
            )
            for cell in order:
                inside = units >> cell * ratio & ((1 << ratio) - 1)
                if inside:
                    return cell * ratio + (inside & -inside).bit_length() - 1
        return (units & -units).bit_length() - 1

    def cells_with(self, gpus: int) -> Iterator[tuple[int, int]]:
        """Yield (first unit, units) of the cells with so many GPUs free, the lowest and fullest first."""
        for ratio, sums in self.larger:
            fitting = sorted((free, cell) for cell, free in enumerate(sums) if free >= gpus)
            yield from ((cell * ratio, ratio) for _, cell in fitting)

    @property
    def total_free(self) -> int:
        """GPUs free in open units."""
        return sum(free * units.bit_count() for (_, free), units in self._sets.items())

    @property
    def most_free(self) -> int:
        """GPUs free in the open unit that has most."""
        return max((free for _, free in self._sets), default=0)

    def _leave(self, unit: int) -> None:
        key = self.ranks[unit], self.free[unit]
        rest = self._sets[key] ^ (1 << unit)
        if rest:
            self._sets[key] = rest
        else:
            del self._sets[key]

    def _enter(self, unit: int) -> None:
        key = self.ranks[unit], self.free[unit]
        self._sets[key] = self._sets.get(key, 0) | 1 << unit

    def _sum(self, unit: int, free: int) -> None:
        for ratio, sums in self.larger:
            if unit // ratio < len(sums):
                sums[unit // ratio] += free
