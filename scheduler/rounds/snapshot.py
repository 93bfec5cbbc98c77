"""Rows to facts: what a round reads of the tables, at one instant, as a `core.Snapshot`.

Jobs, lending, peaks and throughputs are read by the modules beside this one, through its cursor. Plain SQL
through one cursor, since a round at 10,000 jobs and GPUs has no time for model instances.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple

from django.conf import settings
from django.db import connection, transaction

from scheduler.core.model import snapshot as core
from scheduler.core.model.cell_specification import Specification
from scheduler.core.model.gpu_parts import SHARE_FREE, WHOLE_GPU
from scheduler.core.model.interference import Branch
from scheduler.core.model.limits import UserLimits
from scheduler.core.model.node_peaks import OVERCOMMIT_NEVER, USUAL_MARGIN
from scheduler.core.model.reservations import Reservation
from scheduler.core.model.task_kind import TaskKind
from scheduler.core.perf.throughput import JobClass
from scheduler.models.selectors.maintenance import CLOSED_BY_WINDOWS
from scheduler.models.virtual_clusters import LONGEST_WAIT_SECONDS
from scheduler.rounds.alike import left_out, long_queues
from scheduler.rounds.fixed_ports import kept_apart
from scheduler.rounds.job_facts import read_jobs
from scheduler.rounds.lending import with_lending
from scheduler.rounds.peaks import read_peaks
from scheduler.rounds.throughputs import KnownThroughputs, known_throughputs
from scheduler.virtual_clusters.cells.selectors import specification_of
from scheduler.wiring.jsonb import read_jsonb

_NODES = f"""
SELECT n.id, n.name, coalesce(m.name, ''), n.rack,
       n.state = 'ready' AND NOT n.cordoned AND coalesce(w.starts_at > clock_timestamp(), true), n.cpus,
       n.memory_bytes, n.storage_bandwidth, n.cache_bytes,
       extract(epoch FROM least(n.drain_deadline, w.starts_at))::float8, p.name,
       n.loan_state,
       extract(epoch FROM n.return_by)::float8, extract(epoch FROM n.return_stops_at)::float8
FROM scheduler_node n LEFT JOIN scheduler_gpumodel m ON m.id = n.gpu_model_id
LEFT JOIN scheduler_servingpool p ON p.id = n.serving_pool_id
LEFT JOIN ({CLOSED_BY_WINDOWS}) w ON w.name = n.name
WHERE n.gpu_model_id IS NOT NULL OR n.boot <> '' ORDER BY n.id
"""
_GPUS = """
SELECT node_id, id, index, socket, switch, healthy AND present, memory_bytes FROM scheduler_gpu
ORDER BY node_id, index
"""
# A stopping attempt holds its GPUs until its nodes report their release; released ones are not listed.
_RUNNING = """
SELECT l.id, array_agg(DISTINCT a.job_id ORDER BY a.job_id) FILTER (WHERE a.state <> 'stopping'), l.gpu_model,
       l.replicas, l.phase, extract(epoch FROM coalesce(l.held_at, l.created_at))::float8, l.guaranteed,
       array_agg(DISTINCT a.job_id ORDER BY a.job_id) FILTER (WHERE a.state = 'stopping'),
       l.slice_seconds, l.opportunistic_gpus,
       jsonb_object_agg(a.job_id, extract(epoch FROM a.starting_at)) FILTER (WHERE a.starting_at > l.held_at),
       (SELECT array_agg(g.gpu_id) FROM scheduler_allocatedgpu g
        WHERE g.allocation_id = l.id AND g.phase <> 'released'),
       l.nodes
