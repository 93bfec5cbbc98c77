"""Quotas, budgets and memberships that were changed while a round was decided: no job starts against them.

The next round, which is requested at once, decides with what is true then.
"""

from collections.abc import Iterable

from django.db import connection

from scheduler.core.model.snapshot import Job, JobId, Snapshot
from scheduler.rounds.snapshot import read_tenants, read_virtual_clusters


def with_changed_rights(jobs: Iterable[Job], snapshot: Snapshot) -> dict[JobId, str]:
    """Return the jobs whose rights are no longer those of the snapshot, each with what changed in words."""
    left = {(vc.name, member.tenant) for vc in snapshot.virtual_clusters for member in vc.members}
    with connection.cursor() as cursor:
        tenants = {tenant.name: tenant for tenant in read_tenants(cursor)}
        left -= {(vc.name, member.tenant) for vc in read_virtual_clusters(cursor) for member in vc.members}
    same = {tenant.name for tenant in snapshot.tenants if tenant == tenants.get(tenant.name)}
    changed = {}
    for job in jobs:
        if job.tenant not in same:
            changed[job.id] = f"a quota or budget of tenant {job.tenant} changed after the snapshot"
        elif (job.virtual_cluster, job.tenant) in left:
            changed[job.id] = f"tenant {job.tenant} is no longer a member of {job.virtual_cluster}"
    return changed
