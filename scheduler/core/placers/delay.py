"""Delay scheduling for locality: a gang waits for GPUs close together and asks for less as time passes.

Philly's scheduler as M. Jeon et al. describe it, "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN
Training Workloads", USENIX ATC 2019, section 2.3: a gang is first tried on as few servers as possible, then,
after a number of tries, inside one RDMA domain (a rack here), at last anywhere. Meanwhile gangs that were
submitted later may start in its place; the paper found that this out-of-order start hardly hurts large gangs.
Deviations:

- Patience is a time, `relax_after_seconds` for each level, not a number of tries; the paper names no number.
- A gang skips a level that even the idle cluster could not satisfy: a gang larger than a node begins with the
  rack.
- A guaranteed gang reclaims a close place from opportunistic jobs, as it would any other place.
- The paper counts from the last try. We count from when the gang was submitted or last became eligible (after
  a failure's back-off); the snapshot does not say when a gang was preempted, so a preempted gang does not
  wait again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from scheduler.core.building_blocks.placing import place_all
from scheduler.core.building_blocks.policy import PlacerDecision, View
from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.cluster import Cluster
from scheduler.core.fitting.consolidation import IdleCluster
from scheduler.core.fitting.demand import Demand, demand_of_grant
from scheduler.core.model import wording
from scheduler.core.model.plan import Grant, Locality, Reason, Tier
from scheduler.core.model.snapshot import JobId

#: The levels of locality that a gang asks for, the closest first.
LEVELS = (Locality.NODE, Locality.RACK, Locality.ANY)

_WORDS = {
    Locality.NODE: "on one node",
    Locality.RACK: "within one rack",
    Locality.ANY: "anywhere",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """Wait for locality, then relax.

    `relax_after_seconds`: how long a gang waits for one level of locality before it makes do with the next.
    """

    relax_after_seconds: float = 300.0

    def __post_init__(self) -> None:
        if not self.relax_after_seconds >= 0:
            raise ValueError(f"relax_after_seconds is {self.relax_after_seconds:g}; it must be at least 0")

    def place(self, grants: Sequence[Grant], view: View, capacity: Capacity) -> PlacerDecision:
        """Return where the grants go, with reasons for gangs that wait for a better place."""
        levels = _Levels(capacity.cluster)
        narrowed: list[Grant] = []
        relaxes: dict[int, tuple[Locality, float]] = {}
        for position, grant in enumerate(grants):
            if view.running.keys().isdisjoint(grant.jobs):
                closest = levels.of(grant, view)
                since = min([_waits_since(view, job) for job in grant.jobs])
                passed = self._passed(view.now - since)
                locality = closest[min(passed, len(closest) - 1)]
                if passed < len(closest) - 1:
                    relaxes[position] = closest[passed + 1], since + (passed + 1) * self.relax_after_seconds
                grant = replace(grant, locality=locality)
            narrowed.append(grant)
        placed = place_all(narrowed, view, capacity)
        settled = {job for position in placed.placements for job in grants[position].jobs}
        waiting = {
            position: level
            for position, level in relaxes.items()
            if settled.isdisjoint(grants[position].jobs)
        }
        return replace(
            placed,
            reasons={
                job: (_reason(narrowed[position], *level),)
                for position, level in waiting.items()
                for job in grants[position].jobs
            },
            wake_at=min([instant for _, instant in waiting.values()], default=None),
        )

    def _passed(self, waited_seconds: float) -> int:
        """Return how many levels a gang has given up by now."""
        if self.relax_after_seconds <= 0:
            return len(LEVELS)
        return min(max(int(waited_seconds // self.relax_after_seconds), 0), len(LEVELS))


def _waits_since(view: View, job: JobId) -> float:
    return max(view.jobs[job].submitted_at, view.jobs[job].eligible_at)


def _reason(grant: Grant, then: Locality, instant: float) -> Reason:
    return Reason(
        code="waits_for_locality",
        tier=Tier.TOPOLOGY,
        message=f"It waits until {wording.instant(instant)} for {wording.gpus(grant.gpus)}"
        f" {_WORDS[grant.locality]}; after that, GPUs {_WORDS[then]} will do.",
        blocking={"locality": grant.locality.value, "until": instant},
        needed=grant.gpus,
    )


class _Levels:
    """The levels that a gang could get if the whole cluster were idle."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._idle = cluster, IdleCluster(cluster)
        self._known: dict[Demand, bool] = {}

    def of(self, grant: Grant, view: View) -> list[Locality]:
        """Return the levels in order; the last is the one that the policy asks for, possible or not."""
        needed = demand_of_grant(grant, view.jobs, self._cluster)
        hoped = []
        for locality in LEVELS[: LEVELS.index(grant.locality)]:
            demand = demand_of_grant(replace(grant, locality=locality), view.jobs, self._cluster)
            # A job that must be on one node anyway has nothing to relax to.
            if demand.ranks != needed.ranks and self._could_hold(demand):
                hoped.append(locality)
        return [*hoped, grant.locality]

    def _could_hold(self, demand: Demand) -> bool:
        if demand not in self._known:
            self._known[demand] = any(self._idle.holds(demand, model) for model in demand.models)
        return self._known[demand]
