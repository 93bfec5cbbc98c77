"""Step 4, continued: let jobs join running ones without disturbing them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.joining import join, may_be_joined
from scheduler.core.model.gpu_parts import SHARE_NEVER
from scheduler.core.model.snapshot import AllocationId, Job, JobId, Running
from scheduler.core.round.facts import Facts
from scheduler.core.round.run_view import ViewOutcome


def joined(
    facts: Facts, partings: Iterable[JobId], outcome: ViewOutcome, left: Capacity
) -> tuple[ViewOutcome, Capacity]:
    """Return the outcome with the jobs that can join as its policy asks, and what is left of the cluster.

    A job waits if there is no room, or if it may not be there or share. It also waits if another job leaves
    the group in this round, by its policy or otherwise (`partings`), because the memory of that job is not
    free yet.
    """
    if not outcome.decision.joins:
        return outcome, left
    left, kept = left.fork(), outcome.kept
    leaving = outcome.decision.leaves.keys() | set(partings)
    joins: dict[AllocationId, tuple[JobId, ...]] = {}
    for host, names in outcome.decision.joins.items():
        running = facts.current[host]
        if not kept.issuperset(running.jobs) or not leaving.isdisjoint(running.jobs):
            continue
        came = list(joins.get(running.allocation, ()))
        for guest in [facts.jobs[name] for name in names]:
            if _may_share(guest, running, facts) and join(left, running, guest):
                came.append(guest.id)
        if came:
            joins[running.allocation] = tuple(came)
    return replace(outcome, joins=joins), left


def _may_share(guest: Job, running: Running, facts: Facts) -> bool:
    """Return whether a guest may share an allocation's GPUs.

    It may if no job is elastic or has parts, tags or tag constraints, if all are guaranteed or none is, and
    if no virtual cluster of theirs forbids sharing.
    """
    jobs = [guest, *[facts.jobs[job] for job in running.jobs]]
    return may_be_joined(running) and all(
        [
            job.elastic is None
            and not job.has_parts
            and not job.tags
            and not job.constraints
            and job.guaranteed == guest.guaranteed
            and facts.virtual_clusters[job.virtual_cluster].sharing != SHARE_NEVER
            for job in jobs
        ]
    )
