"""What is always true of a cell state (I1 to I9 of HiveD as built here); tests ask after every step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from scheduler.core.cells.health import attainable
from scheduler.core.cells.physical import Hardware
from scheduler.core.cells.pool import Pool
from scheduler.core.cells.virtual import NONE, Space
from scheduler.core.cells.world import World
from scheduler.core.model.bits import members
from tests.core.cells.oracle.hardware import GUARANTEED, IDLE, RESERVED, UsedHardware
from tests.core.cells.oracle.records import Record
from tests.core.cells.oracle.rooms import Rooms
from tests.core.cells.oracle.space import UsedSpace
from tests.core.cells.oracle.world import UsedWorld


def check(world: UsedWorld, records: Iterable[Record]) -> None:
    """Raise AssertionError when something is wrong with the cells or the groups in them."""
    check_cells(world)
    for hardware in world.hardware.values():
        _check_counts(hardware)
    for spaces in (*world.spaces.values(), *world.pinned.values()):
        for space in spaces.values():
            _check_use(space)
    _check_groups(list(records))


def check_cells(world: World) -> None:
    """Raise AssertionError when something is wrong with the cells, whoever has them."""
    for hardware in world.hardware.values():
        _check_partition(hardware)
    for spaces in (*world.spaces.values(), *world.pinned.values()):
        for space in spaces.values():
            _check_space(world.hardware[space.chain.name], space)
    for hardware in world.hardware.values():
        owed = Counter[int]()
        for spaces in world.spaces.values():
            if hardware.chain.name in spaces:
                owed.update(spaces[hardware.chain.name].unbound)
        assert list(hardware.pool.owed) == [owed[level] for level in range(hardware.chain.top + 1)]
        for level, number in hardware.doomed:
            assert hardware.is_bad(level, number), "only broken cells are doomed"
        assert shortage(hardware.pool) is None, "I1: what is free holds what is owed"
        for spaces in world.spaces.values():
            its = spaces.get(hardware.chain.name)
            if its is not None:
                lacking = its.lacking(attainable(hardware, its.unbound))
                assert not lacking, "what is not doomed can be had healthy"


def shortage(pool: Pool) -> int | None:
    """Return the highest level of which less is free than is owed; None when all is there."""
    return next((level for level in reversed(range(len(pool.free))) if pool.spare(level) < 0), None)


def _check_partition(hardware: Hardware) -> None:
    """I2, I3: free and bound cells make up the chain, each GPU is in one of them; merged."""
    chain, pool = hardware.chain, hardware.pool
    where = [0] * len(chain.leaves)
    for level, number in [
        *((level, number) for level, free in enumerate(pool.free) for number in members(free)),
        *hardware.roots,
    ]:
        for leaf in chain.within(level, number, 0):
            where[leaf] += 1
    for leaf, times in enumerate(where):
        assert times == 1, f"I2: GPU {leaf} is in {times} cells"
    for level in range(chain.top):
        for parent in range(chain.count(level + 1)):
            family = chain.set_within(level + 1, parent, level)
            assert pool.free[level] & family != family, "I3: free siblings are merged"


def _check_counts(hardware: UsedHardware) -> None:
    """I5, I6: what is counted is what is there."""
    chain, node_level = hardware.chain, hardware.chain.node_level
    size = chain.sizes[node_level]
    kinds = [hardware._kind(leaf) for leaf in range(len(chain.leaves))]
    for node in range(len(hardware.idle)):
        inside = kinds[node * size : (node + 1) * size]
        assert hardware.idle[node] == sum(1 << n for n, kind in enumerate(inside) if kind == IDLE)
        assert hardware.rooms.free[node] == inside.count(IDLE)
        assert hardware.rooms.ranks[node] == sum(kind in (GUARANTEED, RESERVED) for kind in inside)
        assert (node in hardware.rooms.closed) == (node in hardware.broken)
    for level, counts in enumerate(hardware.opportunistic):
        for number, count in enumerate(counts):
            assert count == sum(kinds[leaf][2] for leaf in chain.within(level, number, 0))
    for level in range(chain.top + 1):
        for number in range(chain.count(level)):
            nodes = {chain.above(0, leaf, node_level) for leaf in chain.within(level, number, 0)}
            assert hardware.is_bad(level, number) == bool(nodes & hardware.broken)
    _check_rooms(hardware.rooms)


def _check_rooms(rooms: Rooms) -> None:
    for ratio, sums in rooms.larger:
        for cell, total in enumerate(sums):
            units = range(cell * ratio, (cell + 1) * ratio)
            assert total == sum(rooms.free[unit] for unit in units if unit not in rooms.closed)
    assert rooms.total_free == sum(free for unit, free in enumerate(rooms.free) if unit not in rooms.closed)


def _check_space(hardware: Hardware, space: Space) -> None:
    """The bindings of a space are one to one, along the tree, and no more than is needed."""
    chain = space.chain
    for level, twins in enumerate(space.twins):
        for virtual, physical in enumerate(twins):
            if physical == NONE:
                continue
            assert hardware.twins[level][physical] == virtual
            if space.is_root(level, virtual):
                assert hardware.roots[level, physical] == (space, virtual)
                assert space.pinned or space.uses[level, virtual] or (level, physical) in hardware.doomed
            else:
                fanout = chain.fanouts[level + 1]
                assert space.twins[level + 1][virtual // fanout] == physical // fanout
                assert space.children[level + 1][virtual // fanout] >> virtual % fanout & 1
                assert hardware.children[level + 1][physical // fanout] >> physical % fanout & 1
    for leaf in +space.holders:
        assert space.is_bound(0, leaf)
    units = range(space.unit_of(space.gpus - 1) + 1 if space.gpus else 0)
    for unit in units:
        cell = space.unit_cell(unit)
        physical = space.twins[cell.level][cell.number]
        bad = physical != NONE and hardware.is_bad(cell.level, physical)
        assert (unit in space.closed) == bad, "what is broken is known to its virtual cluster"
    for (level, number), (owner, _) in hardware.roots.items():
        for node in chain.within(level, number, chain.node_level) if level > chain.node_level else ():
            if owner is space and node in hardware.broken:
                assert hardware.twins[chain.node_level][node] != NONE, "broken nodes are bound"
    for roots in space.roots:
        unbound = sum(not space.is_bound(roots.level, number) for number in roots.numbers)
        assert unbound == space.unbound[roots.level]


def _check_use(space: UsedSpace) -> None:
    """I5: what is counted of a space is what is there."""
    for leaf, occupant in enumerate(space.occupants):
        assert (occupant is not None) <= (space.holders[leaf] > 0)
    for unit, free in enumerate(space.free):
        cell = space.unit_cell(unit)
        leaves = space.chain.within(cell.level, cell.number, 0)
        assert free == sum(1 << n for n, leaf in enumerate(leaves) if not space.holders[leaf])
        assert space.rooms.free[unit] == free.bit_count()
    assert space.rooms.closed == space.closed
    _check_rooms(space.rooms)


def _check_groups(records: list[Record]) -> None:
    """I6, I7, I8, I9: groups hold what they are said to hold, whole, and nobody else's."""
    by_chain: Counter[UsedHardware] = Counter()
    for record in records:
        for hardware, leaves in record.held:
            assert len(set(leaves)) == len(leaves)
            by_chain[hardware] += 0 if record.reserving else len(leaves)
            holders = hardware.reservers if record.reserving else dict(enumerate(hardware.users))
            for leaf in leaves:
                assert holders.get(leaf) is record, "I6, I7: a group has all that it holds"
        if record.space is None:
            continue
        ((hardware, leaves),) = record.held
        assert len(leaves) == len(record.virtual) <= record.group.gpus
        for leaf, virtual in zip(leaves, record.virtual, strict=True):
            assert record.space.twins[0][virtual] == leaf
            root = hardware.root_above(0, leaf)
            assert root is not None
            assert hardware.roots[root][0] is record.space, "I8, I9"
            occupant = record.space.occupants[virtual]
            assert occupant is record or (occupant is not None and occupant.displaced[virtual] is record)
        assert record.space.virtual_cluster == record.group.virtual_cluster
        assert record.space.pinned == (record.group.pinned_cell or "")
    for space in {record.space for record in records} - {None}:
        assert space is not None
        held = Counter(leaf for record in records if record.space is space for leaf in record.virtual)
        assert held == +space.holders, "whoever holds virtual GPUs is a group"
    for space in {record.space for record in records} - {None}:
        assert space is not None
        assert {*space.occupants} <= {None, *records}, "no virtual GPU is a group's that is unknown"
    for hardware, gpus in by_chain.items():
        assert {*hardware.reservers.values()} <= {*records}, "nothing is reserved for a group unknown"
        assert gpus == sum(user is not None for user in hardware.users), "no GPU is used by a group unknown"
