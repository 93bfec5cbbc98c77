"""Opportunistic jobs that have just begun, and may not be reclaimed yet.

Guarantees return at once, unless an operator lets borrowers run for a while first
(`VirtualCluster.reclaim_min_run_seconds`). Then no guaranteed job is placed on the GPUs of such a job until
that time is over.
"""

from __future__ import annotations

from collections.abc import Collection
from heapq import heappop, heappush

from scheduler.core.model.snapshot import AllocationId, Running
from scheduler.core.round.admit import Admission
from scheduler.core.round.facts import Facts


class Shielding:
    """Shields allocations while they are young, by the virtual clusters of their jobs."""

    def __init__(self, facts: Facts, admission: Admission) -> None:
        self._facts, self._admission = facts, admission
        self._is_used = any(vc.reclaim_min_run_seconds > 0 for vc in facts.virtual_clusters.values())
        #: When shielded allocations are old enough; entries of allocations that have changed are skipped.
        self._ends: list[tuple[float, AllocationId]] = []

    @property
    def ends_at(self) -> float | None:
        """When the next shielded allocation is old enough; None if none is shielded."""
        instants = [self.until(self._facts.running[each]) for each in self._facts.shielded]
        return min(instants, default=None)

    def until(self, running: Running) -> float:
        """Return the instant from which an allocation may be reclaimed if it is opportunistic."""
        facts = self._facts
        jobs = [facts.jobs[job].virtual_cluster for job in running.jobs if job in facts.jobs]
        clusters = [facts.virtual_clusters[name] for name in jobs if name in facts.virtual_clusters]
        return running.since + max([vc.reclaim_min_run_seconds for vc in clusters], default=0.0)

    def refresh(self, allocations: Collection[AllocationId]) -> None:
        """Update the allocations that changed, and end shields whose time is over."""
        if not self._is_used:
            return
        facts = self._facts
        looked_at = set(allocations)
        while self._ends and self._ends[0][0] <= facts.frame.now:
            looked_at.add(heappop(self._ends)[1])
        for allocation in sorted(looked_at & facts.running.keys()):
            running = facts.running[allocation]
            until = self.until(running)
            shielded = self._is_borrowing(running) and until > facts.frame.now
            facts.shield(allocation, shielded)
            if shielded:
                heappush(self._ends, (until, allocation))

    def _is_borrowing(self, running: Running) -> bool:
        facts = self._facts
        stays = facts.is_live(running) and running.allocation not in self._admission.endings
        return stays and running.phase == "held" and not facts.is_guaranteed(running)
