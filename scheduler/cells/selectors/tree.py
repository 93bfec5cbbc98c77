"""The cells as objects of the API: chains in numbers, the tree of each, and what a virtual cluster has."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from scheduler.cells.selectors.use import Owners, Use, WholeCells, owed, owners_of, use_of
from scheduler.core.cells.chains import Cell, Chain, Layout

Representation = dict[str, Any]

MIXED = "mixed"

#: By virtual cluster, chain and level: of whom it has borrowed all its cells of the kind, and until when.
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