FROM scheduler_allocation l JOIN scheduler_attempt a ON a.allocation_id = l.id AND a.state <> 'ended'
WHERE l.phase <> 'released' GROUP BY l.id ORDER BY l.id
"""
_VIRTUAL_CLUSTERS = """
SELECT name, policy, policy_parameters, placer, placer_parameters, default_time_limit_seconds, sharing,
       coalesce(r.min_run_seconds, 0), coalesce(r.reclaim_min_run_seconds, 0),
       coalesce(r.longest_wait_seconds, %s), coalesce(o.overcommit, %s), coalesce(o.margin, %s),
       coalesce((SELECT json_object_agg(gpu_model, gpus ORDER BY gpu_model)
                 FROM tenants_guarantee WHERE virtual_cluster_id = v.id), '{}'),
       coalesce((SELECT json_agg(json_build_array(t.name, m.weight) ORDER BY t.name)
                 FROM tenants_virtualclustermember m JOIN tenants_tenant t ON t.id = m.tenant_id
                 WHERE m.virtual_cluster_id = v.id), '[]')
FROM tenants_virtualcluster v LEFT JOIN scheduler_preemptionlimits r ON r.virtual_cluster_id = v.id
LEFT JOIN scheduler_overcommitment o ON o.virtual_cluster_id = v.id
ORDER BY name
"""
_TENANTS = """
SELECT name, coalesce((SELECT json_object_agg(gpu_model, gpus ORDER BY gpu_model)
                       FROM tenants_quota WHERE tenant_id = t.id), '{}'),
       quota_cpus, quota_memory_bytes,
       coalesce(b.is_spent AND b.action = 'hold', false), extract(epoch FROM b.period_ends_at)::float8
FROM tenants_tenant t LEFT JOIN scheduler_budget b ON b.tenant_id = t.id ORDER BY name
"""
# Both tables have few rows or none: only users with limits are listed.
_USER_LIMITS = """
SELECT t.name, u.username, q.gpus, q.cpus, q.memory_bytes, coalesce(b.is_spent AND b.action = 'hold', false),
       extract(epoch FROM b.period_ends_at)::float8
FROM scheduler_userquota q FULL JOIN scheduler_userbudget b ON b.membership_id = q.membership_id
JOIN tenants_membership m ON m.id = coalesce(q.membership_id, b.membership_id)
JOIN tenants_tenant t ON t.id = m.tenant_id JOIN tenants_user u ON u.id = m.user_id
WHERE q.membership_id IS NOT NULL OR (b.is_spent AND b.action = 'hold') ORDER BY t.name, u.username
"""


# Only `fgd` asks, and it reads the newest sample alone.
_WORKLOAD = """
SELECT details -> 'kinds' FROM scheduler_fragmentationsample
WHERE details IS NOT NULL AND (
    EXISTS (SELECT 1 FROM tenants_virtualcluster WHERE placer = 'fgd')
    OR EXISTS (SELECT 1 FROM scheduler_clustersettings WHERE spare_placer = 'fgd'))
ORDER BY at DESC LIMIT 1
"""


# Few rows or none: reservations that are over or cancelled concern no round.
_RESERVATIONS = """
SELECT r.name, t.name, coalesce(u.username, ''), coalesce(v.name, ''), r.nodes,
       extract(epoch FROM r.starts_at)::float8, extract(epoch FROM r.ends_at)::float8
