"""HiveD's own scheduler on the cells of `scheduler.core.cells`: the oracle of rounds in cells.

Rounds share its geometry and its bindings and nothing above them; README.md says what it does and what holds.
"""

from tests.core.cells.oracle.groups import (
    OPPORTUNISTIC,
    Group,
    Placement,
    Pod,
    Preempt,
    Reconfiguration,
    RequestError,
    Wait,
)
from tests.core.cells.oracle.state import CellState

__all__ = [
    "OPPORTUNISTIC",
    "CellState",
    "Group",
    "Placement",
    "Pod",
    "Preempt",
    "Reconfiguration",
    "RequestError",
    "Wait",
]
