"""How a group gets its GPUs: guaranteed ones through virtual cells, opportunistic ones on idle hardware."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from scheduler.core.cells.mapping import Binder, Unbindable
from scheduler.core.cells.pairs import Pair, release
from tests.core.cells.oracle.groups import Group, Placement, Preempt
from tests.core.cells.oracle.hardware import UsedHardware
from tests.core.cells.oracle.placer import gpus_in, place, shape_of
from tests.core.cells.oracle.records import Record
from tests.core.cells.oracle.space import UsedSpace
from tests.core.cells.oracle.undoing import redo_pairs
from tests.core.cells.oracle.world import lowest_cell, pods_of


@dataclass(frozen=True, slots=True)
class GroupGrant:
    """A group has GPUs, or reserved ones; and what that means to others."""

    record: Record
    answer: Placement | Preempt
    withdrawn: tuple[Record, ...] = ()


def grant_opportunistic(
    group: Group, number: int, hardware: UsedHardware, usable: int | None, *, dry_run: bool
) -> GroupGrant | Placement | None:
    """Let a group have idle GPUs of a chain, away from guaranteed groups; None when there are too few.

    A Placement by itself is that of a dry run, and has changed nothing.
    """
    units = place(hardware.rooms, shape_of(group.members), usable)
    if units is None:
        return None
    pods = gpus_in(units, group.members, hardware.interior)
    leaves = [leaf for pod in pods for leaf in pod]
    record = Record(number, group, _placement(group, hardware, pods, guaranteed=False), [(hardware, leaves)])
    if dry_run:
        return record.placement
    hardware.use(leaves, record)
    return GroupGrant(record, record.placement)


class GuaranteedRequest:
    """A guaranteed group looks for cells of its virtual cluster."""

    def __init__(
        self, group: Group, number: int, hardware: UsedHardware, space: UsedSpace, usable: int | None
    ) -> None:
        """`usable`: the set of nodes that it may use, all where it is None."""
        self.group, self.number, self.hardware, self.space = group, number, hardware, space
        self.usable = usable
        self.kept = hardware.kept_from(group)

    def grant(
        self, *, preempting: bool, reserve: bool, dry_run: bool
    ) -> GroupGrant | Placement | Preempt | None:
        """Let the group have cells; None when there are none for it.

        `preempting`: cells of groups with a lower priority will do as well. Others than those of the virtual
        cluster's groups never matter to which virtual cells it gets. A Preempt by itself has changed nothing,
        nor has the Placement of a dry run.
        """
        below = self.space.below(self.group.priority) if preempting else {}
        if preempting and not below:
            return None
        rooms = self.space.rooms_below(below) if below else self.space.rooms
        shape, among = shape_of(self.group.members), self._among()
        while True:
            units = place(rooms, shape, among, clear=not below)
            if units is None:
                return None
            pods = gpus_in(
                units, self.group.members, lambda unit: self.space.interior(unit, below.get(unit, 0))
            )
            # What a lapsing group leaves behind may be the last hardware there is; then it must stop.
            for lapse in (True, False):
                try:
                    return self._take(pods, reserve=reserve, lapse=lapse, dry_run=dry_run)
                except Unbindable as problem:
                    unbindable = self._equals(problem)
            everything = (1 << len(self.space.free)) - 1
            among = (everything if among is None else among) & ~unbindable

    def _among(self) -> int | None:
        """Return the set of units that are not known to be on nodes which may not be used."""
        if self.usable is None:
            return None
        found, chain = 0, self.hardware.chain
        for unit in range(len(self.space.free)):
            cell = self.space.unit_cell(unit)
            physical = self.space.twins[cell.level][cell.number]
            if physical < 0 or self.usable >> chain.above(cell.level, physical, chain.node_level) & 1:
                found |= 1 << unit
        return found

    def _equals(self, problem: Unbindable) -> int:
        """Return the units that can no more be bound than the one that could not."""
        space, level, number = self.space, problem.level, problem.number
        found = space.units_within(level, number)
        if space.is_root(level, number):
            for roots in space.roots:
                for other in roots.numbers if roots.level == level else ():
                    if not space.is_bound(level, other):
                        found |= space.units_within(level, other)
        return found

    def _take(
        self, pods: list[list[int]], *, reserve: bool, lapse: bool, dry_run: bool
    ) -> GroupGrant | Placement | Preempt:
        """Take these virtual GPUs. Raises Unbindable, with nothing changed.

        `lapse`: groups in the way that may lapse do not stop.
        """
        hardware, space = self.hardware, self.space
        virtual = [leaf for pod in pods for leaf in pod]
        occupants = in_order(space.occupants[leaf] for leaf in virtual)
        lazy = [each for each in occupants if each.group.lazy_preemption and not each.reserving]
        lapses = [Lapse(each) for each in lazy if lapse]
        binder = Binder(hardware, space, self.usable, self.kept)
        try:
            leaves = binder.bind(virtual)
        except Unbindable:
            _undo(lapses)
            raise
        preemptors = tuple(each for each in occupants if each.reserving)
        victims = in_order(hardware.users[leaf] for leaf in leaves)
        physical = iter(leaves)
        placement = replace(
            _placement(self.group, hardware, [[next(physical) for _ in pod] for pod in pods]),
            lapsed=tuple(lapse.record.group.name for lapse in lapses),
            withdrawn=tuple(each.group.name for each in preemptors),
        )
        preempt = Preempt(
            group=self.group.name,
            victims=tuple(victim.group.name for victim in victims),
            placement=placement,
            reserved=reserve and not dry_run,
        )
        if dry_run or (victims and not reserve):
            binder.undo()
            _undo(lapses)
            return preempt if victims else placement
        kept = replace(placement, lapsed=(), withdrawn=())
        record = Record(self.number, self.group, kept, [(hardware, leaves)], space, virtual, bool(victims))
        space.claim(record)
        for each in preemptors:
            give_up(each)
        if victims:
            hardware.reserve(leaves, record)
        else:
            hardware.use(leaves, record)
        return GroupGrant(record, preempt if victims else placement, preemptors)


def give_up(record: Record) -> None:
    """Take all that a group has, or has reserved, from it."""
    for hardware, leaves in record.held:
        if record.reserving:
            hardware.unreserve(leaves, record)
        else:
            hardware.vacate(leaves)
        if record.space is not None:
            release(hardware, record.space, record.space.leave(record))


class Lapse:
    """A group has lost its virtual cells and runs on as opportunistic."""

    def __init__(self, record: Record) -> None:
        assert record.space is not None
        self.record, self.space = record, record.space
        ((self.hardware, self.leaves),) = record.held
        self.hardware.vacate(self.leaves)
        self.pairs: list[Pair] = release(self.hardware, self.space, self.space.leave(record))
        record.space = None
        record.placement = replace(record.placement, guaranteed=False)
        self.hardware.use(self.leaves, record)

    def undo(self) -> None:
        record = self.record
        self.hardware.vacate(self.leaves)
        record.space = self.space
        record.placement = replace(record.placement, guaranteed=True)
        redo_pairs(self.hardware, self.space, self.pairs)
        self.space.rejoin(record)
        self.hardware.use(self.leaves, record)


def _undo(lapses: list[Lapse]) -> None:
    for lapse in reversed(lapses):
        lapse.undo()


def in_order(records: Iterable[Record | None]) -> list[Record]:
    """Return the records there are, each once, in the order of their start."""
    found = {record.number: record for record in records if record is not None}
    return [found[number] for number in sorted(found)]


def _placement(
    group: Group, hardware: UsedHardware, pods: list[list[int]], *, guaranteed: bool = True
) -> Placement:
    return Placement(
        group=group.name,
        guaranteed=guaranteed,
        gpu_model=hardware.chain.gpu_model,
        chain=hardware.chain.name,
        pods=pods_of(hardware, pods),
        within=lowest_cell(hardware, [leaf for pod in pods for leaf in pod]),
    )
