"""The cells: the specification in force, what is true of the GPUs of each chain, and the trees of cells as
objects of the API.

The specification is kept by its text, since it changes rarely and is asked for often. The GPUs now determine
which cells virtual clusters have got, and which they cannot get, since only broken hardware is left for
those that are owed (HiveD calls them doomed-bad).
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from django.db.models import BooleanField, Case, Q, Value, When

from scheduler.core.cells.chains import Cell, Chain, Layout, Leaf
from scheduler.core.cells.compiling import compiled
from scheduler.core.cells.document import from_document, to_document
from scheduler.core.model.cell_specification import Specification
from scheduler.core.model.lifecycle import HoldPhase
from scheduler.models.attempts import AllocatedGpu
from scheduler.models.cells import CellSpecification
from scheduler.models.nodes import Gpu, NodeState
from scheduler.models.rounds import PolicyMemory
from scheduler.models.selectors.maintenance import nodes_in_maintenance
from scheduler.wiring.representation import Representation


@dataclass(frozen=True, slots=True, kw_only=True)
class CellsInForce:
    """The cells in force. Version 0, with no author: there never was a specification, and GPUs are divided by
    counts.
    """

    version: int
    layout: Layout
    changed_at: datetime | None
    changed_by: str

    @property
    def document(self) -> dict[str, Any]:
        return to_document(self.layout.specification)


def cells_in_force() -> CellsInForce:
    """Return the newest specification."""
    row = CellSpecification.objects.order_by("-version").first()
    if row is None:
        return CellsInForce(version=0, layout=compiled(Specification()), changed_at=None, changed_by="")
    return CellsInForce(
        version=row.version,
        layout=layout_of(row.document),
        changed_at=row.changed_at,
        changed_by=row.changed_by,
    )


@lru_cache(maxsize=8)
def specification_of(text: str) -> Specification:
    """Return the specification that a stored document holds."""
    return from_document(json.loads(text))


@lru_cache(maxsize=8)
def layout_of(text: str) -> Layout:
    """Return the same, compiled."""
    return compiled(specification_of(text))


#: Under this name the rounds remember where the cells of virtual clusters are:
#: {"bound": {virtual cluster: [[chain, level, number], ...]}}.
MEMORY = "cells"


@dataclass(slots=True)
class Use:
    """The use of one chain: sets of its GPUs, bit n for GPU n; no GPU is in two of them."""

    used: int = 0
    opportunistic: int = 0
    bad: int = 0

    def count(self, gpus: int) -> dict[str, int]:
        """Return how many of the GPUs in a set are what."""
        counts = {
            "used": (self.used & gpus).bit_count(),
            "opportunistic": (self.opportunistic & gpus).bit_count(),
            "bad": (self.bad & gpus).bit_count(),
        }
        return {"free": gpus.bit_count() - sum(counts.values()), **counts}


@dataclass(slots=True)
class Owners:
    """Which virtual cluster has which cell now."""

    #: Bound cells and pinned ones.
    virtual_cluster: dict[Cell, str] = field(default_factory=dict)
    #: Pinned cells: the name they are pinned under.
    pinned: dict[Cell, str] = field(default_factory=dict)

    def bound(self, virtual_cluster: str, chain: str, level: int) -> list[Cell]:
        """Return the virtual cluster's bound cells of a kind, in the order of the hardware."""
        return sorted(
            cell
            for cell, owner in self.virtual_cluster.items()
            if owner == virtual_cluster and cell[:2] == (chain, level) and cell not in self.pinned
        )


def use_of(layout: Layout, nodes: Collection[str] | None = None) -> dict[str, Use]:
    """Return the state of every chain's GPUs; with `nodes`, only what is on these is looked up.

    A GPU is bad when it is broken, absent, on a node that does not report, or is not of the chain's model;
    and when its node is cordoned, to be drained or in maintenance, unless a job still runs on it.
    """
    found = {
        name: Use(bad=chain.everything(0) if nodes is None else _on(chain, nodes))
        for name, chain in layout.chains.items()
    }
    held = _held(nodes)
    rows = Gpu.objects.annotate(
        works=Case(
            When(Q(present=True, healthy=True, node__state=NodeState.READY), then=Value(True)),
            default=Value(False),
            output_field=BooleanField(),
        )
    )
    if nodes is not None:
        rows = rows.filter(node__name__in=nodes)
    columns = (
        "id",
        "node__name",
        "index",
        "node__gpu_model__name",
        "works",
        "node__cordoned",
        "node__draining",
    )
    closed = nodes_in_maintenance()
    for gpu, node, index, model, works, cordoned, draining in rows.values_list(*columns):
        there = layout.where.get(Leaf(node, index))
        if there is None or not works or there[0].gpu_model != model:
            continue
        use, bit = found[there[0].name], 1 << there[1]
        guaranteed = held.get(gpu)
        if guaranteed is not None or not (cordoned or draining or node in closed):
            use.bad ^= bit
        if guaranteed is not None:
            use.used |= bit * guaranteed
            use.opportunistic |= bit * (not guaranteed)
    return found


