"""Rows to facts: the one place that maps the tables to `core.Snapshot`.

Plain SQL through one cursor, since a round at 10,000 jobs and GPUs has no time for model instances.
"""

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.db import connection, transaction

from scheduler.cells.selectors import specification_of
from scheduler.core.building_blocks.pace import Pace, measured_seconds
from scheduler.core.model import snapshot as core
from scheduler.core.model.cell_specification import Specification
from scheduler.core.model.gpu_parts import SHARE_FREE, WHOLE_GPU
from scheduler.core.model.interference import Branch
from scheduler.core.model.job_array import ArrayTask
from scheduler.core.perf.recurrence import Like
from scheduler.core.perf.throughput import JobClass
from scheduler.jobspec.shape import Shape, shape_of
from scheduler.rounds.awaited import earlier_namesakes, read_awaited
from scheduler.rounds.fixed_ports import kept_apart
from scheduler.rounds.lending import with_lending
from scheduler.rounds.recurrence import known_recurrence
from scheduler.rounds.throughputs import JobThroughputs, KnownThroughputs, known_throughputs
from scheduler.rounds.training import is_looked_at, read_losses, read_profiles, read_scalings, read_trainings
from scheduler.virtual_clusters.models import LONGEST_WAIT_SECONDS

_NODES = """
SELECT n.id, n.name, m.name, n.rack, n.state = 'ready' AND NOT n.cordoned, n.cpus, n.memory_bytes, n.version,
       extract(epoch FROM n.drain_deadline)::float8, p.name, n.loan_state,
       extract(epoch FROM n.return_by)::float8, extract(epoch FROM n.return_stops_at)::float8
FROM scheduler_node n JOIN scheduler_gpumodel m ON m.id = n.gpu_model_id
LEFT JOIN scheduler_servingpool p ON p.id = n.serving_pool_id ORDER BY n.id
"""
_WITHOUT_CONTAINERS = """
SELECT id FROM scheduler_node WHERE NOT coalesce((isolation ->> 'container')::boolean, false)
"""
_CLOSING = """
SELECT id, extract(epoch FROM drain_deadline - clock_timestamp())::float8 FROM scheduler_node
WHERE drain_deadline IS NOT NULL ORDER BY id
"""
_GPUS = """
SELECT node_id, id, index, socket, switch, healthy AND present, memory_bytes FROM scheduler_gpu
ORDER BY node_id, index
"""
# A job that was never preempted is taken to be like the latest of its virtual cluster that were.
_JOBS = """
WITH costs AS (
    SELECT v.id, percentile_cont(0.5) WITHIN GROUP (ORDER BY latest.preemption_cost_seconds) AS seconds
    FROM tenants_virtualcluster v, LATERAL (
        SELECT preemption_cost_seconds FROM scheduler_job
        WHERE virtual_cluster_id = v.id AND preemption_cost_seconds IS NOT NULL ORDER BY id DESC LIMIT 100
    ) latest GROUP BY v.id
)
SELECT j.id, j.name, t.name, v.name, extract(epoch FROM j.submitted_at)::float8, j.shape::text, j.gpu_models,
       j.priority, j.guaranteed, j.time_limit_seconds, coalesce(extract(epoch FROM j.eligible_at), 0)::float8,
       j.held, j.cancelling, j.service, j.attempts_started, j.version, u.username,
       j.avoid_nodes, coalesce(j.time_limit_seconds, v.default_time_limit_seconds),
       j.short_runs, coalesce(extract(epoch FROM j.may_borrow_at), 0)::float8,
       coalesce(j.preemption_cost_seconds, c.seconds, 0), j.pace::text, j.array_id,
       (j."array" ->> 'at_most')::int, coalesce(extract(epoch FROM j.waits_since), 0)::float8
FROM scheduler_job j
JOIN tenants_user u ON u.id = j.submitted_by_id
JOIN tenants_tenant t ON t.id = j.tenant_id
JOIN tenants_virtualcluster v ON v.id = j.virtual_cluster_id
LEFT JOIN costs c ON c.id = v.id
WHERE j.state IN ('queued', 'running') ORDER BY j.id
"""
# A stopping attempt holds its GPUs until its nodes say otherwise; what they released is not listed.
_RUNNING = """
SELECT l.id, array_agg(DISTINCT a.job_id ORDER BY a.job_id) FILTER (WHERE a.state <> 'stopping'), l.gpu_model,
       l.replicas, l.phase, extract(epoch FROM coalesce(l.held_at, l.created_at))::float8, l.guaranteed,
       array_agg(DISTINCT a.job_id ORDER BY a.job_id) FILTER (WHERE a.state = 'stopping'),
       l.slice_seconds, l.opportunistic_gpus,
       jsonb_object_agg(a.job_id, extract(epoch FROM a.starting_at)) FILTER (WHERE a.starting_at > l.held_at),
       (SELECT array_agg(g.gpu_id) FROM scheduler_allocatedgpu g
        WHERE g.allocation_id = l.id AND g.phase <> 'released')
FROM scheduler_allocation l JOIN scheduler_attempt a ON a.allocation_id = l.id AND a.state <> 'ended'
WHERE l.phase <> 'released' GROUP BY l.id ORDER BY l.id
"""
_VIRTUAL_CLUSTERS = """
SELECT name, policy, policy_parameters, placer, placer_parameters, default_time_limit_seconds, sharing,
       coalesce(r.min_run_seconds, 0), coalesce(r.reclaim_min_run_seconds, 0),
       coalesce(r.longest_wait_seconds, %s),
       coalesce((SELECT json_object_agg(gpu_model, gpus ORDER BY gpu_model)
                 FROM tenants_guarantee WHERE virtual_cluster_id = v.id), '{}'),
       coalesce((SELECT json_agg(json_build_array(t.name, m.weight) ORDER BY t.name)
                 FROM tenants_virtualclustermember m JOIN tenants_tenant t ON t.id = m.tenant_id
                 WHERE m.virtual_cluster_id = v.id), '[]')
FROM tenants_virtualcluster v LEFT JOIN scheduler_restraint r ON r.virtual_cluster_id = v.id
ORDER BY name
"""
_TENANTS = """
SELECT name, coalesce((SELECT json_object_agg(gpu_model, gpus ORDER BY gpu_model)
                       FROM tenants_quota WHERE tenant_id = t.id), '{}'),
       coalesce(b.is_spent AND b.action = 'hold', false), extract(epoch FROM b.period_ends_at)::float8
FROM tenants_tenant t LEFT JOIN scheduler_budget b ON b.tenant_id = t.id ORDER BY name
"""


