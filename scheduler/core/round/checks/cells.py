"""Part of step 7, check: a plan keeps the guarantees in cells, from the raw snapshot alone.

Nothing here uses `binding` or the pool of cells: what is free is counted GPU by GPU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from scheduler.core.cells.chains import Chain, Layout, Leaf
from scheduler.core.cells.compiling import compiled
from scheduler.core.model.errors import PlanError
from scheduler.core.model.snapshot import GpuId, Snapshot

#: A virtual cluster, and the name of a pinned cell of it; empty: a cell that is not pinned.
Owner = tuple[str, str]
#: By chain, for each of its GPUs: the owner of its cell.
Owners = Mapping[str, list[Owner | None]]


def undeclared(snapshot: Snapshot) -> frozenset[GpuId]:
    """Return the GPUs in no cell, of models divided by cells; they are guaranteed to no virtual cluster."""
    if snapshot.cells is None:
        return frozenset()
    layout = compiled(snapshot.cells)
    return frozenset(
        gpu.id
        for node in snapshot.nodes
        if node.gpu_model in layout.gpu_models
        for gpu in node.gpus
        if Leaf(node.name, gpu.index) not in layout.where
    )


def check_cells(
    snapshot: Snapshot,
    bound: Mapping[str, Iterable[tuple[str, int, int]]],
    uses_of: Callable[[], Mapping[GpuId, Owner]],
) -> None:
    """Raise PlanError unless guaranteed jobs are in cells and every other guarantee can still be kept.

    `bound` maps each virtual cluster to (chain, level, number) of its cells after the plan. `uses_of`
    returns, by GPU, the virtual cluster of the guaranteed job on it after the plan, and the pinned cell that
    it names.
    """
    if snapshot.cells is None:
        return
    layout, uses = compiled(snapshot.cells), uses_of()
    owners, unbound = _owners(layout, bound)
    for node in snapshot.nodes:
        if node.gpu_model not in layout.gpu_models:
            continue
        for gpu in node.gpus:
            owner = uses.get(gpu.id)
            if owner is None:
                continue
            chain, number = layout.where.get(Leaf(node.name, gpu.index), (None, 0))
            if chain is None or owners[chain.name][number] != owner:
                vc, pinned = owner
                cells = f"not in its pinned cell {pinned}" if pinned else "in none of its cells"
                raise PlanError(f"a guaranteed job of {vc} is on GPU {gpu.id}, which is {cells}")
    for name, chain in layout.chains.items():
        _check_guarantees(chain, owners[name], unbound)


def _owners(
    layout: Layout, bound: Mapping[str, Iterable[tuple[str, int, int]]]
) -> tuple[Owners, Mapping[tuple[str, int], int]]:
    """Return the owner of each GPU, and how many cells of each kind are owed; no cell may overlap another."""
    owners: Owners = {name: [None] * len(chain.leaves) for name, chain in layout.chains.items()}
    cells = [((vc, name), *cell) for vc, pinned in layout.pinned.items() for name, cell in pinned.items()]
    owed: Counter[tuple[str, int]] = Counter()
    for owned in layout.owned.values():
        owed.update(owned)
    for vc, its in bound.items():
        taken = Counter((name, level) for name, level, _ in its)
        for kind, count in taken.items():
            if count > layout.owned.get(vc, {}).get(kind, 0):
                raise PlanError(f"virtual cluster {vc} has {count} cells of {kind}, more than it owns")
        owed.subtract(taken)
        cells += [((vc, ""), *cell) for cell in its]
    for owner, name, level, number in cells:
        leaves = layout.chains[name].within(level, number, 0)
        if any(owners[name][leaf] is not None for leaf in leaves):
            raise PlanError(f"cell {layout.chains[name].address(level, number)} is bound twice")
        owners[name][leaves.start : leaves.stop] = [owner] * len(leaves)
    return owners, owed


def _check_guarantees(chain: Chain, owners: list[Owner | None], owed: Mapping[tuple[str, int], int]) -> None:
    """Raise PlanError unless the free part of a chain can be split into all cells that are owed."""
    is_free = [owner is None for owner in owners]
    free: list[list[bool]] = [is_free]
    for level in range(1, chain.top + 1):
        below, fanout = free[-1], chain.fanouts[level]
        free.append([all(below[first : first + fanout]) for first in range(0, len(below), fanout)])
    left = 0
    for level in range(chain.top, -1, -1):
        if level < chain.top:
            fanout = chain.fanouts[level + 1]
            above = free[level + 1]
            left = left * fanout + sum(
                [is_free and not above[n // fanout] for n, is_free in enumerate(free[level])]
            )
        else:
            left = sum(free[level])
        left -= owed.get((chain.name, level), 0)
        if left < 0:
            raise PlanError(f"{-left} cells of {chain.types[level]} are owed and could not be had any more")
