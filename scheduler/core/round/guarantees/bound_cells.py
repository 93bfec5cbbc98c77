"""Bind virtual GPUs to hardware for `binding`, and remember the bindings as plain values.

    {"bound": {"vision": [["V100-NODE", 3, 7]]},
     "twins": {"vision": [["V100-NODE", "", [[0, 56, 8]]]]}}

means that vision has cell 7 of level 3, and that its virtual GPUs 0 to 7 are bound to the chain's GPUs 56 to
63.
"""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.core.cells.chains import Cell
from scheduler.core.cells.virtual import Space
from scheduler.core.cells.world import World
from scheduler.core.model.snapshot import Memory

#: Virtual cluster -> chain -> GPU of the chain -> the virtual GPU that was bound to it.
Hints = dict[str, dict[str, dict[int, int]]]
#: For one space: owned cells in use, and [first virtual GPU, first GPU, how many].
Remembered = tuple[list[Cell], list[list[int]]]


def remember(space: Space) -> Remembered:
    """Return the owned cells in use, and runs of virtual GPUs that are bound to consecutive GPUs."""
    name, cells = space.chain.name, list[Cell]()
    runs: list[list[int]] = []
    if not space.pinned:
        cells = [Cell(name, level, space.twins[level][number]) for level, number in space.uses]
    for leaf in sorted(space.holders):
        physical = space.twins[0][leaf]
        if runs and leaf == runs[-1][0] + runs[-1][2] and physical == runs[-1][1] + runs[-1][2]:
            runs[-1][2] += 1
        else:
            runs.append([leaf, physical, 1])
    return sorted(cells), runs


def as_memory(remembered: Mapping[Space, Remembered]) -> Memory:
    """Return what is remembered as plain values."""
    bound: dict[str, list[list[object]]] = {}
    twins: dict[str, list[list[object]]] = {}
    order = sorted(remembered, key=lambda space: (space.virtual_cluster, space.chain.name, space.pinned))
    for space in order:
        cells, runs = remembered[space]
        if cells:
            bound.setdefault(space.virtual_cluster, []).extend(map(list, cells))
        if runs:
            twins.setdefault(space.virtual_cluster, []).append([space.chain.name, space.pinned, runs])
    return {"bound": bound, "twins": twins}


def hints_of(world: World, memory: Memory) -> Hints:
    """Return the remembered bindings as hints, as far as the cells still allow them."""
    hints: dict[str, dict[str, dict[int, int]]] = {}
    for vc, spaces in memory.get("twins", {}).items():
        for name, pinned, runs in spaces:
            space = world.pinned.get(vc, {}).get(pinned) if pinned else world.spaces.get(vc, {}).get(name)
            if space is None or space.chain.name != name:
                continue
            found = hints.setdefault(vc, {}).setdefault(name, {})
            for virtual, physical, count in runs:
                if virtual + count <= space.gpus and physical + count <= len(space.chain.leaves):
                    found.update((physical + step, virtual + step) for step in range(count))
    return hints
