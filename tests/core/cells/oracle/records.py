"""What is known of a group that has GPUs, or has some reserved."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.core.cells.oracle.groups import Group, Placement

if TYPE_CHECKING:
    from tests.core.cells.oracle.hardware import UsedHardware
    from tests.core.cells.oracle.space import UsedSpace


@dataclass(slots=True, eq=False)
class Record:
    """A group and what it holds."""

    #: The n-th to start.
    number: int
    group: Group
    placement: Placement
    #: Its physical GPUs by chain. Several chains are possible only after a change of the hardware.
    held: list[tuple[UsedHardware, list[int]]]
    #: The virtual cells it runs on; None: opportunistic, lapsed, or it holds no GPU of a cell.
    space: UsedSpace | None = None
    #: Its virtual GPUs, in the order of the physical ones.
    virtual: list[int] = field(default_factory=list)
    #: It waits for the groups that use its GPUs to leave ("Preempting" in HiveD).
    reserving: bool = False
    #: Virtual GPU -> the group that has it still, and gets it back when the reservation is withdrawn.
    displaced: dict[int, Record] = field(default_factory=dict)
    #: Its cells were taken away by a change of the specification: in its own virtual cluster it makes room
    #: for higher priorities only. (One that lapsed by lazy preemption makes room for all.)
    keeps_priority: bool = False

    @property
    def guaranteed(self) -> bool:
        """Whether its GPUs are its own: those that no cell has are owed to no other group."""
        return self.space is not None or not (self.held or self.group.opportunistic)
