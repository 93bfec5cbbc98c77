"""What the whole cluster has to offer before anyone was served."""

from __future__ import annotations

from collections.abc import Collection

from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.claims import Claims
from scheduler.core.model.snapshot import AllocationId
from scheduler.core.round.admit import Admission
from scheduler.core.round.facts import Facts


class Survey:
    """The claims of all allocations on the cluster."""

    def __init__(self, facts: Facts, admission: Admission) -> None:
        self._facts, self._admission = facts, admission
        self._claims = Claims(facts.cluster)

    def refresh(self, allocations: Collection[AllocationId]) -> Capacity:
        """Take in the allocations that changed; return what the cluster offers now."""
        facts = self._facts
        for allocation in sorted(allocations):
            self._claims.drop(allocation)
            running = facts.running.get(allocation)
            if running is None or allocation in facts.stale:
                continue
            ends = running.stopping or allocation in self._admission.endings
            # A promise that is dropped leaves nothing behind: its GPUs still have the holder they had.
            if not (ends and running.phase == "planned"):
                self._claims.put(allocation, facts.holdings[allocation], leaves=ends)
        return Capacity(facts.cluster, self._claims.layers(), self._claims.evictable)