# Only `fgd` asks, and it looks at the newest sample alone.
_WORKLOAD = """
SELECT details -> 'kinds' FROM scheduler_fragmentationsample
WHERE details IS NOT NULL AND (
    EXISTS (SELECT 1 FROM tenants_virtualcluster WHERE placer = 'fgd')
    OR EXISTS (SELECT 1 FROM scheduler_clustersettings WHERE spare_placer = 'fgd'))
ORDER BY at DESC LIMIT 1
"""


_INTERFERENCE = """
SELECT tree FROM scheduler_interferencefit
WHERE EXISTS (SELECT 1 FROM tenants_virtualcluster WHERE sharing = %s)
"""


def read_snapshot(round_number: int) -> core.Snapshot:
    """Read all facts at one instant: one read-only transaction that sees a single state."""
    with _one_instant() as cursor:
        cursor.execute("SELECT extract(epoch FROM clock_timestamp())::float8")
        (now,) = cursor.fetchone()
        throughputs = known_throughputs(cursor)
        jobs, job_classes, ports = _jobs(cursor, throughputs)
        nodes, running = _nodes(cursor), _running(cursor, throughputs, job_classes)
        own = core.Snapshot(
            round_number=round_number,
            now=now,
            round_seconds=settings.CONFIG.round_seconds,
            nodes=nodes,
            tenants=_tenants(cursor),
            virtual_clusters=_virtual_clusters(cursor),
            jobs=tuple(kept_apart(jobs, ports, running, nodes)) if ports else jobs,
            running=running,
            memory=_memory(cursor),
            prices=throughputs.prices,
            pair_speeds=throughputs.pairs(job_classes.values()),
            interference=_interference(cursor),
            cells=_cells(cursor),
            workload=_workload(cursor),
            **_settings(cursor),
        )
        return with_lending(own, cursor)


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
    return tuple(
        core.Node(
            id=node_id,
            name=name,
            gpu_model=gpu_model,
            gpus=tuple(gpus[node_id]),
            path=(rack,),
            schedulable=schedulable,
            cpus=cpus,
            memory_bytes=memory_bytes,
            version=version,
            closes_at=closes_at,
            loan=pool
            and core.NodeLoan(pool=pool, state=loan_state, return_by=return_by, stops_at=return_stops_at),
        )
        for (
            node_id,
            name,
            gpu_model,
            rack,
            schedulable,
            cpus,
            memory_bytes,
            version,
            closes_at,
            pool,
            loan_state,
            return_by,
            return_stops_at,
        ) in cursor.fetchall()
    )


