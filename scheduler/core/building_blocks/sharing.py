"""Progressive filling: repeatedly, the next gang comes from the tenant with the lowest standing.

This is how max-min fairness is reached with whole gangs (A. Ghodsi et al., "Dominant Resource Fairness", NSDI
2011, algorithm 1). The policy defines a tenant's standing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import heapify, heappop, heappush

from scheduler.core.building_blocks.ordering import Outcome, Starts, anywhere, waiting_jobs
from scheduler.core.building_blocks.policy import View
from scheduler.core.fitting.holding import Holding
from scheduler.core.model.plan import Grant, Reason
from scheduler.core.model.snapshot import Job, JobId


def weights_of(view: View) -> dict[str, float]:
    """Return the weight of each tenant with a job in the view; 1 for a tenant that is not a member."""
    stated = {member.tenant: member.weight for member in view.members}
    return {tenant: stated.get(tenant, 1.0) for tenant in sorted({job.tenant for job in view.jobs.values()})}


def held_by_tenant(view: View) -> list[tuple[str, Holding, float]]:
    """Return the view's holdings by tenant, each with the tenant's part of it where jobs share it."""
    return [
        (view.jobs[job].tenant, holding, 1 / len(jobs))
        for jobs, holding in view.capacity.pending.items()
        for job in jobs
    ]


def start_by_standing(
    view: View, standing: Callable[[str], float], charge: Callable[[str, Holding], None]
) -> Outcome:
    """Start gangs beside everything that runs, each time one of the tenant with the lowest standing.

    `charge` receives what the tenant takes, which raises its standing. Within a tenant: higher priority, then
    earlier submission. A gang that does not fit is passed by the tenant's next gang.
    """
    queues = queues_of(waiting_jobs(view))
    capacity = view.capacity.fork()
    capacity.keep_all()
    starts = Starts(capacity, anywhere)
    grants: list[Grant] = []
    left = {tenant: iter(jobs) for tenant, jobs in queues.items()}
    heap = [(standing(tenant), tenant) for tenant in left]
    heapify(heap)
    while heap and not starts.exhausted:
        _, tenant = heappop(heap)
        for job in left[tenant]:
            started = starts.start(job)
            if started is not None:
                grants.append(started[0])
                charge(tenant, started[1])
                heappush(heap, (standing(tenant), tenant))
                break
    granted = {job for grant in grants for job in grant.jobs}
    order = sorted(queues, key=lambda tenant: (standing(tenant), tenant))
    queue = [job.id for tenant in order for job in queues[tenant] if job.id not in granted]
    return Outcome(grants=tuple(grants), queue=tuple(queue))


def reasons_by_tenant(
    outcome: Outcome, view: View, reason_of: Callable[[str], Reason]
) -> dict[JobId, tuple[Reason, ...]]:
    """Return for each waiting job the reason of its tenant."""
    known: dict[str, tuple[Reason, ...]] = {}
    reasons = {}
    for job in outcome.queue:
        tenant = view.jobs[job].tenant
        if tenant not in known:
            known[tenant] = (reason_of(tenant),)
        reasons[job] = known[tenant]
    return reasons


def queues_of(jobs: list[Job]) -> Mapping[str, list[Job]]:
    """Return each tenant's jobs in its own order."""
    queues: dict[str, list[Job]] = {}
    for job in sorted(jobs, key=_in_own_order):
        queues.setdefault(job.tenant, []).append(job)
    return queues


def _in_own_order(job: Job) -> tuple[int, float, JobId]:
    return -job.priority, job.submitted_at, job.id
