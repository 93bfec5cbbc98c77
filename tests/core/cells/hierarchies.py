"""Random and well-known cells for tests, and random sequences of what can happen to them."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from scheduler.core.cells.chains import Layout
from scheduler.core.cells.compiling import compiled
from scheduler.core.cells.document import from_document
from scheduler.core.cells.errors import SpecificationError
from scheduler.core.model.cell_specification import CellType, PhysicalCell, Specification, VirtualCells
from tests.core.cells.oracle import OPPORTUNISTIC, CellState, Group, Placement, Preempt, RequestError, Wait

Answer = Placement | Preempt | Wait

#: V100 in pairs, nodes of 8 and racks of 2 nodes; P100 in nodes of 4.
RACKS = {
    "types": {
        "V100-SWITCH": {"of": "V100", "count": 2},
        "V100-NODE": {"of": "V100-SWITCH", "count": 4, "node": True},
        "V100-RACK": {"of": "V100-NODE", "count": 2},
        "P100-NODE": {"of": "P100", "count": 4, "node": True},
    },
    "physical": [
        *(
            {"type": "V100-RACK", "name": f"rack-{n}", "nodes": [f"n{2 * n}", f"n{2 * n + 1}"]}
            for n in range(4)
        ),
        *({"type": "P100-NODE", "nodes": [f"p{n}"]} for n in range(3)),
    ],
}


def racks(**virtual_clusters: dict[str, object]) -> Specification:
    """Return RACKS divided among virtual clusters, such as vision={"cells": {"V100-NODE": 2}}."""
    return from_document(RACKS | {"virtual_clusters": virtual_clusters})


def group(name: str, owner: str, *members: tuple[int, int], priority: int = 10, **rest: object) -> Group:
    return Group(name=name, virtual_cluster=owner, priority=priority, members=members, **rest)  # type: ignore[arg-type]


def opportunistic(name: str, owner: str, *members: tuple[int, int], **rest: object) -> Group:
    return group(name, owner, *members, priority=OPPORTUNISTIC, **rest)


def random_specification(dice: random.Random, clusters: int = 3) -> Specification:
    """Return hardware of one to three chains, and virtual clusters that own random parts of it."""
    types: list[CellType] = []
    physical: list[PhysicalCell] = []
    for chain in range(dice.randint(1, 3)):
        model = dice.choice(("V100", "P100"))
        below, gpus = model, 1
        depth = dice.randint(1, 4)
        node = dice.randint(1, depth)
        nodes = 1
        for level in range(1, depth + 1):
            fanout = dice.choice((1, 2, 2, 3, 4) if level <= node else (2, 3))
            types.append(
                CellType(name=f"{model}-{chain}-{level}", of=below, count=fanout, node=level == node)
            )
            below, gpus = types[-1].name, gpus * fanout
            nodes *= fanout if level > node else 1
        for top in range(dice.randint(1, max(1, 24 // gpus))):
            names = tuple(f"n{chain}-{top}-{node}" for node in range(nodes))
            order = list(range(gpus // nodes))
            dice.shuffle(order)
            physical.append(
                PhysicalCell(type=below, name=f"t{chain}-{top}", nodes=names, gpus={names[-1]: tuple(order)})
            )
    bare = Specification(types=tuple(types), physical=tuple(physical))
    return divided(bare, dice, clusters)


def divided(hardware: Specification, dice: random.Random, clusters: int) -> Specification:
    """Give virtual clusters more and more random cells, as long as the hardware has them."""
    names = [f"vc{number}" for number in range(clusters)]
    owned: dict[str, VirtualCells] = {name: VirtualCells() for name in names}
    found = replace(hardware, virtual_clusters=owned)
    layout = compiled(replace(hardware, virtual_clusters={}))
    kinds = [f"{chain.name}/{kind}" for chain in layout.chains.values() for kind in chain.types]
    addresses = [
        chain.address(level, number)
        for chain in layout.chains.values()
        for level in range(1, chain.top + 1)
        for number in range(chain.count(level))
    ]
    for _ in range(dice.randint(4, 14)):
        name = dice.choice(names)
        cells = owned[name]
        if dice.random() < 0.15:
            cells = replace(cells, pinned={**cells.pinned, f"pin{len(cells.pinned)}": dice.choice(addresses)})
        else:
            kind = dice.choice(kinds)
            cells = replace(cells, cells={**cells.cells, kind: cells.cells.get(kind, 0) + dice.randint(1, 3)})
        attempt = replace(hardware, virtual_clusters={**owned, name: cells})
        try:
            compiled(attempt)
        except SpecificationError:
            continue
        owned[name], found = cells, attempt
    return found


@dataclass
class Draw:
    """Draws groups, most of which a virtual cluster can hold."""

    dice: random.Random
    layout: Layout
    #: How often a group may run on some nodes only, and how often it lapses instead of stopping.
    suggest: float = 0.0
    lazy: float = 0.4
    number: int = 0

    def group(self) -> Group:
        dice, layout = self.dice, self.layout
        self.number += 1
        owner = dice.choice([name for name in layout.owned if layout.guaranteed(name)] or list(layout.owned))
        model = dice.choice((None, *(layout.guaranteed(owner) or layout.gpu_models)))
        most = self.largest(owner, model) if dice.random() < 0.9 else 8
        members = tuple(
            (dice.choice((1, 1, 1, 2, 3)), dice.randint(1, most)) for _ in range(dice.choice((1, 1, 1, 2)))
        )
        pins = list(layout.pinned[owner])
        priority = dice.choice((OPPORTUNISTIC, 0, 0, 10, 10, 100))
        nodes = dict.fromkeys(leaf.node for leaf in layout.where)
        suggested = frozenset(node for node in nodes if dice.random() < 0.7)
        return Group(
            name=f"g{self.number}",
            virtual_cluster=owner,
            priority=priority,
            members=members,
            gpu_model=model,
            pinned_cell=dice.choice(pins) if pins and priority >= 0 and dice.random() < 0.5 else None,
            lazy_preemption=dice.random() < self.lazy,
            suggested_nodes=suggested if dice.random() < self.suggest else None,
        )

    def largest(self, owner: str, model: str | None) -> int:
        """Return how many GPUs the largest part of a node has that a virtual cluster owns."""
        sizes = [1]
        for (name, level), count in self.layout.owned[owner].items():
            chain = self.layout.chains[name]
            if model in (None, chain.gpu_model) and count:
                sizes.append(chain.sizes[min(level, chain.node_level)])
        return max(sizes)


def try_schedule(
    state: CellState, wanted: Group, *, reserve: bool = False, dry_run: bool = False
) -> Answer | None:
    """Return the answer, None for a request that can never be granted as it is put."""
    try:
        return state.schedule(wanted, reserve=reserve, dry_run=dry_run)
    except RequestError:
        return None
