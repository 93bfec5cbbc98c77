"""Move running groups to the cells of a new specification: find virtual GPUs for the physical ones they hold.

Nothing is stopped. A guaranteed group keeps its guarantee if its virtual cluster owns cells on exactly the
GPUs that the group holds, and all other virtual clusters can still get everything they are owed. Otherwise it
runs on as opportunistic, until a later specification has cells for it again. GPUs that are no longer declared
do not count: they are owed to no virtual cluster, so the group needs the guarantee only for its other GPUs.
A group whose GPUs have all left keeps its guarantee, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from scheduler.core.cells.pairs import Pair, expose_all, pair, undo_pairs
from scheduler.core.cells.physical import Hardware
from scheduler.core.cells.virtual import NONE, Space
from scheduler.core.cells.world import World

#: Virtual GPUs by space.
Seats = Sequence[tuple[Hardware, Space, list[int]]]


def adopt(
    world: World,
    vc: str,
    pods: Iterable[tuple[str, Sequence[int]]],
    hints: Mapping[str, Mapping[int, int]],
    *,
    pinned: str = "",
    level: int | None = None,
) -> Seats | None:
    """Bind virtual GPUs of a virtual cluster to the given physical ones, all or none.

    `pods` has the chain and GPUs of each pod; `pinned` is the name of the pinned cell that must hold them.
    `hints`, by chain, and `level` are those of Adopter.
    """
    adopters: dict[Space, Adopter] = {}
    seats: dict[Space, tuple[Hardware, Space, list[int]]] = {}
    for chain, leaves in pods:
        hardware = world.hardware[chain]
        root = hardware.root_above(0, leaves[0])
        space = world.spaces.get(vc, {}).get(chain) if root is None else hardware.roots[root][0]
        if space is not None and (space.virtual_cluster, space.pinned) == (vc, pinned):
            if space not in adopters:
                adopters[space] = Adopter(hardware, space, hints.get(chain, {}), level)
            if adopters[space].bind([leaves]):
                seat = seats.setdefault(space, (hardware, space, []))
                seat[2].extend(hardware.twins[0][leaf] for leaf in leaves)
                continue
        for adopter in adopters.values():
            adopter.undo()
        return None
    for adopter in adopters.values():
        adopter.expose_broken()
    return list(seats.values())


class Adopter:
    """Binds virtual cells of a space to given physical ones."""

    def __init__(
        self, hardware: Hardware, space: Space, hints: Mapping[int, int], level: int | None = None
    ) -> None:
        """`hints` maps physical GPUs to their former virtual ones; `level` is that of a new owned cell."""
        self.hardware, self.space, self.hints, self.level = hardware, space, hints, level
        self.pairs: list[Pair] = []

    def bind(self, pods: Iterable[Sequence[int]]) -> bool:
        """Bind pods, each inside one owned cell. If that fails, unbind everything and return False."""
        for leaves in pods:
            if not self._pod(leaves):
                self.undo()
                return False
        return True

    def expose_broken(self) -> None:
        """Let the virtual cluster see what is broken in the owned cells that are bound now.

        This comes last, so that running groups find their former virtual cells.
        """
        for level, virtual, physical in self.pairs:
            if self.space.is_root(level, virtual):
                expose_all(self.hardware, self.space, level, physical)

    def undo(self) -> None:
        """Unbind what was bound."""
        undo_pairs(self.hardware, self.space, self.pairs)
        self.pairs.clear()

    def _pod(self, leaves: Sequence[int]) -> bool:
        root = self.hardware.root_above(0, leaves[0])
        if root is None:
            root = self._new_root(leaves, self.hints.get(leaves[0]))
        if root is None or self.hardware.roots[root][0] is not self.space:
            return False
        size = self.space.chain.sizes[root[0]]
        if any(leaf // size != root[1] for leaf in leaves):
            return False
        for leaf in leaves:
            if self.hardware.twins[0][leaf] == NONE:
                self._descend(root, leaf, self.hints.get(leaf))
        return True

    def _new_root(self, leaves: Sequence[int], hint: int | None) -> tuple[int, int] | None:
        """Bind an owned cell around GPUs, at its former level if possible, else at the lowest available."""
        pool, sizes = self.hardware.pool, self.space.chain.sizes
        target = self.level if hint is None else self.space.roots_of(hint).level
        for level in sorted(self.space.unbound, key=lambda level: (level != target, level)):
            number = leaves[0] // sizes[level]
            free = pool.source(level, number)
            if (
                self.space.unbound[level]
                and all(leaf // sizes[level] == number for leaf in leaves)
                and free is not None
                and pool.may_split(free[0], level, owed=True)
            ):
                virtual = self._virtual_root(level, hint)
                self.pairs.append(pair(self.hardware, self.space, level, virtual, number))
                return level, number
        return None

    def _virtual_root(self, level: int, hint: int | None) -> int:
        if hint is not None:
            number = hint // self.space.chain.sizes[level]
            if self.space.is_root(level, number) and not self.space.is_bound(level, number):
                return number
        return next(
            number
            for of, number in self.space.all_roots()
            if of == level and not self.space.is_bound(level, number)
        )

    def _descend(self, root: tuple[int, int], leaf: int, hint: int | None) -> None:
        level, physical = root
        chain = self.space.chain
        virtual = self.hardware.twins[level][physical]
        while level:
            level, fanout = level - 1, chain.fanouts[level]
            physical = leaf // chain.sizes[level]
            if not self.hardware.children[level + 1][physical // fanout] >> physical % fanout & 1:
                unbound = ~self.space.children[level + 1][virtual] & ((1 << fanout) - 1)
                child = (unbound & -unbound).bit_length() - 1
                if hint is not None:
                    same = hint // chain.sizes[level]
                    if same // fanout == virtual and unbound >> same % fanout & 1:
                        child = same % fanout
                self.pairs.append(pair(self.hardware, self.space, level, virtual * fanout + child, physical))
            virtual = self.hardware.twins[level][physical]
