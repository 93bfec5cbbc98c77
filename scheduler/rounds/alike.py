"""Jobs that a round does not read: those of a long queue behind more of their kind than could start.

Jobs of one user are *alike* if a round could distinguish them only by their number and instant of
submission. Where the policy of their view takes such jobs by arrival (`by_arrival`), as many as fit into the
empty cluster, and `SPARE` more, stand for all of them. The jobs behind could not start in this round, and do
not change its decisions (decision 0075). So the cost of one user's queue is bounded, whatever its length.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from scheduler.core.fitting.quotas import Amounts, exact, quotas_of
from scheduler.core.model import snapshot as core
from scheduler.core.round.admit import is_due
from scheduler.core.round.alike import SPARE, most_that_count
from scheduler.core.round.registry import traits_of
from scheduler.jobspec.shape import shape_of

#: A shorter queue is not searched for alike jobs.
LONG = 1_000

# A singleton waits for any earlier job of its name, so all jobs of its user have to be read.
_LONG_QUEUES = """
SELECT tenant_id, submitted_by_id FROM scheduler_job WHERE state = 'queued'
GROUP BY 1, 2 HAVING count(*) > %s AND NOT bool_or(jsonb_exists(shape, 'singleton'))
"""
# Without jobs that a round treats individually: those that ran or are nominated, wait for something, have a
# turn of their own, or whose place depends on more than room.
_ALIKE = """
SELECT array_agg(j.id), array_agg(extract(epoch FROM j.submitted_at)::float8),
       t.name, v.name, j.guaranteed, j.shape::text
FROM scheduler_job j
JOIN unnest(%(tenants)s::bigint[], %(users)s::bigint[]) AS long (tenant_id, user_id)
    ON j.tenant_id = long.tenant_id AND j.submitted_by_id = long.user_id
JOIN tenants_tenant t ON t.id = j.tenant_id
JOIN tenants_virtualcluster v ON v.id = j.virtual_cluster_id
WHERE j.state = 'queued' AND NOT j.held AND NOT j.cancelling AND j.attempts_started = 0
    AND j.eligible_at IS NULL AND j.waits_since IS NULL AND j.may_borrow_at IS NULL
    AND j."array" ->> 'at_most' IS NULL
    AND j.shape ->> 'min_gpus' IS NULL AND j.shape ->> 'deadline_seconds' IS NULL
    AND NOT jsonb_exists_any(j.shape, ARRAY['ports', 'tags', 'constraints'])
    AND j.id NOT IN (SELECT job_id FROM scheduler_attempt WHERE state <> 'ended')
    AND j.id NOT IN (SELECT job_id FROM scheduler_dependency WHERE is_open)
GROUP BY t.name, j.submitted_by_id, v.name, j.guaranteed, j.shape, j.gpu_models, j.priority,
    j.time_limit_seconds, j.avoid_nodes, j.preemption_cost_seconds, j.service,
    CASE WHEN coalesce(j.shape ->> 'application', '') = '' AND (%(all_names)s OR j.name = ANY(%(names)s))
        THEN j.name ELSE '' END
HAVING count(*) > %(spare)s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The job names that give a round more facts than the specification does."""

    #: Names with records.
    known: Sequence[str]
    #: A policy that compares names decides now.
    all_count: bool


def long_queues(cursor: Any) -> Sequence[tuple[int, int]]:
    """Return tenant and user of each queue that is long."""
    cursor.execute(_LONG_QUEUES, [LONG])
    found: Sequence[tuple[int, int]] = cursor.fetchall()
    return found


def left_out(
    cursor: Any, queues: Sequence[tuple[int, int]], facts: core.Snapshot, names: Names
) -> list[core.JobId]:
    """Return the jobs of long queues that a round need not read; `facts`: all facts but the jobs."""
    cursor.execute(
        _ALIKE,
        {
            "tenants": [tenant for tenant, _ in queues],
            "users": [user for _, user in queues],
            "names": list(names.known),
            "all_names": names.all_count,
            "spare": SPARE,
        },
    )
    rows = cursor.fetchall()
    if not rows:
        return []
    clusters = {vc.name: vc for vc in facts.virtual_clusters}
    quotas = {tenant.name: quotas_of(tenant) for tenant in facts.tenants}
    there = sum([len(node.gpus) for node in facts.nodes])
    found: list[core.JobId] = []
    for ids, instants, tenant, name, guaranteed, shape in rows:
        vc = clusters[name]
        if not _takes_by_arrival(vc, facts, guaranteed=guaranteed):
            continue
        stated = shape_of(shape)
        if not stated.gpus:
            continue  # Their GPUs do not show how many of them fit.
        counts_as = Amounts(stated.amount(stated.gpus), *_processors(stated.tasks))
        most = most_that_count(counts_as, there, quotas[tenant])
        line = sorted(zip(instants, map(core.JobId, ids), strict=True))
        for _, part in groupby(line, key=lambda job: is_due(vc.due_at(job[0]), facts.now)):
            found += [job for _, job in part][most:]
    return found


def _processors(tasks: Sequence[core.Task]) -> tuple[float, int]:
    """Return the CPUs and bytes of memory that a gang states."""
    cpus = sum([task.replicas * task.cpus for task in tasks])
    return exact(cpus), sum([task.replicas * task.memory_bytes for task in tasks])


def _takes_by_arrival(vc: core.VirtualCluster, facts: core.Snapshot, *, guaranteed: bool) -> bool:
    """Whether the view of such jobs takes alike jobs by arrival."""
    if guaranteed:
        # With a rule, a virtual cluster borrows for each waiting job.
        borrows = facts.lending is not None and bool(facts.lending.borrow_rules)
        return not borrows and traits_of(vc.policy, vc.policy_parameters).by_arrival
    return traits_of(facts.spare_policy, facts.spare_policy_parameters).by_arrival
