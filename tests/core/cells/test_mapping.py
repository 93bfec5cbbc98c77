"""Binding takes the cell, and the GPUs in it, that disturb the fewest opportunistic ones."""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import permutations

import pytest

from scheduler.core.cells.chains import Chain, Leaf
from scheduler.core.cells.compiling import compiled
from scheduler.core.cells.document import from_document
from scheduler.core.cells.mapping import Binder, Unbindable
from scheduler.core.cells.world import World
from tests.core.cells.hierarchies import group, opportunistic, racks, try_schedule
from tests.core.cells.oracle import CellState, Placement, Preempt


def fewest(chain: Chain, level: int, number: int, offsets: Iterable[int], used: set[int]) -> int:
    """Return how many used GPUs the best of all ways takes that put a cell's GPUs into a physical cell."""
    if level == 0:
        return number in used
    size = chain.sizes[level - 1]
    parts: dict[int, list[int]] = {}
    for offset in offsets:
        parts.setdefault(offset // size, []).append(offset % size)
    children = chain.within(level, number, level - 1)
    costs = {
        (part, child): fewest(chain, level - 1, child, inside, used)
        for part, inside in parts.items()
        for child in children
    }
    return min(
        sum(costs[pair] for pair in zip(parts, some, strict=True))
        for some in permutations(children, len(parts))
    )


def scattered(dice: random.Random, kind: str) -> CellState:
    """Return a cluster with opportunistic groups all over it."""
    state = CellState(racks(vision={"cells": {kind: 1}}, speech={}))
    for node in range(8):
        only = frozenset({f"n{node}"})
        for number in range(dice.randint(1, 7)):
            wanted = opportunistic(
                f"o{node}.{number}", "speech", (1, dice.choice((1, 1, 1, 2, 3, 4))), suggested_nodes=only
            )
            try_schedule(state, wanted)
    for name in list(state.groups):
        if dice.random() < 0.3:
            state.delete(name)
    return state


def gpus_of(answer: Placement, chain: Chain) -> list[int]:
    numbers = {leaf: number for number, leaf in enumerate(chain.leaves)}
    return [numbers[Leaf(pod.node, gpu)] for pod in answer.pods for gpu in pod.gpus]


def test_no_other_cell_would_disturb_fewer() -> None:
    disturbed = 0
    for seed in range(150):
        dice = random.Random(seed)
        level, kind = dice.choice(((2, "V100-NODE"), (3, "V100-RACK")))
        state = scattered(dice, kind)
        chain = state.layout.chains["V100-RACK"]
        used = {leaf for placement in state.groups.values() for leaf in gpus_of(placement, chain)}
        members = [
            (dice.choice((1, 1, 2, 3)), dice.choice((1, 2, 3, 5, 8))) for _ in range(dice.randint(1, 2))
        ]
        answer = try_schedule(state, group("a", "vision", *members), reserve=True)
        if not isinstance(answer, Placement | Preempt):
            continue
        placement = answer if isinstance(answer, Placement) else answer.placement
        taken = len(used.intersection(gpus_of(placement, chain)))
        (described,) = (each for each in state.dump()["groups"] if each["name"] == "a")
        offsets = [offset(chain, cell) for cell in described["virtual_cells"]]
        cells = range(chain.count(level))
        assert taken == min(fewest(chain, level, cell, offsets, used) for cell in cells)
        disturbed += taken
    assert disturbed > 20


def offset(chain: Chain, cell: str) -> int:
    """Return a virtual GPU's number in its owned cell, the first of its type; "V100-NODE/0/2/1" is 5."""
    kind, _, *steps = cell.split("/")
    level, found = chain.types.index(kind), 0
    for step in steps:
        level -= 1
        found += int(step) * chain.sizes[level]
    return found


HALL = {
    "types": {
        "NODE": {"of": "V100", "count": 1, "node": True},
        "RACK": {"of": "NODE", "count": 2},
        "ROW": {"of": "RACK", "count": 2},
        "HALL": {"of": "ROW", "count": 2},
    },
    "physical": [{"type": "HALL", "name": "hall", "nodes": [f"n{number}" for number in range(8)]}],
    "virtual_clusters": {"vision": {"cells": {"HALL": 1}}},
}


@pytest.mark.parametrize(
    ("needed", "usable", "expected"),
    [
        # The first row, a whole rack, would take the first row of nodes, which alone will do for the second.
        ([0, 1, 4, 6], 0b00110111, [4, 5, 0, 2]),
        ([0, 1, 4, 6], 0b01010011, [0, 1, 4, 6]),
        ([0, 1, 4, 6], 0b00110011, None),
        ([0, 2, 4, 6], 0b10101010, [1, 3, 5, 7]),
        ([0, 1, 2, 4], 0b11101100, [6, 7, 5, 2]),
    ],
)
def test_all_ways_are_tried_to_bind_to_suggested_nodes(
    needed: list[int], usable: int, expected: list[int] | None
) -> None:
    world = World(compiled(from_document(HALL)))
    hardware, space = world.hardware["HALL"], world.spaces["vision"]["HALL"]
    binder = Binder(hardware, space, usable)
    if expected is None:
        with pytest.raises(Unbindable):
            binder.bind(needed)
    else:
        assert binder.bind(needed) == expected
        binder.undo()
    assert not hardware.roots
    assert not any(number >= 0 for twins in (*hardware.twins, *space.twins) for number in twins)
