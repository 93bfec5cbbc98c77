"""Cells: groups of near GPUs that virtual clusters own by type and number (HiveD, OSDI'20).

`Specification` says what an operator declares, `from_document` and `to_document` read and write it, and
`compiled` checks it and numbers the cells. `CellState` gives them to groups; docs/cells-api.md describes it.
"""

from scheduler.core.cells.chains import Cell, Chain, Layout, Leaf
from scheduler.core.cells.compiling import compiled
from scheduler.core.cells.document import from_document, to_document
from scheduler.core.cells.errors import Problem, RequestError, SpecificationError
from scheduler.core.cells.groups import (
    OPPORTUNISTIC,
    Group,
    Placement,
    Pod,
    Preempt,
    Reconfiguration,
    Wait,
)
from scheduler.core.cells.state import CellState
from scheduler.core.model.cell_specification import CellType, PhysicalCell, Specification, VirtualCells

__all__ = [
    "OPPORTUNISTIC",
    "Cell",
    "CellState",
    "CellType",
    "Chain",
    "Group",
    "Layout",
    "Leaf",
    "PhysicalCell",
    "Placement",
    "Pod",
    "Preempt",
    "Problem",
    "Reconfiguration",
    "RequestError",
    "Specification",
    "SpecificationError",
    "VirtualCells",
    "Wait",
    "compiled",
    "from_document",
    "to_document",
]
