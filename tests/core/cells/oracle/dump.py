"""All of a cell state as plain data: every physical and every virtual cell, and the groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from scheduler.core.cells.virtual import NONE
from scheduler.core.model.bits import members
from tests.core.cells.oracle.hardware import UsedHardware
from tests.core.cells.oracle.records import Record
from tests.core.cells.oracle.space import UsedSpace
from tests.core.cells.oracle.world import UsedWorld

#: The priority of a cell that nobody uses (HiveD's "free priority").
FREE = -2


def dump(world: UsedWorld, records: Iterable[Record]) -> dict[str, Any]:
    """Return the state; what it holds can be written as JSON, in an order that is always the same."""
    return {
        "chains": {name: _hardware(each) for name, each in world.hardware.items()},
        "virtual_clusters": {
            name: {
                "cells": {chain: _space(world, space) for chain, space in spaces.items()},
                "pinned": {pin: _space(world, space) for pin, space in world.pinned[name].items()},
            }
            for name, spaces in world.spaces.items()
        },
        "groups": [_group(record) for record in records],
    }


def _hardware(hardware: UsedHardware) -> dict[str, Any]:
    chain, pool = hardware.chain, hardware.pool
    return {
        "types": list(chain.types),
        "free": {
            kind: [chain.address(level, number) for number in members(pool.free[level])]
            for level, kind in enumerate(chain.types)
        },
        "owed": dict(zip(chain.types, pool.owed, strict=True)),
        "broken_nodes": [
            chain.address(chain.node_level, node).rsplit("/", 1)[-1] for node in sorted(hardware.broken)
        ],
        "cells": [
            cell
            for top in range(chain.count(chain.top))
            for cell in _physical(hardware, chain.top, top, None)
        ],
    }


def _physical(
    hardware: UsedHardware, level: int, number: int, space: UsedSpace | None
) -> Iterator[dict[str, Any]]:
    """Yield a cell and all that is in it. `space`: whose owned cell it is part of."""
    chain, virtual = hardware.chain, hardware.twins[level][number]
    if (level, number) in hardware.roots:
        space, _ = hardware.roots[level, number]
    users = hardware.users[number * chain.sizes[level] : (number + 1) * chain.sizes[level]]
    cell: dict[str, Any] = {
        "address": chain.address(level, number),
        "type": chain.types[level],
        "healthy": not hardware.is_bad(level, number),
        "priority": max(FREE if user is None else _priority(user) for user in users),
        "used": sum(user is not None for user in users),
        "virtual_cluster": None if space is None else space.virtual_cluster,
        "virtual_cell": None if space is None or virtual == NONE else virtual_name(space, level, virtual),
    }
    if (level, number) in hardware.doomed and space is not None and not space.uses[level, virtual]:
        cell["doomed"] = True
    if level == 0:
        cell |= _leaf(hardware, number)
    yield cell
    for child in chain.within(level, number, level - 1) if level else ():
        yield from _physical(hardware, level - 1, child, space)


def _leaf(hardware: UsedHardware, leaf: int) -> dict[str, Any]:
    user, reserver = hardware.users[leaf], hardware.reservers.get(leaf)
    states = {
        (False, False): "free",
        (True, False): "used",
        (False, True): "reserved",
        (True, True): "reserving",
    }
    return {
        "gpu": hardware.chain.leaves[leaf].gpu,
        "state": states[user is not None, reserver is not None],
        "user": None if user is None else user.group.name,
        "reserved_for": None if reserver is None else reserver.group.name,
    }


def _priority(record: Record) -> int:
    return record.group.priority if record.guaranteed else -1


def _space(world: UsedWorld, space: UsedSpace) -> list[dict[str, Any]]:
    hardware = world.hardware[space.chain.name]
    return [cell for level, number in space.all_roots() for cell in _virtual(hardware, space, level, number)]


def _virtual(hardware: UsedHardware, space: UsedSpace, level: int, number: int) -> Iterator[dict[str, Any]]:
    chain, physical = space.chain, space.twins[level][number]
    users = space.occupants[number * chain.sizes[level] : (number + 1) * chain.sizes[level]]
    cell: dict[str, Any] = {
        "cell": virtual_name(space, level, number),
        "type": chain.types[level],
        "healthy": physical == NONE or not hardware.is_bad(level, physical),
        "priority": max(FREE if user is None else user.group.priority for user in users),
        "used": sum(user is not None for user in users),
        "physical_cell": None if physical == NONE else chain.address(level, physical),
    }
    if level == 0:
        (user,) = users
        cell["user"] = None if user is None else user.group.name
    yield cell
    for child in chain.within(level, number, level - 1) if level else ():
        yield from _virtual(hardware, space, level - 1, child)


def virtual_name(space: UsedSpace, level: int, number: int) -> str:
    """Return a virtual cell's place in its virtual cluster, such as "V100-NODE/1/0/3"."""
    chain, top = space.chain, space.roots_of(number * space.chain.sizes[level])
    root = chain.above(level, number, top.level)
    steps = [space.pinned] if space.pinned else [chain.types[top.level], str(root - top.numbers.start)]
    for lower in range(top.level - 1, level - 1, -1):
        steps.append(str(chain.above(level, number, lower) % chain.fanouts[lower + 1]))
    return "/".join(steps)


def _group(record: Record) -> dict[str, Any]:
    group, placement = record.group, record.placement
    reserved_for = sorted(
        {
            (each.number, each.group.name)
            for hardware, leaves in record.held
            for leaf in leaves
            if (each := hardware.reservers.get(leaf)) is not None and each is not record
        }
    )
    return {
        "name": group.name,
        "virtual_cluster": group.virtual_cluster,
        "priority": group.priority,
        "members": [list(member) for member in group.members],
        "gpu_model": group.gpu_model,
        "pinned_cell": group.pinned_cell,
        "lazy_preemption": group.lazy_preemption,
        "state": "preempting" if record.reserving else "being preempted" if reserved_for else "allocated",
        "guaranteed": record.guaranteed,
        "makes_room_for": [name for _, name in reserved_for],
        "chain": placement.chain,
        "within": placement.within,
        "pods": [{"node": pod.node, "gpus": list(pod.gpus)} for pod in placement.pods],
        "virtual_cells": (
            [] if record.space is None else [virtual_name(record.space, 0, leaf) for leaf in record.virtual]
        ),
    }
