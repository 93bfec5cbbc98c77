"""Groups that run already, and the cells of a new specification.

Nothing is stopped. A guaranteed group keeps its guarantee when its virtual cluster owns cells on the very
GPUs it has, and everybody else can still have all that is owed; else it runs on as opportunistic, until a
later specification has cells for it again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from scheduler.core.cells.chains import Layout, Leaf
from scheduler.core.cells.groups import Reconfigured
from scheduler.core.cells.health import fail
from scheduler.core.cells.pairs import Pair, pair, undo_pairs
from scheduler.core.cells.physical import Hardware
from scheduler.core.cells.records import Record
from scheduler.core.cells.virtual import Space
from scheduler.core.cells.world import World, lowest_cell


@dataclass(frozen=True, slots=True)
class Rebuilt:
    world: World
    records: dict[str, Record]
    changes: Reconfigured


def rebuilt(layout: Layout, records: Iterable[Record], broken: Iterable[str]) -> Rebuilt:
    """Return the world of a layout with the groups that run, and the nodes that are broken.

    Reservations are given up. The groups that have a guarantee come first, of these the highest priorities.
    """
    world = World(layout)
    before = list(records)
    running = [record for record in before if not record.reserving]
    running.sort(key=lambda record: (not record.guaranteed, -record.group.priority, record.number))
    after: dict[int, Record] = {}
    for old in running:
        after[old.number] = _adopted(world, old)
    for name in sorted(broken):
        for hardware, node in world.nodes.get(name, ()):
            fail(world, hardware, node)
    found = {record.group.name: record for _, record in sorted(after.items())}
    changes = Reconfigured(
        lapsed=_changed(running, after, guaranteed=False),
        returned=_changed(running, after, guaranteed=True),
        withdrawn=tuple(record.group.name for record in before if record.reserving),
    )
    return Rebuilt(world, found, changes)


def _changed(running: list[Record], after: dict[int, Record], *, guaranteed: bool) -> tuple[str, ...]:
    return tuple(
        old.group.name
        for old in sorted(running, key=lambda old: old.number)
        if old.guaranteed is not guaranteed and after[old.number].guaranteed is guaranteed
    )


def _adopted(world: World, old: Record) -> Record:
    """Return the record of a group in a new world."""
    held: dict[str, list[int]] = {}
    complete = True
    for pod in old.placement.pods:
        for gpu in pod.gpus:
            chain, leaf = world.layout.where.get(Leaf(pod.node, gpu), (None, 0))
            if chain is None:
                complete = False
            else:
                held.setdefault(chain.name, []).append(leaf)
    record = Record(
        old.number,
        old.group,
        replace(old.placement, guaranteed=False),
        [(world.hardware[name], leaves) for name, leaves in held.items()],
    )
    if complete and len(held) == 1:
        ((hardware, leaves),) = record.held
        record.placement = replace(
            record.placement,
            chain=hardware.chain.name,
            gpu_model=hardware.chain.gpu_model,
            within=lowest_cell(hardware, leaves),
        )
        if not old.group.opportunistic:
            _bind(world, old, record)
    for hardware, leaves in record.held:
        hardware.use(leaves, record)
    return record


def _bind(world: World, old: Record, record: Record) -> None:
    """Give a group back its guarantee, if its virtual cluster owns cells where it runs."""
    ((hardware, leaves),) = record.held
    group, model = old.group, hardware.chain.gpu_model
    if group.pinned_cell is None:
        space = world.spaces.get(group.virtual_cluster, {}).get(hardware.chain.name)
    else:
        space = world.pinned.get(group.virtual_cluster, {}).get(group.pinned_cell)
    if space is None or space.chain is not hardware.chain or group.gpu_model not in (None, model):
        return
    binder = _Adopter(hardware, space, old)
    virtual = binder.bind(leaves)
    if virtual is not None:
        record.space, record.virtual = space, virtual
        record.placement = replace(record.placement, guaranteed=True)
        space.claim(record)


class _Adopter:
    """Binds virtual cells to given physical ones."""

    def __init__(self, hardware: Hardware, space: Space, old: Record) -> None:
        self.hardware, self.space, self.old = hardware, space, old
        self.pairs: list[Pair] = []
        #: Where the space has not changed, virtual cells keep their numbers.
        self.hints: dict[Leaf, int] = {}
        if old.space is not None and _shape(old.space) == _shape(space):
            ((was, leaves),) = old.held
            self.hints = {was.chain.leaves[leaf]: v for leaf, v in zip(leaves, old.virtual, strict=True)}

    def bind(self, leaves: list[int]) -> list[int] | None:
        """Return the virtual GPUs of physical ones; None, with nothing changed, when there are none."""
        first = 0
        for pod in self.old.placement.pods:
            if not self._pod(leaves[first : first + len(pod.gpus)]):
                undo_pairs(self.hardware, self.space, self.pairs)
                return None
            first += len(pod.gpus)
        return [self.hardware.twins[0][leaf] for leaf in leaves]

    def _pod(self, leaves: list[int]) -> bool:
        """Bind the GPUs of one pod, which must be inside one owned cell."""
        root = self.hardware.root_above(0, leaves[0])
        if root is None:
            root = self._new_root(leaves, self._hint(leaves[0]))
        if root is None or self.hardware.roots[root][0] is not self.space:
            return False
        size = self.space.chain.sizes[root[0]]
        if any(leaf // size != root[1] for leaf in leaves):
            return False
        for leaf in leaves:
            self._descend(root, leaf, self._hint(leaf))
        return True

    def _hint(self, leaf: int) -> int | None:
        """Return the virtual GPU that the group has had so far for a physical one."""
        return self.hints.get(self.space.chain.leaves[leaf])

    def _new_root(self, leaves: list[int], hint: int | None) -> tuple[int, int] | None:
        """Bind an owned cell around GPUs: of the level it has been, else the smallest that can be had."""
        pool, sizes = self.hardware.pool, self.space.chain.sizes
        wanted = self._old_level(hint)
        for level in sorted(self.space.unbound, key=lambda level: (level != wanted, level)):
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

    def _old_level(self, hint: int | None) -> int | None:
        old, types = self.old, self.space.chain.types
        if old.space is None:
            return None
        kind = old.space.chain.types[old.space.roots_of(old.virtual[0]).level]
        if hint is not None:
            kind = types[self.space.roots_of(hint).level]
        return types.index(kind) if kind in types else None

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


def _shape(space: Space) -> object:
    return space.chain.sizes, [(roots.level, roots.numbers) for roots in space.roots]
