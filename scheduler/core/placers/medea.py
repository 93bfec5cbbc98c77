"""Place long-running services as a batch: all new jobs with tags together, to meet the most constraints.

P. Garefalakis et al., "Medea: Scheduling of Long Running Applications in Shared Production Clusters",
EuroSys'18: jobs that must be near one another can only start together, and placed one by one the first may
take what the next ones need. `fitting.long_running` states the problem and how it is solved. Deviations:

- Medea has two schedulers, whose placements may collide, and a batch at intervals. Here a batch is one view's
  grants of a round, and jobs without tags are placed after it as by `consolidate`.
- Every placer obeys constraints between tags (`building_blocks.tagged`), but places one job after the other,
  in the policy's order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from scheduler.core.building_blocks.placing import place_all
from scheduler.core.building_blocks.policy import PlacerDecision, View
from scheduler.core.fitting.capacity import Capacity
from scheduler.core.model.plan import Grant


@dataclass(frozen=True, slots=True, kw_only=True)
class Medea:
    """Jobs with tags together, then fewest nodes."""

    #: Whether `place_tagged` places all new jobs with tags at once.
    together: ClassVar[bool] = True

    def place(self, grants: Sequence[Grant], view: View, capacity: Capacity) -> PlacerDecision:
        """Return where the grants go; one that does not fit is left out."""
        return place_all(grants, view, capacity)
