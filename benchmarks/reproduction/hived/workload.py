"""Gangs that fill a cluster of cells exactly: every scheduler that keeps guarantees places all of them.

The sizes of pods divide each other and each gang comes after those with larger pods. So it does not matter
which cells a scheduler chooses: none is split without need, and all GPUs are held in the end.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.core.model.cell_specification import CellType, PhysicalCell, Specification, VirtualCells

NODES_A_RACK, GPUS_A_NODE = 5, 8
GPU, PAIR, SOCKET, NODE, RACK = "GPU", "PAIR", "SOCKET", "NODE", "RACK"
#: GPUs of a cell.
SIZES = {PAIR: 2, SOCKET: 4, NODE: GPUS_A_NODE, RACK: NODES_A_RACK * GPUS_A_NODE}
#: What four virtual clusters own of each 1,000 GPUs; 240 belong to none of them.
OWNED: Mapping[str, Mapping[str, int]] = {
    "vision": {RACK: 6},
    "speech": {NODE: 25},
    "language": {RACK: 2, NODE: 12},
    "robots": {NODE: 10, SOCKET: 12, PAIR: 8},
}
#: (pods, GPUs of each, weight): mostly small gangs, a few over several nodes.
SHAPES = ((1, 1, 60), (1, 2, 12), (1, 4, 12), (1, 8, 10), (2, 8, 4), (4, 4, 2))
GUARANTEED, OPPORTUNISTIC = 10, -1


@dataclass(frozen=True, slots=True)
class Gang:
    name: str
    owner: str
    priority: int
    pods: int
    gpus: int


@dataclass(frozen=True, slots=True)
class Fill:
    """Gangs in the order in which they come, and their names in the order in which they end."""

    gangs: tuple[Gang, ...]
    ends: tuple[str, ...]


def make_specification(thousands: int) -> Specification:
    racks = 1_000 * thousands // SIZES[RACK]
    return Specification(
        types=(
            CellType(name=PAIR, of=GPU, count=2),
            CellType(name=SOCKET, of=PAIR, count=2),
            CellType(name=NODE, of=SOCKET, count=2, node=True),
            CellType(name=RACK, of=NODE, count=NODES_A_RACK),
        ),
        physical=tuple(
            PhysicalCell(
                type=RACK,
                name=f"rack-{rack:03d}",
                nodes=tuple(f"node-{rack:03d}-{node}" for node in range(NODES_A_RACK)),
            )
            for rack in range(racks)
        ),
        virtual_clusters={
            owner: VirtualCells(cells={of: thousands * count for of, count in cells.items()})
            for owner, cells in OWNED.items()
        },
    )


def make_fill(thousands: int, dice: random.Random) -> Fill:
    """Return gangs that hold all GPUs in the end: guaranteed ones in owned cells, then opportunistic ones."""
    gangs: list[Gang] = []
    spare = 1_000 * thousands
    for owner, cells in OWNED.items():
        owned = {SIZES[of]: thousands * count * SIZES[of] for of, count in cells.items()}
        gangs += _gangs(owner, GUARANTEED, owned, dice)
        spare -= sum(owned.values())
    gangs += _gangs(next(iter(OWNED)), OPPORTUNISTIC, {GPUS_A_NODE: spare}, dice)
    dice.shuffle(gangs)
    gangs.sort(key=lambda gang: (-gang.priority, -gang.gpus))
    ends = [gang.name for gang in gangs]
    dice.shuffle(ends)
    return Fill(tuple(gangs), tuple(ends))


def _gangs(owner: str, priority: int, owned: Mapping[int, int], dice: random.Random) -> list[Gang]:
    """Return gangs that fill cells exactly; `owned` has the GPUs in cells of each size."""
    # GPUs that pods of this size or a larger one may still have.
    left = {gpus: sum(n for size, n in owned.items() if size >= gpus) for _, gpus, _ in SHAPES}
    gangs: list[Gang] = []
    while left[1]:
        room = {gpus: min(n for size, n in left.items() if size <= gpus) for gpus in left}
        fitting = [shape for shape in SHAPES if shape[0] * shape[1] <= room[shape[1]]]
        ((pods, gpus, _),) = dice.choices(fitting, [weight for *_, weight in fitting])
        for size in left:
            # Smaller pods have what larger ones leave. Larger ones lose nothing to them: they come first.
            left[size] -= pods * gpus if size <= gpus else 0
        gangs.append(Gang(f"{owner}-{priority}-{len(gangs)}", owner, priority, pods, gpus))
    return gangs