FROM scheduler_reservation r JOIN tenants_tenant t ON t.id = r.tenant_id
LEFT JOIN tenants_user u ON u.id = r.user_id LEFT JOIN tenants_virtualcluster v ON v.id = r.virtual_cluster_id
WHERE r.cancelled_at IS NULL AND r.ends_at > clock_timestamp() ORDER BY r.starts_at, r.id
"""


_INTERFERENCE = """
SELECT tree FROM scheduler_interferencefit
WHERE EXISTS (SELECT 1 FROM tenants_virtualcluster WHERE sharing = %s)
"""


class _NodeRow(NamedTuple):
    """A row of `_NODES`, in its order."""

    id: core.NodeId
    name: str
    gpu_model: str
    rack: str
    schedulable: bool
    cpus: float
    memory_bytes: int
    storage_bandwidth: float
    cache_bytes: int
    closes_at: float | None
    pool: str | None
    loan_state: str
    return_by: float | None
    return_stops_at: float | None


class _RunningRow(NamedTuple):
    """A row of `_RUNNING`, in its order."""

    id: core.AllocationId
    staying: list[core.JobId] | None
    gpu_model: str
    replicas: str
    phase: Literal["held", "planned"]
    since: float
    guaranteed: bool
    stopping: list[core.JobId] | None
    slice_seconds: float | None
    opportunistic_gpus: int
    #: The arrival of jobs that came later, by job; None: there are none.
    joined: str | None
    #: GPUs, by id.
    unreleased: list[core.GpuId] | None
    nodes: str | None


class _VirtualClusterRow(NamedTuple):
    """A row of `_VIRTUAL_CLUSTERS`, in its order."""

    name: str
    policy: str
    policy_parameters: str
    placer: str
    placer_parameters: str
    default_time_limit_seconds: float
    sharing: str
    min_run_seconds: float
    reclaim_min_run_seconds: float
    longest_wait_seconds: float
    overcommit: str
    overcommit_margin: float
    guaranteed: Mapping[str, int]
    members: list[tuple[str, float]]


def read_snapshot(round_number: int) -> core.Snapshot:
    """Read all facts at one instant: one read-only transaction that sees a single state."""
    return _read(round_number, whole=True).facts


class ForRound(NamedTuple):
    """What a round reads."""

    facts: core.Snapshot
    #: Waiting jobs that the round does not need (`alike`).
    left_out: Sequence[core.JobId]
    #: Jobs that have fixed ports.
    having_ports: Collection[core.JobId]


def read_for_round(round_number: int) -> ForRound:
    """Read the facts that a round needs, also at one instant."""
    return _read(round_number, whole=False)


def _read(round_number: int, *, whole: bool) -> ForRound:
    with _one_instant() as cursor:
        cursor.execute("SELECT extract(epoch FROM clock_timestamp())::float8")
        (now,) = cursor.fetchone()
        throughputs = known_throughputs(cursor)
        virtual_clusters = read_virtual_clusters(cursor)
        own = core.Snapshot(
            round_number=round_number,
            now=now,
            round_seconds=settings.CONFIG.round_seconds,
            nodes=_nodes(cursor),
            tenants=read_tenants(cursor),
            virtual_clusters=virtual_clusters,
            jobs=(),
            running=(),
            memory=_memory(cursor),
            prices=throughputs.prices,
            peaks=read_peaks(cursor, virtual_clusters),
            interference=_interference(cursor),
            cells=_cells(cursor),
            workload=_workload(cursor),
            reservations=_reservations(cursor),
            **_settings(cursor),
        )
        facts = with_lending(own, cursor)
        queues = () if whole else long_queues(cursor)
        choose = partial(left_out, cursor, queues, facts) if queues else None
        read = read_jobs(cursor, throughputs, choose)
        running = _running(cursor, throughputs, read.job_classes)
        jobs = kept_apart(read.jobs, read.ports, running, facts.nodes) if read.ports else read.jobs
        classes = read.job_classes.values()
        facts = replace(
            facts,
            jobs=tuple(jobs),
            running=running,
            pair_speeds=throughputs.pairs(classes),
            group_speeds=throughputs.groups(classes),
        )
        return ForRound(facts, read.left_out, read.ports)


@contextmanager
def _one_instant() -> Iterator[Any]:
    with transaction.atomic(), connection.cursor() as cursor:
        # Inside a test's transaction the level can no longer be set, and one instant is all there is.
        if not connection.savepoint_ids:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield cursor


def _nodes(cursor: Any) -> tuple[core.Node, ...]:
    cursor.execute(_GPUS)
    gpus: dict[int, list[core.Gpu]] = defaultdict(list)
    for node_id, gpu_id, index, socket, switch, healthy, memory_bytes in cursor.fetchall():
        path = (str(socket), str(switch))
        gpus[node_id].append(
            core.Gpu(id=gpu_id, index=index, path=path, healthy=healthy, memory_bytes=memory_bytes)
        )
    cursor.execute(_NODES)
    return tuple(_node(_NodeRow._make(row), gpus) for row in cursor.fetchall())


def _node(row: _NodeRow, gpus: Mapping[int, list[core.Gpu]]) -> core.Node:
    return core.Node(
        id=row.id,
        name=row.name,
        gpu_model=row.gpu_model,
        gpus=tuple(gpus[row.id]),
        path=(row.rack,),
        schedulable=row.schedulable,
        cpus=row.cpus,
        memory_bytes=row.memory_bytes,
        storage_bandwidth=row.storage_bandwidth,
        cache_bytes=row.cache_bytes,
        closes_at=row.closes_at,
        loan=_loan(row),
    )


def _loan(row: _NodeRow) -> core.NodeLoan | None:
    if row.pool is None:
        return None
    return core.NodeLoan(
        pool=row.pool, state=row.loan_state, return_by=row.return_by, stops_at=row.return_stops_at
    )


def _running(
    cursor: Any, throughputs: KnownThroughputs, job_classes: Mapping[int, tuple[str, str]]
) -> tuple[core.Running, ...]:
    cursor.execute(_RUNNING)
    rows = [_RunningRow._make(row) for row in cursor.fetchall()]
    return tuple([_allocation(row, throughputs, job_classes) for row in rows])


def _allocation(
    row: _RunningRow, throughputs: KnownThroughputs, job_classes: Mapping[int, tuple[str, str]]
) -> core.Running:
    left = set(row.unreleased or ())
    jobs = row.staying or row.stopping or []
    is_shared = len(jobs) > 1 and row.slice_seconds is None
    return core.Running(
        allocation=row.id,
        jobs=tuple(jobs),
        gpu_model=row.gpu_model,
        replicas=tuple(tuple(gpu for gpu in gpus if gpu in left) for gpus in read_jsonb(row.replicas)),
        nodes=tuple(read_jsonb(row.nodes or [])),
        phase=row.phase,
        since=row.since,
        guaranteed=row.guaranteed,
        stopping=row.staying is None,
        speeds=_beside(jobs, row.gpu_model, row.replicas, throughputs, job_classes) if is_shared else {},
        slice_seconds=row.slice_seconds,
        opportunistic_gpus=row.opportunistic_gpus,
        joined={core.JobId(int(job)): float(at) for job, at in read_jsonb(row.joined or {}).items()},
        leaving=tuple(row.stopping or ()) if row.staying else (),
    )


def _beside(
    jobs: Sequence[core.JobId],
    gpu_model: str,
    replicas: Any,
    throughputs: KnownThroughputs,
    job_classes: Mapping[int, tuple[str, str]],
) -> dict[core.JobId, float]:
    """Return the speeds of jobs that share GPUs, where each was measured beside the others."""
    if not all(job in job_classes for job in jobs):
        return {}
    gpus = sum(map(len, read_jsonb(replicas)))
    found = throughputs.estimator.together([JobClass(*job_classes[job]) for job in jobs], gpu_model, gpus)
    return {} if found is None else {core.JobId(job): speed for job, speed in zip(jobs, found, strict=True)}


def read_virtual_clusters(cursor: Any) -> tuple[core.VirtualCluster, ...]:
    cursor.execute(_VIRTUAL_CLUSTERS, [LONGEST_WAIT_SECONDS, OVERCOMMIT_NEVER, USUAL_MARGIN])
    return tuple(_virtual_cluster(_VirtualClusterRow._make(row)) for row in cursor.fetchall())


def _virtual_cluster(row: _VirtualClusterRow) -> core.VirtualCluster:
    return core.VirtualCluster(
        name=row.name,
        guaranteed=row.guaranteed,
        members=tuple(core.Member(tenant=tenant, weight=float(weight)) for tenant, weight in row.members),
        policy=row.policy,
        policy_parameters=read_jsonb(row.policy_parameters),
        placer=row.placer,
        placer_parameters=read_jsonb(row.placer_parameters),
        default_time_limit_seconds=row.default_time_limit_seconds,
        sharing=row.sharing,
        min_run_seconds=row.min_run_seconds,
        reclaim_min_run_seconds=row.reclaim_min_run_seconds,
        longest_wait_seconds=row.longest_wait_seconds,
        overcommit=row.overcommit,
        overcommit_margin=row.overcommit_margin,
    )


def read_tenants(cursor: Any) -> tuple[core.Tenant, ...]:
    cursor.execute(_USER_LIMITS)
    users: dict[str, list[UserLimits]] = defaultdict(list)
    for tenant, user, gpus, cpus, memory_bytes, is_spent, renewed_at in cursor.fetchall():
        limits = UserLimits(
            user=user,
            gpus=gpus,
            cpus=cpus,
            memory_bytes=memory_bytes,
            budget_spent=is_spent,
            budget_renewed_at=renewed_at if is_spent else None,
        )
        users[tenant].append(limits)
    cursor.execute(_TENANTS)
    return tuple(
        core.Tenant(
            name=name,
            quota=quota,
            quota_cpus=cpus,
            quota_memory_bytes=memory_bytes,
            users=tuple(users.get(name, ())),
            budget_spent=is_spent,
            budget_renewed_at=renewed_at if is_spent else None,
        )
        for name, quota, cpus, memory_bytes, is_spent, renewed_at in cursor.fetchall()
    )


def _memory(cursor: Any) -> dict[str, core.Memory]:
    cursor.execute("SELECT view, memory FROM scheduler_policymemory ORDER BY view")
    return {view: read_jsonb(memory) for view, memory in cursor.fetchall()}


_SETTINGS = (
    "auxiliary",
    "spare_policy",
    "spare_policy_parameters",
    "spare_placer",
    "spare_placer_parameters",
    "preemptions_per_round",
    "backoff_seconds",
    "most_backoff_seconds",
)


def _settings(cursor: Any) -> dict[str, Any]:
    """Return an operator's choices for the whole cluster, if any."""
    cursor.execute(f"SELECT {', '.join(_SETTINGS)} FROM scheduler_clustersettings")
    row = cursor.fetchone()
    found = dict(zip(_SETTINGS, row, strict=True)) if row else {}
    return {
        name: read_jsonb(value) if name.endswith("_parameters") else value for name, value in found.items()
    }