def nodes_without_containers(cursor: Any) -> list[core.NodeId]:
    """Return the nodes on which a job with an image cannot run."""
    cursor.execute(_WITHOUT_CONTAINERS)
    return [node for (node,) in cursor.fetchall()]


def _jobs(
    cursor: Any, throughputs: KnownThroughputs
) -> tuple[tuple[core.Job, ...], dict[int, tuple[str, str]], dict[core.JobId, tuple[int, ...]]]:
    """Return the jobs, the job class of each, and the fixed ports of those that have some."""
    without_containers = nodes_without_containers(cursor)
    cursor.execute(_CLOSING)
    closing = cursor.fetchall()
    jobs = []
    job_classes = {}
    trainings, scalings, losses = read_trainings(), read_scalings(), read_losses(cursor)
    profiles, awaited = read_profiles(), read_awaited(cursor)
    singletons: set[int] = set()
    ports: dict[core.JobId, tuple[int, ...]] = {}
    recurrence = known_recurrence() if is_looked_at(cursor, "reads_recurrence") else None
    cursor.execute(_JOBS)
    rows = cursor.fetchall()
    for (
        job_id, name, tenant, virtual_cluster, submitted_at, shape, gpu_models, priority, guaranteed,
        time_limit_seconds, eligible_at, held, cancelling, service, attempts, version, user, avoid,
        lasts_seconds, short_runs, may_borrow_at, preemption_cost_seconds, pace,
        array, at_most, waits_since,
    ) in rows:  # fmt: skip
        stated = shape_of(shape)
        # A plain tuple, equal to a JobClass and made in a third of the time.
        job_class = job_classes[job_id] = tenant, stated.application or f"name:{name}"
        known = throughputs.of(job_class, stated.gpus, stated.throughput, shape)
        measured = pace and measured_seconds(_pace_of(pace), stated.amount(stated.gpus), known.throughput)
        like = Like(tenant, user, job_class[1], stated.gpus)
        usual = None if recurrence is None else recurrence.usual(like)
        jobs.append(
            core.Job(
                id=job_id,
                tenant=tenant,
                virtual_cluster=virtual_cluster,
                submitted_at=submitted_at,
                user=user,
                gpu_models=known.accepted(tuple(gpu_models)) if known.not_on else tuple(gpu_models),
                priority=priority,
                guaranteed=guaranteed,
                time_limit_seconds=stated.limited(time_limit_seconds),
                eligible_at=eligible_at,
                waits_since=waits_since,
                awaits=awaited.get(job_id, ()),
                array=ArrayTask(number=array, at_most=at_most) if at_most and array else None,
                held=held,
                cancelling=cancelling,
                throughput=known.throughput,
                estimated=known.estimated,
                spread_speeds=known.spread,
                deadline_at=stated.deadline_at(submitted_at),
                training=trainings.of(job_id, known.throughput),
                losses=losses.get(job_id, ()),
                goodput=scalings.of(job_id, known.throughput),
                profile=profiles.of(job_id, user, job_class),
                estimate_seconds=stated.estimate_seconds if measured is None else measured,
                measured=measured is not None,
                usual_seconds=None if usual is None else usual.seconds,
                attained_service={model: float(value) for model, value in _json(service).items()},
                attempts=attempts,
                avoid=tuple(sorted({*avoid, *without_containers}) if stated.needs_containers else avoid),
                outlasts=tuple(
                    [node for node, seconds in closing if stated.limited(lasts_seconds) > seconds]
                ),
                preemption_cost_seconds=preemption_cost_seconds,
                short_runs=short_runs,
                may_borrow_at=may_borrow_at,
                version=version,
                **stated.facts(),
            )
        )
        if stated.ports:
            ports[job_id] = stated.ports
        if stated.singleton:
            singletons.add(job_id)
        if stated.after_trial:
            gang = shape_of(stated.after_trial)
            known = throughputs.of(job_class, gang.gpus, gang.throughput, stated.after_trial)
            itself = _after_trial(jobs[-1], gang, known, time_limit_seconds)
            jobs[-1] = replace(
                jobs[-1], trial=core.Trial(seconds=stated.estimate_seconds or 0.0, gang=itself)
            )
    if singletons:
        named = [(row[0], (row[2], row[16], row[1])) for row in rows]
        earlier = earlier_namesakes(singletons, named)
        jobs = [
            replace(job, awaits=(*job.awaits, earlier[job.id])) if job.id in earlier else job for job in jobs
        ]
    return tuple(jobs), job_classes, ports


