"""The geometry of cells, in numbers.

Hardware with the same topmost type is a *chain*. Every cell of a type is alike, so a cell needs no object:
level 0 holds the chain's GPUs, the cells of each level are numbered from 0 in the order of the hardware, and
the children of a cell are numbered one after another. A set of cells of one level is a plain integer whose
bit n stands for cell n.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from scheduler.core.model.cell_specification import PhysicalCell, Specification


class Cell(NamedTuple):
    """A cell of a chain, physical or virtual."""

    chain: str
    level: int
    number: int


class Leaf(NamedTuple):
    """A GPU by its place: the name of its node, and its index on the node."""

    node: str
    gpu: int


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """All hardware of one topmost type; the sequences are by level, the GPUs first."""

    name: str
    types: tuple[str, ...]
    #: Children of a cell; 0 for a GPU.
    fanouts: tuple[int, ...]
    #: GPUs of a cell.
    sizes: tuple[int, ...]
    node_level: int
    tops: tuple[PhysicalCell, ...]
    leaves: tuple[Leaf, ...]
    #: The name of each node -> its number.
    nodes: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        firsts = self.leaves[:: self.sizes[self.node_level]]
        object.__setattr__(self, "nodes", {leaf.node: number for number, leaf in enumerate(firsts)})

    @property
    def gpu_model(self) -> str:
        return self.types[0]

    @property
    def top(self) -> int:
        """The topmost level."""
        return len(self.types) - 1

    def count(self, level: int) -> int:
        """Return the number of cells of that level."""
        return len(self.leaves) // self.sizes[level]

    def everything(self, level: int) -> int:
        """Return the set of all cells of that level."""
        return (1 << self.count(level)) - 1

    def within(self, level: int, number: int, below: int) -> range:
        """Return the cells of level `below` that are part of a cell."""
        ratio = self.sizes[level] // self.sizes[below]
        return range(number * ratio, (number + 1) * ratio)

    def set_within(self, level: int, number: int, below: int) -> int:
        """Return the same cells as a set."""
        ratio = self.sizes[level] // self.sizes[below]
        return ((1 << ratio) - 1) << (number * ratio)

    def above(self, level: int, number: int, higher: int) -> int:
        """Return the cell of level `higher` that a cell is part of."""
        return number * self.sizes[level] // self.sizes[higher]

    def gpus_of(self, level: int, number: int) -> tuple[Leaf, ...]:
        """Return the GPUs of a cell."""
        size = self.sizes[level]
        return self.leaves[number * size : (number + 1) * size]

    def address(self, level: int, number: int) -> str:
        """Return a cell's address: the names and numbers on the path down to it, such as "rack-1/n3/0/1"."""
        top = self.above(level, number, self.top)
        steps = [self.tops[top].name]
        for lower in range(self.top - 1, level - 1, -1):
            here = self.above(level, number, lower)
            is_node = lower == self.node_level
            steps.append(
                self.gpus_of(lower, here)[0].node if is_node else str(here % self.fanouts[lower + 1])
            )
        return "/".join(steps)


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """The compiled form of a specification."""

    specification: Specification
    chains: Mapping[str, Chain]
    #: GPU -> its chain, and its index there.
    where: Mapping[Leaf, tuple[Chain, int]]
    #: Virtual cluster -> (chain, level) -> number of cells it owns, without pinned ones.
    owned: Mapping[str, Mapping[tuple[str, int], int]]
    #: Virtual cluster -> name -> the cell pinned to it.
    pinned: Mapping[str, Mapping[str, Cell]]
    #: The GPU models that are divided by cells.
    gpu_models: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        models = frozenset(chain.gpu_model for chain in self.chains.values())
        object.__setattr__(self, "gpu_models", models)

    def guaranteed(self, virtual_cluster: str) -> dict[str, int]:
        """Return the number of GPUs in the cells of a virtual cluster, by model."""
        counts: Counter[str] = Counter()
        for (name, level), cells in self.owned.get(virtual_cluster, {}).items():
            counts[self.chains[name].gpu_model] += cells * self.chains[name].sizes[level]
        for cell in self.pinned.get(virtual_cluster, {}).values():
            counts[self.chains[cell.chain].gpu_model] += self.chains[cell.chain].sizes[cell.level]
        return {model: gpus for model, gpus in sorted(counts.items()) if gpus}

    def find(self, address: str) -> Cell | None:
        """Return the cell at an address, or None."""
        name, *_ = address.split("/")
        for chain in self.chains.values():
            for number, top in enumerate(chain.tops):
                if top.name == name:
                    return _descend(chain, number, address)
        return None


def _descend(chain: Chain, number: int, address: str) -> Cell | None:
    steps = address.split("/")
    level = chain.top
    for step in steps[1:]:
        children = chain.within(level, number, level - 1) if level else range(0)
        level -= 1
        found = [child for child in children if chain.address(level, child).rsplit("/", 1)[1] == step]
        if not found:
            return None
        number = found[0]
    return Cell(chain.name, level, number)
