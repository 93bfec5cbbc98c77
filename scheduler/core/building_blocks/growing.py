"""Elastic gangs that run on fewer GPUs than they may have grow into what is idle, when nobody waits for it.

As grow-shrink in W. Xiao et al., "Gandiva", OSDI 2018, section 3: only what is idle is taken, and whoever
comes later shrinks them again by the order of the policy. To grow is to be checkpointed and started anew, so
it is not done to a gang that was started a moment ago.
"""

from __future__ import annotations

from dataclasses import replace

from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.service import INSTANT_SECONDS
from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.demand import all_sizes_of, demand_of
from scheduler.core.model.plan import Decision, Grant
from scheduler.core.model.snapshot import Job, Running

#: A gang that was started less than this ago is left as it is.
SETTLED_SECONDS = 300.0


def with_growth(view: View, decision: Decision) -> Decision:
    """Return the decision, in which gangs grow if it leaves everything as it is."""
    if decision.grants or decision.stops or not decision.keep_running or len(view.running) < len(view.jobs):
        return decision
    small = [job for job in view.jobs.values() if _is_small(job, view.running[job.id])]
    if not small:
        return decision
    capacity, grants, wakes = view.capacity.fork(), [], []
    capacity.keep_all(but=[job.id for job in small])
    for job in sorted(small, key=lambda job: (-job.priority, job.submitted_at, job.id)):
        running = view.running[job.id]
        settled_at = running.since + SETTLED_SECONDS
        if view.now < settled_at - INSTANT_SECONDS:
            wakes.append(settled_at)
        elif (gpus := _larger(job, running, capacity)) is not None:
            grants.append(Grant(jobs=running.jobs, gpus=gpus, gpu_model=running.gpu_model))
            continue
        capacity.keep(capacity.pending[running.jobs])
    wakes += [] if decision.wake_at is None else [decision.wake_at]
    return replace(decision, grants=tuple(grants), wake_at=min(wakes, default=None))


def _is_small(job: Job, running: Running) -> bool:
    if job.elastic is None or running.jobs != (job.id,) or running.phase != "held":
        return False
    return len(running.gpus) < job.elastic[1]


def _larger(job: Job, running: Running, capacity: Capacity) -> int | None:
    """Settle the gang at the largest size that disturbs nobody; return that size, None where none is."""
    holding = capacity.pending[running.jobs]
    left = capacity.fork()
    left.drop(holding)
    for gpus in [size for size in reversed(all_sizes_of(job)) if size > len(running.gpus)]:
        demand = demand_of(job, capacity.cluster, gpus, running.gpu_model)
        fit = left.find(demand)
        if fit is not None and not fit.victims:
            capacity.drop(holding)
            capacity.take(fit)
            return gpus
    return None
