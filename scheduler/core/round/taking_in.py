"""Apply the differences of a later snapshot to the facts of a kept engine.

Jobs and allocations are compared by value; equal ones stay the objects that the engine knows. Allocations
affected by a change are put again, too, so that the facts equal those made from the later snapshot. Any other
difference needs a new engine, since indexes are built from it only once.
"""

from __future__ import annotations

from dataclasses import fields, replace
from enum import Enum
from operator import attrgetter

from scheduler.core.model.changing import changed
from scheduler.core.model.snapshot import RETURNING, JobId, Snapshot, Tenant
from scheduler.core.round.facts import Facts

#: Fields compared item by item.
_PUT = ("jobs", "running", "tenants")
#: Fields that steps read from the frame in each round without keeping anything.
_READ_EACH_ROUND = (
    *("round_number", "now", "memory"),
    *("pair_speeds", "group_speeds", "interference", "workload"),
)
_NEWS = attrgetter("tenants", *_READ_EACH_ROUND[2:])
_FIXED = attrgetter(*[each.name for each in fields(Snapshot) if each.name not in (*_PUT, *_READ_EACH_ROUND)])


class News(Enum):
    """What a later snapshot adds to the facts."""

    NONE = "nothing but the number of the round and the time"
    SOME = "what could be taken in"
    TOO_MUCH = "what an engine is made of"


def take_in(facts: Facts, snapshot: Snapshot) -> News:
    """Apply the snapshot's differences to the facts; change nothing if a new engine is needed."""
    if not _goes_on(facts, snapshot):
        return News.TOO_MUCH
    before = facts.frame
    facts.frame = changed(before, **{name: getattr(snapshot, name) for name in _READ_EACH_ROUND})
    for tenant in snapshot.tenants:
        if facts.tenants[tenant.name] != tenant:
            facts.put_tenant(tenant)
    _take_in_jobs_and_allocations(facts, snapshot)
    is_same = not facts.changed_jobs and not facts.changed_allocations and _NEWS(before) == _NEWS(snapshot)
    return News.NONE if is_same else News.SOME


def _goes_on(facts: Facts, snapshot: Snapshot) -> bool:
    """Return whether an engine with these facts can continue with a snapshot."""
    frame = facts.frame
    if snapshot.round_number < frame.round_number or snapshot.now < frame.now:
        return False
    # The victims on returning nodes, or of predicted use, depend on all other jobs there.
    if snapshot.peaks or any([node.loan and node.loan.state == RETURNING for node in snapshot.nodes]):
        return False
    if _FIXED(frame) != _FIXED(snapshot):
        return False
    return frame.tenants == snapshot.tenants or (
        [tenant.name for tenant in frame.tenants] == [tenant.name for tenant in snapshot.tenants]
        and all(map(_differs_by_budget, frame.tenants, snapshot.tenants))
    )


def _differs_by_budget(before: Tenant, after: Tenant) -> bool:
    """Return whether only budgets of a tenant and its users differ."""
    return _without_budget(before) == _without_budget(after)


def _without_budget(tenant: Tenant) -> Tenant:
    users = tuple([replace(user, budget_spent=False, budget_renewed_at=None) for user in tenant.users])
    return replace(tenant, budget_spent=False, budget_renewed_at=None, budget=None, users=users)


def _take_in_jobs_and_allocations(facts: Facts, snapshot: Snapshot) -> None:
    jobs, allocations = facts.jobs, facts.running
    #: Jobs that changed, or whose allocation changed.
    concerned: set[JobId] = set()
    # Most are the same objects, and to compare jobs of 50 fields by value takes longer.
    new_jobs = [job for job in snapshot.jobs if jobs.get(job.id) is not job and jobs.get(job.id) != job]
    gone_jobs = sorted(jobs.keys() - {job.id for job in snapshot.jobs})
    concerned.update([job.id for job in new_jobs], gone_jobs)
    gone = sorted(allocations.keys() - {running.allocation for running in snapshot.running})
    new = {each.allocation for each in snapshot.running if allocations.get(each.allocation) != each}
    for number in (*gone, *new):
        before = allocations.get(number)
        if before is not None:
            concerned.update(before.jobs, before.leaving)
    for running in snapshot.running:
        if running.allocation in new:
            concerned.update(running.jobs, running.leaving)
    for number in gone:
        facts.drop_running(number)
    for job_id in gone_jobs:
        facts.drop_job(job_id)
    for job in sorted(new_jobs, key=attrgetter("id")):
        known = jobs.get(job.id)
        if known is not None and (known.tenant, known.tasks) != (job.tenant, job.tasks):
            facts.drop_job(job.id)
        facts.put_job(job)
    if concerned:
        for running in sorted(snapshot.running, key=attrgetter("allocation")):
            if not concerned.isdisjoint(running.jobs) or not concerned.isdisjoint(running.leaving):
                facts.put_running(running)
