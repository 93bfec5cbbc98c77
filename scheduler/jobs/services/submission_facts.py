"""The facts of one tenant that each submit needs, read by one statement."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import connection

from scheduler.core.model import snapshot as core
from scheduler.core.model.limits import UserLimits
from scheduler.wiring.jsonb import read_jsonb

_FACTS = """
SELECT t.id, t.name, t.most_unfinished_jobs, t.quota_cpus, t.quota_memory_bytes,
    (SELECT json_object_agg(q.gpu_model, q.gpus) FROM tenants_quota q WHERE q.tenant_id = t.id),
    (SELECT json_agg(json_build_object('user', u.username, 'gpus', q.gpus, 'cpus', q.cpus,
                                       'memory_bytes', q.memory_bytes))
     FROM scheduler_userquota q JOIN tenants_membership m ON m.id = q.membership_id
     JOIN tenants_user u ON u.id = m.user_id WHERE m.tenant_id = t.id),
    (SELECT json_agg(json_build_object(
        'id', v.id,
        'name', v.name,
        'sharing', v.sharing,
        'default_time_limit_seconds', v.default_time_limit_seconds,
        'members', (SELECT count(*) FROM tenants_virtualclustermember WHERE virtual_cluster_id = v.id),
        'guaranteed', (SELECT json_object_agg(g.gpu_model, g.gpus) FROM tenants_guarantee g
                       WHERE g.virtual_cluster_id = v.id)
     ) ORDER BY v.name)
     FROM tenants_virtualcluster v JOIN tenants_virtualclustermember m ON m.virtual_cluster_id = v.id
     WHERE m.tenant_id = t.id),
    (SELECT json_build_array(count(*), max(id), sum(version)) FROM scheduler_node),
    (SELECT document FROM scheduler_cellspecification ORDER BY version DESC LIMIT 1),
    EXISTS (SELECT FROM scheduler_loan WHERE coalesce(ended_at, ends_at) > statement_timestamp()
            AND starts_at <= statement_timestamp())
FROM tenants_tenant t WHERE t.name = %s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualClusterFacts:
    """A virtual cluster that the tenant can use."""

    id: int
    name: str
    default_time_limit_seconds: float
    #: No other tenant is a member.
    is_private: bool
    guaranteed: Mapping[str, int]
    #: Whether its jobs may have parts of GPUs.
    sharing: str

    def for_core(self, tenant: str) -> core.VirtualCluster:
        return core.VirtualCluster(
            name=self.name,
            guaranteed=self.guaranteed,
            members=(core.Member(tenant=tenant),),
            sharing=self.sharing,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionFacts:
    """What submitting for a tenant needs to know of it."""

    tenant_id: int
    tenant: str
    #: None: as many as the settings say.
    most_unfinished_jobs: int | None
    quota: Mapping[str, int]
    quota_cpus: float | None
    quota_memory_bytes: int | None
    #: Users for whom the tenant's admins set limits.
    users: tuple[UserLimits, ...]
    virtual_clusters: Mapping[str, VirtualClusterFacts]
    #: Differs when the inventory does: a node's version grows with every change of it.
    inventory: tuple[int | None, ...]
    #: The specification of cells in force, as it is stored; empty when there is none.
    cells: str
    #: Guarantees of some virtual cluster are lent.
    has_loans: bool

    def for_core(self) -> core.Tenant:
        return core.Tenant(
            name=self.tenant,
            quota=self.quota,
            quota_cpus=self.quota_cpus,
            quota_memory_bytes=self.quota_memory_bytes,
            users=self.users,
        )


def submission_facts(tenant: str) -> SubmissionFacts | None:
    """Return the facts about a tenant; None: it does not exist."""
    with connection.cursor() as cursor:
        cursor.execute(_FACTS, [tenant])
        row = cursor.fetchone()
    if row is None:
        return None
    tenant_id, name, most_unfinished_jobs, cpus, memory_bytes, *rest = row
    quota, users, virtual_clusters, inventory, cells, has_loans = rest
    rows = [_virtual_cluster(one) for one in read_jsonb(virtual_clusters) or ()]
    return SubmissionFacts(
        tenant_id=tenant_id,
        tenant=name,
        most_unfinished_jobs=most_unfinished_jobs,
        quota_cpus=cpus,
        quota_memory_bytes=memory_bytes,
        quota=read_jsonb(quota) or {},
        users=tuple(UserLimits(**limits) for limits in read_jsonb(users) or ()),
        virtual_clusters={one.name: one for one in rows},
        inventory=tuple(read_jsonb(inventory)),
        cells=cells or "",
        has_loans=has_loans,
    )


def _virtual_cluster(row: Mapping[str, Any]) -> VirtualClusterFacts:
    return VirtualClusterFacts(
        id=row["id"],
        name=row["name"],
        default_time_limit_seconds=row["default_time_limit_seconds"],
        is_private=row["members"] == 1,
        guaranteed=row["guaranteed"] or {},
        sharing=row["sharing"],
    )
