"""What is true of the GPUs of each chain now, which cells virtual clusters have got, and which they can not
get: those that are owed and could only be had with broken hardware (HiveD calls them doomed-bad)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from django.db.models import BooleanField, Case, Q, Value, When

from scheduler.attempts.models import AllocatedGpu
from scheduler.core.cells.chains import Cell, Chain, Layout, Leaf
from scheduler.core.model.lifecycle import HoldPhase
from scheduler.nodes.models import Gpu, NodeState
from scheduler.rounds.models import PolicyMemory

#: Under this name the rounds remember where the cells of virtual clusters are:
#: {"bound": {virtual cluster: [[chain, level, number], ...]}}.
MEMORY = "cells"


@dataclass(slots=True)
class Use:
    """Of one chain: sets of its GPUs, bit n for GPU n; no GPU is in two of them."""

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
    """Who has which cell now."""

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
    and when its node is cordoned or to be drained, unless a job still runs on it.
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
    for gpu, node, index, model, works, cordoned, draining in rows.values_list(*columns):
        there = layout.where.get(Leaf(node, index))
        if there is None or not works or there[0].gpu_model != model:
            continue
        use, bit = found[there[0].name], 1 << there[1]
        guaranteed = held.get(gpu)
        if guaranteed is not None or not (cordoned or draining):
            use.bad ^= bit
        if guaranteed is not None:
            use.used |= bit * guaranteed
            use.opportunistic |= bit * (not guaranteed)
    return found


def _on(chain: Chain, nodes: Collection[str]) -> int:
    return sum(1 << number for number, leaf in enumerate(chain.leaves) if leaf.node in nodes)


def _held(nodes: Collection[str] | None) -> dict[int, bool]:
    """Return whether the one who holds a GPU is guaranteed, by GPU."""
    rows = AllocatedGpu.objects.filter(phase=HoldPhase.HELD)
    if nodes is not None:
        rows = rows.filter(gpu__node__name__in=nodes)
    return dict(rows.values_list("gpu_id", "allocation__guaranteed"))


def owners_of(layout: Layout) -> Owners:
    """Return who has which cell; what the rounds remember of a specification that is no more is left out."""
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
        """Return by level how many of the owed cells can not be had healthy, the others together in mind.

        Larger cells are looked for first. Cells nest evenly, so what is left for the smaller ones does not
        depend on which larger ones are taken.
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
    """Return by level how many cells these virtual clusters own in a chain and have not got now."""
    counts = [0] * (chain.top + 1)
    for virtual_cluster in virtual_clusters:
        owned: Mapping[tuple[str, int], int] = layout.owned.get(virtual_cluster, {})
        for (name, level), cells in owned.items():
            if name == chain.name:
                had = len(owners.bound(virtual_cluster, name, level))
                counts[level] += max(cells - had, 0)
    return counts
