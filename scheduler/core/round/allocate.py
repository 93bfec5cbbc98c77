"""Step 3, allocate: the view's policy says who gets how many GPUs; what it says is checked here."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.core.building_blocks.policy import Policy, View
from scheduler.core.fitting.demand import demand_of_grant, models_of
from scheduler.core.model.errors import PolicyError
from scheduler.core.model.plan import Decision
from scheduler.core.model.snapshot import JobId, Memory


def allocate(view: View, policy: Policy, memory: Memory) -> Decision:
    """Return the policy's decision; raise PolicyError when it fails or grants what is not allowed."""
    try:
        decision = policy.allocate(view, memory)
        check_decision(decision, view)
    except PolicyError:
        raise
    except Exception as error:  # A policy may fail in any way it likes: it costs only its own view.
        raise PolicyError(f"policy {type(policy).__name__} failed: {error!r}") from error
    return decision


def check_decision(decision: Decision, view: View) -> None:
    """Raise PolicyError for grants that no placer could turn into a legal plan."""
    granted: set[JobId] = set()
    for grant in decision.grants:
        unknown = [job for job in grant.jobs if job not in view.jobs]
        if unknown or not grant.jobs:
            raise PolicyError(f"a grant names jobs that are not in view {view.name}: {unknown}")
        twice = granted.intersection(grant.jobs)
        if twice or len(set(grant.jobs)) < len(grant.jobs):
            raise PolicyError(f"a job was granted GPUs twice: {sorted(twice) or grant.jobs}")
        granted.update(grant.jobs)
        running = view.running.get(grant.jobs[0])
        if running is not None and running.jobs == grant.jobs and grant.gpus == len(running.gpus):
            continue
        demand = demand_of_grant(grant, view.jobs, view.capacity.cluster)
        for job in grant.jobs:
            accepted: Mapping[str, None] = dict.fromkeys(models_of(view.jobs[job], view.capacity.cluster))
            if grant.gpu_model is not None and grant.gpu_model not in accepted:
                raise PolicyError(f"job {job} was granted {grant.gpu_model}, which it does not accept")
        if not demand.models:
            raise PolicyError(f"jobs {grant.jobs} have no GPU model in common")
    wrong = [job for job in decision.stops if job not in view.running or job in granted]
    if wrong or (decision.stops and not decision.keep_running):
        raise PolicyError(f"jobs {wrong or decision.stops} cannot be both stopped and granted, or do not run")