def _on(chain: Chain, nodes: Collection[str]) -> int:
    return sum(1 << number for number, leaf in enumerate(chain.leaves) if leaf.node in nodes)


def _held(nodes: Collection[str] | None) -> dict[int, bool]:
    """Return by GPU whether its holder is guaranteed."""
    rows = AllocatedGpu.objects.filter(phase=HoldPhase.HELD)
    if nodes is not None:
        rows = rows.filter(gpu__node__name__in=nodes)
    return dict(rows.values_list("gpu_id", "allocation__guaranteed"))


def owners_of(layout: Layout) -> Owners:
    """Return who has which cell; what rounds remember of an old specification is left out."""
    owners = Owners()
    row = PolicyMemory.objects.filter(view=MEMORY).first()
    bound: Mapping[str, Sequence[tuple[str, int, int]]] = (row.memory if row else {}).get("bound", {})
    for virtual_cluster, cells in bound.items():
        for name, level, number in cells:
            chain = layout.chains.get(name)
            if chain is not None and level in range(chain.top + 1) and number in range(chain.count(level)):
                owners.virtual_cluster[Cell(chain.name, level, number)] = virtual_cluster
    for virtual_cluster, pinned in layout.pinned.items():
        for label, cell in pinned.items():
            owners.virtual_cluster[cell] = virtual_cluster
            owners.pinned[cell] = label
    return owners


class WholeCells:
    """How many cells of each level are left whole and healthy in a chain, outside of those already had."""

    def __init__(self, chain: Chain, use: Use, owners: Owners) -> None:
        taken = use.bad
        for cell in owners.virtual_cluster:
            if cell.chain == chain.name:
                taken |= chain.set_within(cell.level, cell.number, 0)
        self._chain = chain
        self._left = [_whole(chain, level, taken) for level in range(chain.top + 1)]

    def lacking(self, owed: Sequence[int]) -> list[int]:
        """Return by level how many of the owed cells are not available healthy, considering the others
        together.

        Larger cells come first. Cells nest evenly, so what is left for the smaller ones does not depend on
        which larger ones are taken.
        """
        chain, had = self._chain, 0
        lacking = [0] * len(owed)
        for level in range(chain.top, -1, -1):
            if level < chain.top:
                had *= chain.fanouts[level + 1]
            got = min(owed[level], max(self._left[level] - had, 0))
            had += got
            lacking[level] = owed[level] - got
        return lacking


def _whole(chain: Chain, level: int, taken: int) -> int:
    size = chain.sizes[level]
    if not taken:
        return chain.count(level)
    if size == 1:
        return chain.count(0) - taken.bit_count()
    cell = (1 << size) - 1
    return sum(not taken >> number * size & cell for number in range(chain.count(level)))


def owed(layout: Layout, chain: Chain, owners: Owners, virtual_clusters: Iterable[str]) -> list[int]:
    """Return by level how many cells these virtual clusters own in a chain and do not have now."""
    counts = [0] * (chain.top + 1)
    for virtual_cluster in virtual_clusters:
        owned: Mapping[tuple[str, int], int] = layout.owned.get(virtual_cluster, {})
        for (name, level), cells in owned.items():
            if name == chain.name:
                had = len(owners.bound(virtual_cluster, name, level))
                counts[level] += max(cells - had, 0)
    return counts


MIXED = "mixed"

#: By virtual cluster, chain and level: from which lender it has borrowed all its cells of the kind, and until
#: when.
OnLoan = Mapping[tuple[str, str, int], Representation]


def chain_summaries(layout: Layout) -> list[Representation]:
    """Return each chain with how many of its cells and GPUs are what."""
    uses, owners = use_of(layout), owners_of(layout)
    return [_summary(layout, chain, uses[chain.name], owners) for chain in layout.chains.values()]


def _summary(layout: Layout, chain: Chain, use: Use, owners: Owners) -> Representation:
    pinned = [cell.level for cell in owners.pinned if cell.chain == chain.name]
    doomed = WholeCells(chain, use, owners).lacking(owed(layout, chain, owners, layout.owned))
    cells = []
    for level, kind in enumerate(chain.types):
        owned = sum(cells.get((chain.name, level), 0) for cells in layout.owned.values())
        bad, free = _touched(chain, level, use.bad), _untouched(chain, level, use)
        total = chain.count(level)
        cells.append(
            {
                "level": level,
                "type": kind,
                "total": total,
                "free": free,
                "used": total - free - bad,
                "bad": bad,
                "owned": owned + pinned.count(level),
                "doomed": doomed[level],
            }
        )
    counts = use.count(chain.everything(0))
    return {
        "name": chain.name,
        "gpu_model": chain.gpu_model,
        "types": [
            {"name": kind, "level": level, "gpus": chain.sizes[level], "is_node": level == chain.node_level}
            for level, kind in enumerate(chain.types)
        ],
        "cells": cells,
        "gpus": len(chain.leaves),
        **counts,
    }


