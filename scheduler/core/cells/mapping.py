"""Choose the physical cells to which virtual cells are bound.

Any free cell of the right type will do for a virtual cell (HiveD, section 3.2, "dynamic binding"). The choice
that disturbs the fewest GPUs of opportunistic groups wins. A binding can fail only because a caller restricts
the nodes: the healthy free cells always suffice for what is owed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scheduler.core.cells.health import attainable
from scheduler.core.cells.pairs import Pair, pair, undo_pairs
from scheduler.core.cells.physical import Hardware
from scheduler.core.cells.virtual import NONE, Space
from scheduler.core.model.bits import members


class Unbindable(Exception):
    """No physical cell will do for a virtual one, which the message names."""

    def __init__(self, level: int, number: int) -> None:
        super().__init__(level, number)
        self.level, self.number = level, number


class Binder:
    """Binds the virtual GPUs that a group needs, and all the cells that contain them."""

    def __init__(self, hardware: Hardware, space: Space, usable: int | None = None, kept: int = 0) -> None:
        """`usable` is the set of nodes that may be used, or None for all.

        `kept` is the set of GPUs that stay with the groups that hold them.
        """
        self.hardware, self.space, self.usable, self.kept = hardware, space, usable, kept
        self.sizes = hardware.chain.sizes
        #: What has been bound.
        self.pairs: list[Pair] = []

    def bind(self, leaves: Sequence[int]) -> list[int]:
        """Return the physical GPUs; raise Unbindable, with nothing changed, when there are none."""
        roots: dict[tuple[int, int], list[int]] = {}
        for leaf in leaves:
            roots.setdefault(self.space.root_of(leaf), []).append(leaf)
        try:
            for (level, number), inside in roots.items():
                if not self.space.is_bound(level, number):
                    physical = self._owned_cell(level, inside)
                    if physical is None:
                        raise Unbindable(level, number)
                    self._pair(level, number, physical)
                self._descend(level, number, inside)
        except Unbindable:
            self.undo()
            raise
        return [self.space.twins[0][leaf] for leaf in leaves]

    def undo(self) -> None:
        """Unbind what was bound."""
        undo_pairs(self.hardware, self.space, self.pairs)
        self.pairs.clear()

    def _pair(self, level: int, virtual: int, physical: int) -> None:
        self.pairs.append(pair(self.hardware, self.space, level, virtual, physical))

    def _descend(self, level: int, number: int, leaves: Sequence[int]) -> None:
        """Bind the cells that the GPUs need inside a bound cell."""
        if level == 0:
            return
        needs, bound = self._by_child(level, leaves), self.space.twins[level - 1]
        fresh = {child: inside for child, inside in needs.items() if bound[child] == NONE}
        if fresh:
            physical = self.space.twins[level][number]
            taken = self.hardware.children[level][physical]
            options = [
                child
                for place, child in enumerate(self.hardware.chain.within(level, physical, level - 1))
                if not taken >> place & 1
            ]
            undisturbed = not self.hardware.opportunistic[level][physical]
            matched = self._match(level - 1, fresh, options, undisturbed=undisturbed)
            if matched is None:
                raise Unbindable(level - 1, next(iter(fresh)))
            for child, option in matched.items():
                self._pair(level - 1, child, option)
        if level > 1:
            for child, inside in needs.items():
                self._descend(level - 1, child, inside)

    def _by_child(self, level: int, leaves: Sequence[int]) -> dict[int, list[int]]:
        size = self.sizes[level - 1]
        if size == 1:
            return {leaf: [leaf] for leaf in leaves}
        needs: dict[int, list[int]] = {}
        for leaf in leaves:
            needs.setdefault(leaf // size, []).append(leaf)
        return needs

    def _match(
        self,
        level: int,
        needs: dict[int, list[int]],
        options: Sequence[int],
        *,
        undisturbed: bool = False,
    ) -> dict[int, int] | None:
        """Return one of the physical `options` for each virtual cell, or None when they do not suffice.

        The neediest virtual cell chooses first. When all options that would do for a cell are taken, their
        holders look for others (augmenting paths, which find a complete matching wherever there is one).

        `undisturbed`: the options, in ascending order, have no GPUs of opportunistic groups.
        """
        if undisturbed and self.usable is None and not self.kept and len(needs) <= len(options):
            # Any option fits and none costs more than another, so the first ones are the best.
            neediest = sorted(needs, key=lambda virtual: (-len(needs[virtual]), virtual))
            return dict(zip(neediest, options, strict=False))
        given: dict[int, int] = {}

        def give(virtual: int, visited: set[int]) -> bool:
            leaves = needs[virtual]
            fitting = [option for option in options if self._fits(level, leaves, option)]
            fitting.sort(key=lambda option: self._cost(level, leaves, option))
            for option in fitting:
                if option not in given:
                    given[option] = virtual
                    return True
            for option in fitting:
                if option not in visited:
                    visited.add(option)
                    if give(given[option], visited):
                        given[option] = virtual
                        return True
            return False

        for virtual in sorted(needs, key=lambda virtual: (-len(needs[virtual]), virtual)):
            if not give(virtual, set()):
                return None
        return {virtual: option for option, virtual in given.items()}

    def _fits(self, level: int, leaves: Sequence[int], physical: int) -> bool:
        """Return whether a physical cell without anything bound has room for these GPUs of a cell."""
        if self.usable is None and not self.kept:
            return True
        chain = self.hardware.chain
        if level <= chain.node_level:
            node = chain.above(level, physical, chain.node_level)
            if self.usable is not None and not self.usable >> node & 1:
                return False
            if not self.kept & chain.set_within(level, physical, 0):
                return True
            if level == 0:
                return False
        children = chain.within(level, physical, level - 1)
        return self._match(level - 1, self._by_child(level, leaves), children) is not None

    def _cost(self, level: int, leaves: Sequence[int], physical: int) -> tuple[int, int, int]:
        """Return the cost of a cell for these GPUs: opportunistic GPUs disturbed, those in it, its number."""
        opportunistic = self.hardware.opportunistic[level][physical]
        return self._disturbed(level, leaves, physical), opportunistic, physical

    def _disturbed(self, level: int, leaves: Sequence[int], physical: int) -> int:
        """Return how many GPUs opportunistic groups would lose in a cell without anything bound.

        Its children go to the neediest first, as in `_match`. That need not be the best way, but it was in a
        thousand random clusters in which all ways were tried.
        """
        opportunistic, size = self.hardware.opportunistic[level][physical], self.sizes[level]
        if opportunistic == 0 or len(leaves) == size:
            return opportunistic
        least = max(0, len(leaves) - size + opportunistic)
        if least == len(leaves) or level == 0 or self.sizes[level - 1] == 1:
            return least
        children = list(self.hardware.chain.within(level, physical, level - 1))
        total = 0
        for inside in sorted(self._by_child(level, leaves).values(), key=len, reverse=True):
            costs = [self._cost(level - 1, inside, child) for child in children]
            best = min(costs)
            total += best[0]
            children.remove(best[-1])
        return total

    def _owned_cell(self, level: int, leaves: Sequence[int]) -> int | None:
        """Return the best healthy cell of the pool for an owned cell, or None.

        The smallest free cell is split, unless a larger one disturbs fewer opportunistic GPUs and may be
        split without loss for what is owed.
        """
        pool, broken = self.hardware.pool, bool(self.hardware.broken)
        best: tuple[int, int, int] | None = None
        for source in range(level, len(pool.free)):
            if not pool.free[source] or not pool.may_split(source, level, owed=True):
                continue
            for number in self._free_cells(source, level):
                cost = self._cost(level, leaves, number)
                if (
                    (best is None or cost < best)
                    and self._fits(level, leaves, number)
                    and not (broken and self._is_too_dear(level, number))
                ):
                    best = cost
                    if cost[1] == 0:
                        return number
            if best is not None and best[0] == 0:
                return best[2]
        return None if best is None else best[2]

    def _free_cells(self, source: int, level: int) -> Iterator[int]:
        """Yield the cells of a level with usable nodes in free cells of level `source`, in order."""
        free, chain = self.hardware.pool.free[source], self.hardware.chain
        if self.usable is None:
            for start in members(free):
                yield from chain.within(source, start, level)
            return
        last = NONE
        for node in members(self.usable):
            if level > chain.node_level:
                number = chain.above(chain.node_level, node, level)
                cells = range(number, number + 1)
            else:
                cells = chain.within(chain.node_level, node, level)
            for number in cells:
                if number != last and free >> chain.above(level, number, source) & 1:
                    yield number
                last = number

    def _is_too_dear(self, level: int, number: int) -> bool:
        """Return whether a cell is broken, or would leave its virtual cluster too few healthy ones.

        All owned cells that are not doomed can be bound together, so some cell is always affordable.
        """
        if self.hardware.is_bad(level, number):
            return True
        self.hardware.take(level, number)
        self.space.unbound[level] -= 1
        lacks = self.space.lacking(attainable(self.hardware, self.space.unbound))
        self.space.unbound[level] += 1
        self.hardware.give_back(level, number)
        return bool(lacks)
