"""An operator's declaration of cells: their types, the hardware, and what each virtual cluster owns.

A *cell* is a group of GPUs that are near to each other: a switch, a socket, a node, a rack (HiveD, OSDI'20,
section 3). A virtual cluster that owns a cell of a type always gets GPUs that are that near; a count of GPUs
does not guarantee that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class CellType:
    """`count` cells of type `of`. A type that is not defined is a leaf: one GPU of the model of that name."""

    name: str
    of: str
    count: int
    #: One machine. On the way from the hardware's topmost type to the GPU there is exactly one such type.
    node: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalCell:
    """A topmost cell of the hardware, complete down to its GPUs."""

    type: str
    name: str
    #: The machines in it, in order.
    nodes: tuple[str, ...]
    #: Node -> the indices of its GPUs in the order of the leaves; 0, 1, 2, ... by default.
    gpus: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualCells:
    """What one virtual cluster owns."""

    #: Type, or "topmost type/type" where a type occurs in several chains -> how many.
    cells: Mapping[str, int] = field(default_factory=dict)
    #: Name -> address of a physical cell that this virtual cluster owns permanently.
    pinned: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Specification:
    """The whole declaration. `core.cells.chains.compiled` checks that it is consistent."""

    types: tuple[CellType, ...] = ()
    physical: tuple[PhysicalCell, ...] = ()
    virtual_clusters: Mapping[str, VirtualCells] = field(default_factory=dict)