def _touched(chain: Chain, level: int, gpus: int) -> int:
    """Return how many cells of a level have one of these GPUs."""
    size = chain.sizes[level]
    if size == 1 or not gpus:
        return gpus.bit_count()
    cell = (1 << size) - 1
    return sum(bool(gpus >> number * size & cell) for number in range(chain.count(level)))


def _untouched(chain: Chain, level: int, use: Use) -> int:
    return chain.count(level) - _touched(chain, level, use.used | use.opportunistic | use.bad)


def children_of(layout: Layout, parent: Cell | None, chain: str | None) -> list[Cell]:
    """Return the cells right below one; without one the topmost, of one chain or of all."""
    if parent is None:
        return [
            Cell(each.name, each.top, number)
            for each in layout.chains.values()
            if chain in (None, each.name)
            for number in range(each.count(each.top))
        ]
    if not parent.level:
        return []
    numbers = layout.chains[parent.chain].within(parent.level, parent.number, parent.level - 1)
    return [Cell(parent.chain, parent.level - 1, number) for number in numbers]


def nodes_of(layout: Layout, cells: Iterable[Cell]) -> set[str]:
    """Return the names of the nodes that these cells are made of, or are in."""
    return {
        leaf.node for cell in cells for leaf in layout.chains[cell.chain].gpus_of(cell.level, cell.number)
    }


def cell_nodes(
    layout: Layout, cells: list[Cell], on_loan: OnLoan = MappingProxyType({})
) -> list[Representation]:
    """Return the cells of a tree, each with what its GPUs are doing."""
    uses, owners = use_of(layout, nodes_of(layout, cells)), owners_of(layout)
    return [_cell_node(layout.chains[cell.chain], cell, uses[cell.chain], owners, on_loan) for cell in cells]


def _cell_node(chain: Chain, cell: Cell, use: Use, owners: Owners, on_loan: OnLoan) -> Representation:
    gpus = chain.gpus_of(cell.level, cell.number)
    counts = use.count(chain.set_within(cell.level, cell.number, 0))
    states = [state for state, count in counts.items() if count]
    owner = _owner(chain, cell, owners)
    return {
        "address": chain.address(cell.level, cell.number),
        "chain": chain.name,
        "type": chain.types[cell.level],
        "level": cell.level,
        "level_is_node": cell.level == chain.node_level,
        "gpus": len(gpus),
        **counts,
        "virtual_cluster": owners.virtual_cluster[owner] if owner else None,
        "pinned": owners.pinned.get(owner, "") if owner else "",
        "on_loan": _on_loan(owner, owners, on_loan),
        "node": gpus[0].node if cell.level <= chain.node_level else "",
        "gpu": gpus[0].gpu if cell.level == 0 else None,
        "state": states[0] if len(states) == 1 else MIXED,
        "children": chain.fanouts[cell.level],
    }


def _on_loan(cell: Cell | None, owners: Owners, on_loan: OnLoan) -> Representation | None:
    if cell is None or cell in owners.pinned:
        return None
    return on_loan.get((owners.virtual_cluster[cell], cell.chain, cell.level))


def _owner(chain: Chain, cell: Cell, owners: Owners) -> Cell | None:
    """Return the cell with an owner that this one is, or is part of."""
    for level in range(cell.level, chain.top + 1):
        here = Cell(chain.name, level, chain.above(cell.level, cell.number, level))
        if here in owners.virtual_cluster:
            return here
    return None


def virtual_cluster_cells(layout: Layout, name: str) -> Representation:
    """Return the cells of one virtual cluster: kind by kind, then the pinned ones."""
    uses, owners = use_of(layout), owners_of(layout)
    lines = []
    for chain in layout.chains.values():
        owned = {level: n for (of, level), n in layout.owned.get(name, {}).items() if of == chain.name}
        doomed = WholeCells(chain, uses[chain.name], owners).lacking(owed(layout, chain, owners, [name]))
        for level, count in sorted(owned.items(), reverse=True):
            bound = owners.bound(name, chain.name, level)
            lines.append(
                {
                    **_kind(chain, level),
                    "owned": count,
                    "bound": len(bound),
                    "free": max(count - len(bound), 0),
                    "doomed": doomed[level],
                    "pinned": False,
                    "name": "",
                    "addresses": [chain.address(cell.level, cell.number) for cell in bound],
                }
            )
    for label, cell in layout.pinned.get(name, {}).items():
        chain = layout.chains[cell.chain]
        broken = uses[chain.name].bad & chain.set_within(cell.level, cell.number, 0)
        lines.append(
            {
                **_kind(chain, cell.level),
                "owned": 1,
                "bound": 1,
                "free": 0,
                "doomed": int(bool(broken)),
                "pinned": True,
                "name": label,
                "addresses": [chain.address(cell.level, cell.number)],
            }
        )
    return {"virtual_cluster": name, "cells": lines, "guaranteed": layout.guaranteed(name)}


def _kind(chain: Chain, level: int) -> Representation:
    return {
        "chain": chain.name,
        "type": chain.types[level],
        "level": level,
        "gpus": chain.sizes[level],
    }
