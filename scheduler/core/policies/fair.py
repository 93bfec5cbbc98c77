"""Fair share: the next gang is one of the tenant with the fewest GPUs for its weight, recently and now.

Weighted max-min fairness over tenants, with decaying usage, after the fair-share factor of Slurm's
multifactor priority (half-life decay of usage) and the Fair Scheduler of Hadoop (what is held now; preemption
after a while). A tenant's standing is (average GPUs held recently + GPUs held now) / weight. The average
decays exponentially with the half-life. The next gang always comes from the tenant with the lowest standing.
What we chose:

- Slurm counts the past only, Hadoop the present only. Here both count alike, in GPUs: with a half-life of 0
  the rule is Hadoop's, and with a long one a tenant pays back what it used while others were away.
- GPUs of all models count alike; usage is what was granted, from round to round. If the memory is lost, the
  average starts again from what the running jobs have held so far.
- Within a tenant: higher priority first, then earlier submission. Priority does not count across tenants,
  where the weights do.
- With `preemptive`, tenants are filled up as if nothing ran, a tenant's running jobs before its waiting ones
  of the same priority; a job that then has no place stops, but never before it has run for a minimum time. A
  gang that does not fit still counts for its tenant in that order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scheduler.core.building_blocks.ordering import Outcome, serve_in_order
from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.service import INSTANT_SECONDS
from scheduler.core.building_blocks.sharing import (
    held_by_tenant,
    queues_of,
    reasons_by_tenant,
    start_by_standing,
    weights_of,
)
from scheduler.core.fitting.demand import amount_of
from scheduler.core.fitting.holding import Holding
from scheduler.core.model.plan import Decision, Reason, Tier
from scheduler.core.model.snapshot import Job, JobId, Memory

#: Averages below this many GPUs are forgotten.
NEGLIGIBLE_GPUS = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Fair:
    """Least GPUs for its weight first; weights are those of the view's members."""

    #: Seconds after which usage counts half; 0: only what is held now counts.
    half_life_seconds: float = 86_400.0
    #: Take GPUs from tenants that have more than their share.
    preemptive: bool = False
    #: Seconds for which a job runs before it may be preempted.
    minimum_run_seconds: float = 600.0

    @property
    def only_starts(self) -> bool:
        """Whether no job stops for one that starts."""
        return not self.preemptive

    def allocate(self, view: View, memory: Memory) -> Decision:
        """Fill up what is left, or everything, tenant by tenant."""
        usage = _Usage(self.half_life_seconds, view, memory)
        if len(view.running) == len(view.jobs):
            outcome = Outcome()
        elif self.preemptive:
            rank = self._ranks(view, usage)
            outcome = serve_in_order(view, lambda job: rank[job.id])
        else:
            outcome = start_by_standing(view, usage.standing, usage.charge)
        return outcome.decision(
            reasons_by_tenant(outcome, view, usage.reason),
            memory=usage.remember(outcome),
            wake_at=self._next_look(view) if self.preemptive and outcome.queue else None,
        )

    def _ranks(self, view: View, usage: _Usage) -> dict[JobId, tuple[Any, ...]]:
        """Return each job's rank: the standing that its tenant would have when its turn comes."""
        ranks: dict[JobId, tuple[Any, ...]] = {}
        for tenant, jobs in queues_of(list(view.jobs.values())).items():
            # Sorting is stable, so within these groups the order stays as it was.
            jobs.sort(key=lambda job: (-job.priority, job.id not in view.running))
            gpus = 0.0
            for place, job in enumerate(jobs):
                standing = usage.standing_with(tenant, gpus)
                waits = job.id not in view.running
                ranks[job.id] = (not self._is_safe(job, view), standing, waits, tenant, place, job.id)
                gpus += amount_of(job)
        return ranks

    def _is_safe(self, job: Job, view: View) -> bool:
        running = view.running.get(job.id)
        if running is None:
            return False
        return view.now - running.since_of(job.id) < self.minimum_run_seconds - INSTANT_SECONDS

    def _next_look(self, view: View) -> float:
        """Return when the next job may be preempted, or the averages have changed by about a hundredth."""
        pause = max(self.minimum_run_seconds, self.half_life_seconds / 100, view.round_seconds)
        ends = [held.since_of(job) + self.minimum_run_seconds for job, held in view.running.items()]
        return min([end for end in ends if end > view.now + INSTANT_SECONDS], default=view.now + pause)


