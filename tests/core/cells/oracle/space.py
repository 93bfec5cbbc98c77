"""The virtual cells of a virtual cluster, and which groups are in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from scheduler.core.cells.chains import Chain
from scheduler.core.cells.virtual import Space
from tests.core.cells.oracle.placer import Interior
from tests.core.cells.oracle.records import Record
from tests.core.cells.oracle.rooms import Rooms


class UsedSpace(Space):
    """Cells with groups in them."""

    def __init__(self, virtual_cluster: str, pinned: str, chain: Chain, owned: Iterable[tuple[int, int]]):
        super().__init__(virtual_cluster, pinned, chain, owned)
        self.occupants: list[Record | None] = [None] * self.gpus
        #: Unit -> a set of its free GPUs (0 for the first).
        self.free = [(1 << size) - 1 for size in self._unit_sizes()]
        #: Priority -> GPUs in use with it.
        self.priorities: Counter[int] = Counter()
        self.rooms = Rooms(self._unit_sizes(), self._larger())

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

    def units_within(self, level: int, number: int) -> int:
        """Return the set of units that a cell is made of; the unit it is part of when it is smaller."""
        size = self.chain.sizes[level]
        first, last = self.unit_of(number * size), self.unit_of((number + 1) * size - 1)
        return ((1 << (last - first + 1)) - 1) << first

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

    def close(self, unit: int) -> None:
        super().close(unit)
        self.rooms.close(unit)

    def open(self, unit: int) -> None:
        super().open(unit)
        self.rooms.open(unit)

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
        super()._change(leaves, sign)
        for unit, bits in self.by_unit(leaves).items():
            self.free[unit] ^= bits
            self.rooms.change(unit, sign * bits.bit_count())

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
