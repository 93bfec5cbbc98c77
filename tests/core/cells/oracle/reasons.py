"""Why a group waits, in a sentence: its cells are too small, too few, broken, in use, or not suggested."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tests.core.cells.oracle.groups import Group, Wait
from tests.core.cells.oracle.hardware import UsedHardware
from tests.core.cells.oracle.placer import place, shape_of
from tests.core.cells.oracle.rooms import Rooms
from tests.core.cells.oracle.space import UsedSpace

MOST_NAMES = 3


def why_guaranteed_waits(
    group: Group, spaces: Sequence[UsedSpace], hardware: dict[str, UsedHardware]
) -> Wait:
    """Return why none of its virtual cluster's cells will do."""
    owner = _owner(group, spaces)
    owned = "; ".join(_owned(space) for space in spaces)
    largest = max(size for _, size in group.members)
    biggest = max(space.rooms.largest for space in spaces)
    if largest > biggest:
        return _wait(
            group,
            "cells_too_small",
            f"A pod needs {largest} GPUs together, and the largest cells of {owner} have {biggest}"
            f" inside one node ({owned}); cells are never put together for a pod.",
        )
    if not any(_holds(group, Rooms(space.rooms.sizes, ())) for space in spaces):
        return _wait(
            group,
            "cells_too_few",
            f"It needs {_needs(group)}, more than all cells of {owner} can hold ({owned}).",
        )
    if not any(_holds(group, _empty(space)) for space in spaces):
        broken = [_broken(space, hardware[space.chain.name]) for space in spaces if space.rooms.closed]
        return _wait(
            group,
            "cells_bad",
            f"It needs {_needs(group)}, and too much of {owner} is on broken hardware: {'; '.join(broken)}.",
        )
    if any(_holds(group, space.rooms_below(space.below(group.priority))) for space in spaces):
        lapsed = {
            record.number: record.group.name
            for space in spaces
            for record in hardware[space.chain.name].lapsed
            if record.group.virtual_cluster == group.virtual_cluster
            and record.group.priority >= group.priority
        }
        if lapsed and group.suggested_nodes is None:
            return _wait(
                group,
                "held_by_lapsed",
                f"The cells of {owner} would hold it, but only on GPUs of"
                f" {_listed([name for _, name in sorted(lapsed.items())])}: their guarantee has lapsed, and"
                " in their own virtual cluster they make room for higher priorities only.",
            )
        return _wait(
            group,
            "nodes_not_suggested",
            f"The cells of {owner} would hold it, but not on the nodes it may run on.",
        )
    usable = sum(_empty(space).total_free for space in spaces)
    free = sum(space.rooms.total_free for space in spaces)
    most = max(space.rooms.most_free for space in spaces)
    return _wait(
        group,
        "cells_in_use",
        f"It needs {_needs(group)}; {usable - free} of the {usable} usable GPUs of {owner} are in use"
        f"{_users(spaces)}, and at most {most} are free inside one node.",
    )


def why_opportunistic_waits(
    group: Group, hardware: Sequence[UsedHardware], usable: Sequence[int | None]
) -> Wait:
    """Return why no idle hardware will do."""
    largest = max(size for _, size in group.members)
    biggest = max(each.rooms.largest for each in hardware)
    if largest > biggest:
        return _wait(
            group, "nodes_too_small", f"A pod needs {largest} GPUs, and the largest nodes have {biggest}."
        )
    if any(_holds(group, each.rooms) for each in hardware) and any(mask is not None for mask in usable):
        return _wait(
            group,
            "nodes_not_suggested",
            "There is enough idle hardware, but not on the nodes it may run on.",
        )
    idle = sum(each.rooms.total_free for each in hardware)
    most = max(each.rooms.most_free for each in hardware)
    return _wait(
        group,
        "no_idle_gpus",
        f"It needs {_needs(group)}; {idle} GPUs are idle, at most {most} of them on one node.",
    )


def _wait(group: Group, code: str, message: str) -> Wait:
    return Wait(group=group.name, code=code, message=message)


def _holds(group: Group, rooms: Rooms) -> bool:
    return place(rooms, shape_of(group.members)) is not None


def _empty(space: UsedSpace) -> Rooms:
    """Return the rooms as they would be with nothing in use."""
    rooms = Rooms(space.rooms.sizes, ())
    for unit in sorted(space.rooms.closed):
        rooms.close(unit)
    return rooms


def _owner(group: Group, spaces: Sequence[UsedSpace]) -> str:
    if group.pinned_cell is not None:
        return f"{group.virtual_cluster}'s pinned cell {group.pinned_cell}"
    if group.gpu_model is None or len({space.chain.gpu_model for space in spaces}) > 1:
        return group.virtual_cluster
    return f"{group.virtual_cluster} with {group.gpu_model}"


def _owned(space: UsedSpace) -> str:
    parts = [f"{len(roots.numbers)} {space.chain.types[roots.level]}" for roots in space.roots]
    return " and ".join(parts)


def _needs(group: Group) -> str:
    return " and ".join(f"{pods} × {gpus} GPUs" for pods, gpus in group.members)


def _broken(space: UsedSpace, hardware: UsedHardware) -> str:
    chain = space.chain
    nodes = set()
    for unit in space.rooms.closed:
        cell = space.unit_cell(unit)
        physical = space.twins[cell.level][cell.number]
        nodes.add(chain.gpus_of(cell.level, physical)[0].node)
    return f"{len(space.rooms.closed)} of {len(space.free)} of its parts ({_listed(sorted(nodes))})"


def _users(spaces: Sequence[UsedSpace]) -> str:
    records = {
        occupant.number: occupant.group.name
        for space in spaces
        for occupant in space.occupants
        if occupant is not None
    }
    return f" ({_listed([name for _, name in sorted(records.items())])})" if records else ""


def _listed(names: Iterable[str]) -> str:
    known = list(names)
    more = f" and {len(known) - MOST_NAMES} more" if len(known) > MOST_NAMES else ""
    return ", ".join(known[:MOST_NAMES]) + more
