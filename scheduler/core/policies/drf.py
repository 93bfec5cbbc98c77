"""Dominant resource fairness: the next gang goes to the tenant whose dominant share is smallest.

A. Ghodsi et al., "Dominant Resource Fairness: Fair Allocation of Multiple Resource Types", NSDI 2011,
algorithm 1 and its weighted form (section 4.3). A tenant's dominant share is the largest part it holds of
any resource; resources are the GPUs of each model, the CPUs and the memory. Deviations and choices:

- The pool is what the view may hand out: its GPUs of each model, and the same part of the CPUs and memory of
  their nodes. CPUs and memory that nodes do not report do not count.
- A tenant whose next gang does not fit goes on with its next one that does, as in Mesos; the paper's tasks
  all fit alike.
- Nothing that runs is preempted, as in the paper: fairness comes as jobs end.
- Priority counts within a tenant only. Across tenants, each tenant could claim more by raising it, which the
  paper's strategy-proofness excludes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.sharing import (
    held_by_tenant,
    reasons_by_tenant,
    start_by_standing,
    weights_of,
)
from scheduler.core.fitting.holding import Holding
from scheduler.core.model.plan import Decision, Reason, Tier
from scheduler.core.model.snapshot import Memory

CPUS, MEMORY = "CPUs", "memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drf:
    """Smallest weighted dominant share first; weights are those of the view's members."""

    #: Among jobs that are alike the earlier starts first; jobs without room change nothing.
    by_arrival: ClassVar[bool] = True
    #: No job stops, moves or shares GPUs for one that starts.
    only_starts: ClassVar[bool] = True

    def allocate(self, view: View, memory: Memory) -> Decision:
        """Keep what runs; fill up what is left, tenant by tenant."""
        if len(view.running) == len(view.jobs):
            return Decision(grants=(), keep_running=True)
        shares = _Shares(view)
        outcome = start_by_standing(view, shares.weighted, shares.charge)
        return outcome.decision(reasons_by_tenant(outcome, view, shares.reason))


class _Shares:
    """What each tenant holds of each resource."""

    def __init__(self, view: View) -> None:
        self._weights = weights_of(view)
        self._pool = _pool(view)
        self._held: dict[str, dict[str, float]] = {tenant: {} for tenant in self._weights}
        for tenant, holding, part in held_by_tenant(view):
            self.charge(tenant, holding, part)

    def charge(self, tenant: str, holding: Holding, part: float = 1.0) -> None:
        """Note what a tenant takes."""
        held = self._held[tenant]
        taken = {
            holding.model: float(holding.amount),
            CPUS: sum([there.cpus for there in holding.parts]),
            MEMORY: sum([there.memory for there in holding.parts]),
        }
        for resource, amount in taken.items():
            held[resource] = held.get(resource, 0.0) + part * amount

    def dominant(self, tenant: str) -> tuple[float, str]:
        """Return the tenant's largest part of any resource, and the name of that resource."""
        held = self._held[tenant]
        return max(
            [(amount / self._pool[name], name) for name, amount in held.items() if self._pool.get(name)],
            default=(0.0, ""),
        )

    def reason(self, tenant: str) -> Reason:
        """Return why the tenant's jobs wait."""
        share, resource = self.dominant(tenant)
        holds = f"holds {share:.0%} of the {resource}, its dominant share" if resource else "holds nothing"
        return Reason(
            code="dominant_share",
            tier=Tier.ORDER,
            message=f"Tenant {tenant} {holds}; tenants with a smaller one for their weight go first.",
            blocking={"tenant": tenant},
        )

    def weighted(self, tenant: str) -> float:
        """Return the tenant's dominant share divided by its weight; a tenant of weight 0 comes last."""
        share, weight = self.dominant(tenant)[0], self._weights[tenant]
        return share / weight if weight > 0 else float("inf")


def _pool(view: View) -> dict[str, float]:
    """Return how much of each resource this view may hand out."""
    pool: dict[str, float] = {CPUS: 0.0, MEMORY: 0.0}
    for model, fleet in view.capacity.cluster.fleets.items():
        gpus = min(view.capacity.room(model), fleet.total)
        pool[model] = float(gpus)
        part = gpus / fleet.total if fleet.total else 0.0
        pool[CPUS] += part * sum([node.cpus for node in fleet.nodes])
        pool[MEMORY] += part * sum([node.memory_bytes for node in fleet.nodes])
    return pool
