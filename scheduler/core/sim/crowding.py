"""Interference between gangs over several nodes: gangs that share a node slow each other down.

As in the published simulator of Pollux (OSDI'21, section 5.3.2), a job over several nodes that shares a node
with another such job is slower by a part. A job on a single node neither suffers nor disturbs.
"""

from __future__ import annotations

from collections.abc import Set

from scheduler.core.model.snapshot import AllocationId


class Crowding:
    """The gangs over several nodes, and the nodes of each."""

    def __init__(self, slowdown: float) -> None:
        self._slowdown = slowdown
        self._nodes: dict[AllocationId, frozenset[object]] = {}
        self._on: dict[object, set[AllocationId]] = {}

    def factor(self, allocation: AllocationId) -> float:
        """Return the factor by which a gang is slowed."""
        if any(len(self._on[node]) > 1 for node in self._nodes.get(allocation, ())):
            return 1.0 - self._slowdown
        return 1.0

    def come(self, allocation: AllocationId, nodes: Set[object]) -> list[AllocationId]:
        """Add a gang on these nodes; return the gangs whose speed changes."""
        if not self._slowdown or len(nodes) < 2 or allocation in self._nodes:
            return []
        before = self._factors(nodes)
        self._nodes[allocation] = frozenset(nodes)
        for node in nodes:
            self._on.setdefault(node, set()).add(allocation)
        return self._changed(before)

    def go(self, allocation: AllocationId) -> list[AllocationId]:
        """Remove a gang; return the gangs whose speed changes."""
        nodes = self._nodes.get(allocation, frozenset())
        before = self._factors(nodes)
        self._nodes.pop(allocation, None)
        for node in nodes:
            self._on[node].discard(allocation)
        before.pop(allocation, None)
        return self._changed(before)

    def _factors(self, nodes: Set[object]) -> dict[AllocationId, float]:
        there = {other for node in nodes for other in self._on.get(node, ())}
        return {other: self.factor(other) for other in sorted(there)}

    def _changed(self, before: dict[AllocationId, float]) -> list[AllocationId]:
        return [other for other, factor in before.items() if self.factor(other) != factor]