class _Usage:
    """Where every tenant stands. Memory: `at`, and by tenant the `average` until then and `gpus` since."""

    def __init__(self, half_life_seconds: float, view: View, memory: Memory) -> None:
        self._half_life, self._view = half_life_seconds, view
        self._weights = weights_of(view)
        self._holds: dict[str, float] = {}
        for tenant, holding, part in held_by_tenant(view):
            self._holds[tenant] = self._holds.get(tenant, 0.0) + part * holding.amount
        if half_life_seconds <= 0:
            self._average: dict[str, float] = {}
        elif memory.get("policy") == "fair":
            self._average = self._continued(memory)
        else:
            self._average = self._begun()

    def standing(self, tenant: str) -> float:
        return self.standing_with(tenant, self._holds.get(tenant, 0.0))

    def standing_with(self, tenant: str, gpus: float) -> float:
        """Return the tenant's standing if it held `gpus` GPUs; a tenant of weight 0 comes last."""
        weight = self._weights[tenant]
        return (self._average.get(tenant, 0.0) + gpus) / weight if weight > 0 else float("inf")

    def charge(self, tenant: str, holding: Holding) -> None:
        """Note what a tenant takes."""
        self._holds[tenant] = self._holds.get(tenant, 0.0) + holding.amount

    def reason(self, tenant: str) -> Reason:
        """Return why the tenant's jobs wait."""
        average, holds = self._average.get(tenant, 0.0), self._holds.get(tenant, 0.0)
        return Reason(
            code="fair_share",
            tier=Tier.ORDER,
            message=f"Tenant {tenant} held {average:.1f} GPUs on average lately and holds {holds:g}"
            " now; tenants with less for their weight come first.",
            blocking={"tenant": tenant},
        )

    def remember(self, outcome: Outcome) -> dict[str, Any]:
        if self._half_life <= 0:
            return {}
        return {
            "policy": "fair",
            "at": self._view.now,
            "average": {
                tenant: gpus for tenant, gpus in sorted(self._average.items()) if gpus > NEGLIGIBLE_GPUS
            },
            "gpus": self._granted(outcome),
        }

    def _granted(self, outcome: Outcome) -> dict[str, float]:
        """Return what each tenant holds from now on."""
        view, named = self._view, {job for grant in outcome.grants for job in grant.jobs}
        granted: dict[str, float] = {}
        for grant in outcome.grants:
            for job in grant.jobs:
                tenant = view.jobs[job].tenant
                gpus = amount_of(view.jobs[job], grant.gpus)
                granted[tenant] = granted.get(tenant, 0.0) + gpus / len(grant.jobs)
        named.update(outcome.stops)
        for jobs, holding in view.capacity.pending.items():
            for job in jobs:
                if job not in named:
                    tenant = view.jobs[job].tenant
                    granted[tenant] = granted.get(tenant, 0.0) + holding.amount / len(jobs)
        return dict(sorted(granted.items()))

    def _continued(self, memory: Memory) -> dict[str, float]:
        before: Mapping[str, float] = memory.get("average", {})
        since: Mapping[str, float] = memory.get("gpus", {})
        kept = self._kept(self._view.now - float(memory.get("at", self._view.now)))
        return {
            tenant: before.get(tenant, 0.0) * kept + since.get(tenant, 0.0) * (1 - kept)
            for tenant in sorted({*before, *since})
        }

    def _begun(self) -> dict[str, float]:
        average: dict[str, float] = {}
        for tenant, holding, part in held_by_tenant(self._view):
            assert holding.running is not None
            new = 1 - self._kept(self._view.now - holding.running.since)
            average[tenant] = average.get(tenant, 0.0) + part * holding.amount * new
        return average

    def _kept(self, seconds: float) -> float:
        """Return the part of an average that is left after `seconds`."""
        return float(0.5 ** (max(0.0, seconds) / self._half_life))