def _after_trial(
    job: core.Job, gang: Shape, known: JobThroughputs, time_limit_seconds: float | None
) -> core.Job:
    """Return what a job will be that is on trial, or is to be."""
    return replace(
        job,
        tasks=gang.tasks,
        topology=gang.topology,
        elastic=gang.elastic,
        elastic_mode=gang.elastic_mode,
        time_limit_seconds=time_limit_seconds,
        throughput=known.throughput,
        estimated=known.estimated,
        spread_speeds=known.spread,
        estimate_seconds=gang.estimate_seconds,
        measured=False,
    )


# What a job says of its steps changes once a minute.
@lru_cache(maxsize=16_384)
def _pace_of(text: str) -> Pace:
    return Pace(**json.loads(text))


def _number(value: float | None) -> float | None:
    return None if value is None else float(value)


def _running(
    cursor: Any, throughputs: KnownThroughputs, job_classes: Mapping[int, tuple[str, str]]
) -> tuple[core.Running, ...]:
    cursor.execute(_RUNNING)
    running = []
    for (
        allocation, staying, model, replicas, phase, since, guaranteed, stopping, slice_seconds,
        opportunistic_gpus, joined, unreleased,
    ) in cursor.fetchall():  # fmt: skip
        left = set(unreleased or ())
        jobs = staying or stopping
        running.append(
            core.Running(
                allocation=allocation,
                jobs=tuple(jobs),
                gpu_model=model,
                replicas=tuple(tuple(gpu for gpu in gpus if gpu in left) for gpus in _json(replicas)),
                phase=phase,
                since=since,
                guaranteed=guaranteed,
                stopping=staying is None,
                speeds=_beside(jobs, model, replicas, throughputs, job_classes)
                if len(jobs) == 2 and slice_seconds is None
                else {},
                slice_seconds=slice_seconds,
                opportunistic_gpus=opportunistic_gpus,
                joined={core.JobId(int(job)): float(at) for job, at in _json(joined or {}).items()},
                leaving=tuple(stopping or ()) if staying else (),
            )
        )
    return tuple(running)


