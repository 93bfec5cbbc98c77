"""The virtual cells that a virtual cluster sees: its own cluster, on whatever hardware it is.

The virtual GPUs of a space are numbered like a chain's, the largest cells first, so that a cell of every
level starts at a multiple of its size; sharing safety rests on placing groups here, where nothing of other
virtual clusters or of opportunistic groups can be seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from scheduler.core.cells.chains import Cell, Chain
from scheduler.core.cells.placer import Interior
from scheduler.core.cells.records import Record
from scheduler.core.cells.rooms import Rooms

NONE = -1


@dataclass(frozen=True, slots=True)
class Roots:
    """Cells of one level that a virtual cluster owns."""

    level: int
    #: Their numbers at that level.
    numbers: range
    first_leaf: int
    end_leaf: int
    #: The level of their units: the node's, or their own when they are smaller.
    unit_level: int
    first_unit: int


class Space:
    """The cells of a virtual cluster in one chain, or one pinned cell."""

    def __init__(self, virtual_cluster: str, pinned: str, chain: Chain, owned: Iterable[tuple[int, int]]):
        """`owned`: (level, cells), the highest level first."""
        self.virtual_cluster = virtual_cluster
        #: The pinned cell's name; empty for cells that are bound as needed.
        self.pinned = pinned
        self.chain = chain
        self.roots: list[Roots] = []
        leaf = unit = 0
        for level, count in owned:
            size, unit_level = chain.sizes[level], min(level, chain.node_level)
            end = leaf + size * count
            numbers = range(leaf // size, end // size)
            self.roots.append(Roots(level, numbers, leaf, end, unit_level, unit))
            unit += (end - leaf) // chain.sizes[unit_level]
            leaf = end
        self.levels = max((roots.level for roots in self.roots), default=NONE) + 1
        self.gpus = leaf
        sizes = chain.sizes[: self.levels]
        #: By level: virtual cell -> its physical cell, or NONE.
        self.twins = [[NONE] * -(-leaf // size) for size in sizes]
        #: By level: cell -> a set of the children (0 for the first) that have physical cells.
        self.children = [[0] * -(-leaf // size) for size in sizes]
        self.occupants: list[Record | None] = [None] * leaf
        #: Unit -> a set of its free GPUs (0 for the first).
        self.free = [(1 << size) - 1 for size in self._unit_sizes()]
        #: Cell that is owned (level, number) -> GPUs in use; no entry: none.
        self.uses: Counter[tuple[int, int]] = Counter()
        #: Level -> owned cells that have no physical cell.
        self.unbound = {roots.level: len(roots.numbers) for roots in self.roots}
        #: Priority -> GPUs in use with it.
        self.priorities: Counter[int] = Counter()
        self.rooms = Rooms(self._unit_sizes(), self._larger())
        #: Virtual GPU -> how many hold it: who uses it, and who gets it next.
        self.holders: Counter[int] = Counter()

    def _unit_sizes(self) -> list[int]:
        sizes: list[int] = []
        for roots in self.roots:
            size = self.chain.sizes[roots.unit_level]
            sizes += [size] * ((roots.end_leaf - roots.first_leaf) // size)
        return sizes

    def _larger(self) -> list[tuple[int, int]]:
        """Return (units of a cell, cells) for each level above the nodes."""
        sizes, node = self.chain.sizes, self.chain.node_level
        found = []
        for level in range(node + 1, self.levels):
            leaves = max(roots.end_leaf for roots in self.roots if roots.level >= level)
            found.append((sizes[level] // sizes[node], leaves // sizes[level]))
        return found

    # Geometry

    def roots_of(self, leaf: int) -> Roots:
        """Return the owned cells that a virtual GPU is in."""
        for roots in self.roots:
            if leaf < roots.end_leaf:
                return roots
        raise ValueError(f"there is no virtual GPU {leaf}")

    def root_of(self, leaf: int) -> tuple[int, int]:
        """Return the owned cell (level, number) that a virtual GPU is in."""
        level = self.roots_of(leaf).level
        return level, leaf // self.chain.sizes[level]

    def is_root(self, level: int, number: int) -> bool:
        return self.roots_of(number * self.chain.sizes[level]).level == level

    def is_bound(self, level: int, number: int) -> bool:
        return self.twins[level][number] != NONE

    def unit_of(self, leaf: int) -> int:
        roots = self.roots_of(leaf)
        return roots.first_unit + (leaf - roots.first_leaf) // self.chain.sizes[roots.unit_level]

    def unit_cell(self, unit: int) -> Cell:
        """Return the virtual cell that a unit is."""
        for roots in reversed(self.roots):
            if unit >= roots.first_unit:
                size = self.chain.sizes[roots.unit_level]
                number = roots.first_leaf // size + unit - roots.first_unit
                return Cell(self.chain.name, roots.unit_level, number)
        raise ValueError(f"there is no unit {unit}")

    def unit_at(self, level: int, number: int) -> int | None:
        """Return the unit that a cell is; None when it is not one."""
        leaf = number * self.chain.sizes[level]
        return self.unit_of(leaf) if self.roots_of(leaf).unit_level == level else None

    def all_roots(self) -> Iterator[tuple[int, int]]:
        """Yield the owned cells, the largest first."""
        for roots in self.roots:
            yield from ((roots.level, number) for number in roots.numbers)

    def units_within(self, level: int, number: int) -> int:
        """Return the set of units that a cell is made of; the unit it is part of when it is smaller."""
        size = self.chain.sizes[level]
        first, last = self.unit_of(number * size), self.unit_of((number + 1) * size - 1)
        return ((1 << (last - first + 1)) - 1) << first

    def last_unbound(self, level: int) -> int:
        """Return the last owned cell of a level that is not bound. Raises ValueError when all are."""
        return max(
            number
            for roots in self.roots
            for number in roots.numbers
            if roots.level == level and not self.is_bound(level, number)
        )

    def lacking(self, attainable: Mapping[int, int]) -> dict[int, int]:
        """Return by level how many of the unbound owned cells are more than can be had, where any are."""
        lacking = {level: count - attainable[level] for level, count in self.unbound.items()}
        return {level: count for level, count in lacking.items() if count > 0}

    # Use

    def by_unit(self, leaves: Iterable[int]) -> dict[int, int]:
        """Return unit -> the set of its GPUs (0 for the first) that are among these."""
        found: dict[int, int] = {}
        for leaf in leaves:
            roots = self.roots_of(leaf)
            offset, inside = divmod(leaf - roots.first_leaf, self.chain.sizes[roots.unit_level])
            unit = roots.first_unit + offset
            found[unit] = found.get(unit, 0) | 1 << inside
        return found

    def interior(self, unit: int, below: int = 0) -> Interior:
        """Return what is in a unit; `below`: GPUs in use that may be taken all the same."""
        cell = self.unit_cell(unit)
        size, free = self.chain.sizes[cell.level], self.free[unit]
        return Interior(self.chain.sizes[: cell.level + 1], cell.number * size, free, free | below)

    def claim(self, record: Record) -> None:
        """Let a group have its virtual GPUs; whoever has some of them now is displaced."""
        overtaken = []
        for leaf in record.virtual:
            before = self.occupants[leaf]
            self.occupants[leaf] = record
            if before is None:
                continue
            self._count(before, -1)
            if not before.reserving:
                record.displaced[leaf] = before
            else:
                before.virtual.remove(leaf)
                overtaken.append(leaf)
                victim = before.displaced.pop(leaf, None)
                if victim is not None:
                    record.displaced[leaf] = victim
        self._count(record, len(record.virtual))
        self.hold(record.virtual)
        self.let_go(overtaken)

    def leave(self, record: Record) -> list[int]:
        """Take a group's virtual GPUs from it; return those that nobody has now.

        What it has reserved goes back to those who use it still; what others have reserved stays theirs.
        """
        for leaf in record.virtual:
            occupant = self.occupants[leaf]
            assert occupant is not None
            if occupant is not record:
                del occupant.displaced[leaf]
                continue
            self._count(record, -1)
            heir = record.displaced.pop(leaf, None)
            self.occupants[leaf] = heir
            if heir is not None:
                self._count(heir, 1)
        return self.let_go(record.virtual)

    def rejoin(self, record: Record) -> None:
        """Undo `leave`."""
        own = 0
        for leaf in record.virtual:
            occupant = self.occupants[leaf]
            if occupant is None:
                self.occupants[leaf] = record
                own += 1
            else:
                occupant.displaced[leaf] = record
        self._count(record, own)
        self.hold(record.virtual)

    def _count(self, record: Record, gpus: int) -> None:
        priority = record.group.priority
        self.priorities[priority] += gpus
        if not self.priorities[priority]:
            del self.priorities[priority]

    def _change(self, leaves: Iterable[int], sign: int) -> None:
        for unit, bits in self.by_unit(leaves).items():
            self.free[unit] ^= bits
            self.rooms.change(unit, sign * bits.bit_count())
        for leaf in leaves:
            root = self.root_of(leaf)
            self.uses[root] -= sign
            if not self.uses[root]:
                del self.uses[root]

    def hold(self, leaves: Sequence[int]) -> None:
        """Note that someone, one more, holds these virtual GPUs."""
        holders, fresh = self.holders, []
        for leaf in leaves:
            count = holders.get(leaf, 0)
            holders[leaf] = count + 1
            if not count:
                fresh.append(leaf)
        self._change(fresh, -1)

    def let_go(self, leaves: Sequence[int]) -> list[int]:
        """Note that someone holds these virtual GPUs no more; return those that nobody holds now."""
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

    def below(self, priority: int) -> dict[int, int]:
        """Return unit -> the set of its GPUs whose groups have a lower priority."""
        if all(used >= priority for used in self.priorities):
            return {}
        return self.by_unit(
            leaf
            for leaf, occupant in enumerate(self.occupants)
            if occupant is not None and occupant.group.priority < priority
        )

    def rooms_below(self, below: Mapping[int, int]) -> Rooms:
        """Return the rooms as they are when these GPUs, too, may be taken; a unit ranks by how many."""
        rooms = self.rooms.copy()
        for unit, bits in below.items():
            rooms.change(unit, bits.bit_count(), bits.bit_count())
        return rooms
