"""Keep jobs where they are; place others on the fewest nodes, near to each other, leaving big holes whole.

The order of preference is: nobody is disturbed; few nodes; near in the topology; the tightest fit. When
someone must make room, it is those who lose least by it. `packing` and `capacity` say it in full.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduler.core.capacity import Capacity
from scheduler.core.plan import Grant, Placement
from scheduler.core.settle import settle_all
from scheduler.core.snapshot import Job, JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class Consolidate:
    """The default placer."""

    def place(
        self, grants: Sequence[Grant], jobs: Mapping[JobId, Job], capacity: Capacity
    ) -> Mapping[int, Placement]:
        """Return placements by position in `grants`; a grant that cannot be placed is left out."""
        granted = {grant.jobs for grant in grants}
        for running, holding in list(capacity.pending.items()):
            if running not in granted:
                capacity.drop(holding)
        return settle_all(grants, jobs, capacity)