def _beside(
    jobs: list[int],
    gpu_model: str,
    replicas: Any,
    throughputs: KnownThroughputs,
    job_classes: Mapping[int, tuple[str, str]],
) -> dict[core.JobId, float]:
    """Return how fast two jobs are that share GPUs, where that was measured of both."""
    if not all(job in job_classes for job in jobs):
        return {}
    gpus = sum(map(len, _json(replicas)))
    first, second = (JobClass(*job_classes[job]) for job in jobs)
    found = throughputs.beside(first, second, gpu_model, gpus)
    return {} if found is None else {core.JobId(job): speed for job, speed in zip(jobs, found, strict=True)}


def _virtual_clusters(cursor: Any) -> tuple[core.VirtualCluster, ...]:
    cursor.execute(_VIRTUAL_CLUSTERS, [LONGEST_WAIT_SECONDS])
    return tuple(
        core.VirtualCluster(
            name=name,
            guaranteed=guaranteed,
            members=tuple(core.Member(tenant=tenant, weight=float(weight)) for tenant, weight in members),
            policy=policy,
            policy_parameters=_json(parameters),
            placer=placer,
            placer_parameters=_json(placing),
            default_time_limit_seconds=limit,
            sharing=sharing,
            min_run_seconds=least,
            reclaim_min_run_seconds=reclaim_least,
            longest_wait_seconds=longest_wait,
        )
        for (
            name,
            policy,
            parameters,
            placer,
            placing,
            limit,
            sharing,
            least,
            reclaim_least,
            longest_wait,
            guaranteed,
            members,
        ) in cursor.fetchall()
    )


def _tenants(cursor: Any) -> tuple[core.Tenant, ...]:
    cursor.execute(_TENANTS)
    return tuple(
        core.Tenant(
            name=name,
            quota=quota,
            budget_spent=is_spent,
            budget_renewed_at=renewed_at if is_spent else None,
        )
        for name, quota, is_spent, renewed_at in cursor.fetchall()
    )


def _memory(cursor: Any) -> dict[str, core.Memory]:
    cursor.execute("SELECT view, memory FROM scheduler_policymemory ORDER BY view")
    return {view: _json(memory) for view, memory in cursor.fetchall()}


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
    """Return what an operator chose for the whole cluster, if anything."""
    cursor.execute(f"SELECT {', '.join(_SETTINGS)} FROM scheduler_clustersettings")
    row = cursor.fetchone()
    found = dict(zip(_SETTINGS, row, strict=True)) if row else {}
    return {name: _json(value) if name.endswith("_parameters") else value for name, value in found.items()}


def _cells(cursor: Any) -> Specification | None:
    """Return the specification in force; None when it divides nothing."""
    cursor.execute("SELECT document FROM scheduler_cellspecification ORDER BY version DESC LIMIT 1")
    row = cursor.fetchone()
    specification = specification_of(row[0]) if row else None
    return specification if specification and specification.physical else None


def _interference(cursor: Any) -> tuple[Branch, ...]:
    """Return what is foretold of pairs that nobody measured, where a virtual cluster shares freely."""
    cursor.execute(_INTERFERENCE, [SHARE_FREE])
    row = cursor.fetchone()
    return tuple([Branch(**branch) for branch in (_json(row[0]) if row else ())])


def _workload(cursor: Any) -> tuple[core.TaskKind, ...]:
    """Return what jobs of the last days asked for, as it was last counted, where a placer goes by it."""
    cursor.execute(_WORKLOAD)
    row = cursor.fetchone()
    return tuple(
        [
            core.TaskKind(
                gpus=max(math.floor(kind["gpus"]), 1) if kind["gpus"] else 0,
                cpus=kind["cpus"],
                share=round(kind["gpus"] * WHOLE_GPU) if 0 < kind["gpus"] < 1 else WHOLE_GPU,
                gpu_models=tuple(kind["gpu_models"]),
                count=kind["frequency"],
            )
            for kind in (_json(row[0]) if row else ())
        ]
    )


def _json(value: Any) -> Any:
    """Django hands jsonb columns of a raw cursor over as text, and json ones as values."""
    return json.loads(value) if isinstance(value, str) else value
