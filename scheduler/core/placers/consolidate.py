"""Keep jobs where they are; place others on the fewest nodes, near to each other, leaving big holes whole.

The order of preference is: no job is disturbed; few nodes; near in the topology; the tightest fit. When jobs
must make room, the victims are those that lose least. `packing` and `capacity` give the full rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.core.building_blocks.placing import place_all
from scheduler.core.building_blocks.policy import PlacerDecision, View
from scheduler.core.fitting.capacity import Capacity
from scheduler.core.model.plan import Grant


@dataclass(frozen=True, slots=True, kw_only=True)
class Consolidate:
    """Few nodes, near to each other, the tightest fit; the default."""

    def place(self, grants: Sequence[Grant], view: View, capacity: Capacity) -> PlacerDecision:
        """Return where the grants go; one that does not fit is left out."""
        return place_all(grants, view, capacity)
