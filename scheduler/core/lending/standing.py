"""The state of a virtual cluster after a round: what it can do without, and which jobs still wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from scheduler.core.cells.chains import Layout
from scheduler.core.lending.in_force import split
from scheduler.core.lending.lots import Cells, cells_of
from scheduler.core.model.loan_terms import Lot


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """A guaranteed job that waits."""

    job: int
    #: The models that it accepts, the preferred first.
    gpu_models: tuple[str, ...]
    #: The number of GPUs of each replica.
    replicas: tuple[int, ...]
    since: float
    #: How many GPUs the job needs in all; parts count as parts, since several such jobs share one GPU.
    gpus: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One virtual cluster. Cells are by chain and level; some of what it has may be borrowed."""

    virtual_cluster: str
    #: GPUs of its guarantee that no guaranteed job has, by model, for models divided by counts.
    room: Mapping[str, int] = field(default_factory=dict)
    #: Its own GPUs of these models that are not lent, used or not.
    own: Mapping[str, int] = field(default_factory=dict)
    #: Its own cells that are not lent, the cells that it has borrowed, and the cells of both kinds in use.
    cells: Cells = field(default_factory=Counter)
    borrowed: Cells = field(default_factory=Counter)
    used: Cells = field(default_factory=Counter)
    #: In the order in which they will be considered.
    waiting: tuple[Want, ...] = ()

    def spares(self, lots: Iterable[Lot], layout: Layout | None) -> bool:
        """Return whether all of these lots could be given away now without loss for a guaranteed job."""
        gpus: Counter[str] = Counter()
        cells: Cells = Counter()
        for lot in lots:
            gpus.update(lot.gpus)
            cells.update(cells_of(lot, layout))
        for model, count in gpus.items():
            if count > min(self.room.get(model, 0), self.own.get(model, 0)):
                return False
        if not cells:
            return True
        assert layout is not None
        left = split(layout, self.cells, cells)
        if left is None:
            return False
        left.update(self.borrowed)
        return all(left[kind] >= count for kind, count in self.used.items())

    def waits_for(self, model: str) -> bool:
        """Return whether a guaranteed job that could use GPUs of a model is waiting."""
        return any(model in want.gpu_models for want in self.waiting)

    def free_cells(self) -> Cells:
        """Return its cells, own and borrowed, that are not in use."""
        return self.cells + self.borrowed - self.used


def units_of(cells: Cells, model: str, layout: Layout) -> list[int]:
    """Return the sizes of the parts of cells that can each hold a replica."""
    units = []
    for (name, level), count in cells.items():
        chain = layout.chains[name]
        if chain.gpu_model == model:
            unit = chain.sizes[min(level, chain.node_level)]
            units += [unit] * (count * chain.sizes[level] // unit)
    return sorted(units)


def holds(units: Iterable[int], replicas: Iterable[int]) -> bool:
    """Return whether replicas fit into parts of these sizes: largest first, each into the tightest part."""
    left = sorted(units)
    for replica in sorted(replicas, reverse=True):
        place = next((number for number, unit in enumerate(left) if unit >= replica), None)
        if place is None:
            return False
        left[place] -= replica
        left.sort()
    return True
