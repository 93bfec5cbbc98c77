"""Groups that run already in the cells of a new specification."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from scheduler.core.cells.adopting import adopt
from scheduler.core.cells.chains import Layout, Leaf
from scheduler.core.cells.health import fail, settle
from tests.core.cells.oracle.groups import Reconfiguration
from tests.core.cells.oracle.records import Record
from tests.core.cells.oracle.space import UsedSpace
from tests.core.cells.oracle.world import UsedWorld, lowest_cell


@dataclass(frozen=True, slots=True)
class Rebuild:
    world: UsedWorld
    records: dict[str, Record]
    changes: Reconfiguration


def rebuild(layout: Layout, records: Iterable[Record], broken: Iterable[str]) -> Rebuild:
    """Return the world of a layout with the groups that run, and the nodes that are broken.

    Reservations are given up. The groups that have a guarantee come first, of these the highest priorities.
    """
    world = UsedWorld(layout)
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


def adopted(world: UsedWorld, old: Record) -> Record:
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


def _bind(world: UsedWorld, old: Record, record: Record, pods: Iterable[Sequence[int]]) -> None:
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
        ((_, _, record.virtual),) = seats
        record.space = space
        space.claim(record)


def _old_level(old: Record, space: UsedSpace) -> int | None:
    """Return the level of the owned cell that a group has been in, where there still is such a type."""
    if old.space is None:
        return None
    kind = old.space.chain.types[old.space.roots_of(old.virtual[0]).level]
    return space.chain.types.index(kind) if kind in space.chain.types else None


def _shape(space: UsedSpace) -> object:
    return space.chain.sizes, [(roots.level, roots.numbers) for roots in space.roots]