def _cells(cursor: Any) -> Specification | None:
    """Return the specification of cells in force; None when it divides no GPUs."""
    cursor.execute("SELECT document FROM scheduler_cellspecification ORDER BY version DESC LIMIT 1")
    row = cursor.fetchone()
    specification = specification_of(row[0]) if row else None
    return specification if specification and specification.physical else None


def _interference(cursor: Any) -> tuple[Branch, ...]:
    """Return the prediction for pairs without measurements, where a virtual cluster shares freely."""
    cursor.execute(_INTERFERENCE, [SHARE_FREE])
    row = cursor.fetchone()
    return tuple([Branch(**branch) for branch in (read_jsonb(row[0]) if row else ())])


def _workload(cursor: Any) -> tuple[TaskKind, ...]:
    """Return the demand of the last days, as last counted, if a placer uses it."""
    cursor.execute(_WORKLOAD)
    row = cursor.fetchone()
    return tuple(
        [
            TaskKind(
                gpus=max(math.floor(kind["gpus"]), 1) if kind["gpus"] else 0,
                cpus=kind["cpus"],
                share=round(kind["gpus"] * WHOLE_GPU) if 0 < kind["gpus"] < 1 else WHOLE_GPU,
                gpu_models=tuple(kind["gpu_models"]),
                count=kind["frequency"],
            )
            for kind in (read_jsonb(row[0]) if row else ())
        ]
    )


def _reservations(cursor: Any) -> tuple[Reservation, ...]:
    cursor.execute(_RESERVATIONS)
    return tuple(
        Reservation(
            name=name,
            tenant=tenant,
            user=user,
            virtual_cluster=virtual_cluster,
            nodes=tuple(nodes),
            starts_at=starts_at,
            ends_at=ends_at,
        )
        for name, tenant, user, virtual_cluster, nodes, starts_at, ends_at in cursor.fetchall()
    )
