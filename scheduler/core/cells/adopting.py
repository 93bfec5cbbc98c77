"""Groups that run already, and the cells of a new specification: their physical GPUs are given, and virtual
ones are found for them.

Nothing is stopped. A guaranteed group keeps its guarantee when its virtual cluster owns cells on the
very GPUs it has, and everybody else can still have all that is owed; else it runs on as opportunistic,
until a later specification has cells for it again. GPUs that are no longer declared are left out of
this: nobody can be owed them, so the guarantee for the others is all that the group needs. A group whose
GPUs have all left keeps its guarantee as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from scheduler.core.cells.chains import Layout, Leaf
from scheduler.core.cells.groups import Reconfiguration
from scheduler.core.cells.health import fail, settle
from scheduler.core.cells.pairs import Pair, expose_all, pair, undo_pairs
from scheduler.core.cells.physical import Hardware
from scheduler.core.cells.records import Record
from scheduler.core.cells.virtual import NONE, Space
from scheduler.core.cells.world import World, lowest_cell

#: Virtual GPUs, space by space.
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
    """Bind virtual GPUs of a virtual cluster to those given, all or none.

    `pods`: chain and GPUs of each; `pinned`: the name of the pinned cell in which they must be; `hints` by
    chain and `level` as for Adopter.
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
        """`hints`: physical GPU -> the virtual one that it stood for; `level`: of a new owned cell."""
        self.hardware, self.space, self.hints, self.level = hardware, space, hints, level
        self.pairs: list[Pair] = []

    def bind(self, pods: Iterable[Sequence[int]]) -> bool:
        """Bind pods, each inside one owned cell; return False, with nothing left bound, if that fails."""
        for leaves in pods:
            if not self._pod(leaves):
                self.undo()
                return False
        return True

    def expose_broken(self) -> None:
        """Let the virtual cluster see what is broken in the owned cells that are bound now.

        Last, so that what runs finds the virtual cells that it had.
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
        """Bind an owned cell around GPUs: of the level it has been, else the smallest that can be had."""
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


@dataclass(frozen=True, slots=True)
class Rebuild:
    world: World
    records: dict[str, Record]
    changes: Reconfiguration


def rebuild(layout: Layout, records: Iterable[Record], broken: Iterable[str]) -> Rebuild:
    """Return the world of a layout with the groups that run, and the nodes that are broken.

    Reservations are given up. The groups that have a guarantee come first, of these the highest priorities.
    """
    world = World(layout)
    before = list(records)
    running = [record for record in before if not record.reserving]
    running.sort(key=lambda record: (not record.guaranteed, -record.group.priority, record.number))
    after: dict[int, Record] = {}
    for old in running:
        after[old.number] = adopted(world, old)
    for name in sorted(broken):
        for hardware, node in world.nodes.get(name, ()):
            fail(hardware, node)
    for hardware in world.hardware.values():
        settle(world, hardware)
    found = {record.group.name: record for _, record in sorted(after.items())}
    changes = Reconfiguration(
        lapsed=_changed(running, after, guaranteed=False),
        returned=_changed(running, after, guaranteed=True),
        withdrawn=tuple(record.group.name for record in before if record.reserving),
    )
    return Rebuild(world, found, changes)


def _changed(running: list[Record], after: dict[int, Record], *, guaranteed: bool) -> tuple[str, ...]:
    return tuple(
        old.group.name
        for old in sorted(running, key=lambda old: old.number)
        if old.guaranteed is not guaranteed and after[old.number].guaranteed is guaranteed
    )


def adopted(world: World, old: Record) -> Record:
    """Let a group that runs have its GPUs in a world; return its record there."""
    held: dict[str, list[int]] = {}
    pods: list[list[int]] = []
    for pod in old.placement.pods:
        pods.append([])
        for gpu in pod.gpus:
            chain, leaf = world.layout.where.get(Leaf(pod.node, gpu), (None, 0))
            if chain is not None:
                held.setdefault(chain.name, []).append(leaf)
                pods[-1].append(leaf)
    record = Record(
        old.number,
        old.group,
        replace(old.placement, guaranteed=False),
        [(world.hardware[name], leaves) for name, leaves in held.items()],
    )
    if len(held) == 1:
        ((hardware, leaves),) = record.held
        record.placement = replace(
            record.placement,
            chain=hardware.chain.name,
            gpu_model=hardware.chain.gpu_model,
            within=lowest_cell(hardware, leaves),
        )
        if not old.group.opportunistic:
            _bind(world, old, record, [pod for pod in pods if pod])
    record.placement = replace(record.placement, guaranteed=record.guaranteed)
    record.keeps_priority = not record.guaranteed and (old.guaranteed or old.keeps_priority)
    for hardware, leaves in record.held:
        hardware.use(leaves, record)
    return record


def _bind(world: World, old: Record, record: Record, pods: Iterable[Sequence[int]]) -> None:
    """Give a group back its guarantee, if its virtual cluster owns cells where its pods run."""
    ((hardware, leaves),) = record.held
    group, model = old.group, hardware.chain.gpu_model
    if group.pinned_cell is None:
        space = world.spaces.get(group.virtual_cluster, {}).get(hardware.chain.name)
    else:
        space = world.pinned.get(group.virtual_cluster, {}).get(group.pinned_cell)
    if space is None or space.chain is not hardware.chain or group.gpu_model not in (None, model):
        return
    hints: dict[int, int] = {}
    if old.space is not None and _shape(old.space) == _shape(space):
        # Where the space has not changed, virtual cells keep their numbers.
        ((was, had),) = old.held
        stood = {was.chain.leaves[leaf]: virtual for leaf, virtual in zip(had, old.virtual, strict=True)}
        hints = {leaf: stood[gpu] for leaf in leaves if (gpu := hardware.chain.leaves[leaf]) in stood}
    name, vc, pinned = hardware.chain.name, group.virtual_cluster, group.pinned_cell or ""
    where = [(name, pod) for pod in pods]
    seats = adopt(world, vc, where, {name: hints}, pinned=pinned, level=_old_level(old, space))
    if seats is not None:
        ((_, record.space, record.virtual),) = seats
        space.claim(record)


def _old_level(old: Record, space: Space) -> int | None:
    """Return the level of the owned cell that a group has been in, where there still is such a type."""
    if old.space is None:
        return None
    kind = old.space.chain.types[old.space.roots_of(old.virtual[0]).level]
    return space.chain.types.index(kind) if kind in space.chain.types else None


def _shape(space: Space) -> object:
    return space.chain.sizes, [(roots.level, roots.numbers) for roots in space.roots]
