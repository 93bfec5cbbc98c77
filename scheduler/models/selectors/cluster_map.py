"""What the dashboard's map shows of nodes and jobs, written as JSON by the database.

The whole objects of a hundred thousand GPUs take the server seconds to build. The fields have the names and
values that they have in the whole objects, so that a page can mix both.
"""

from collections.abc import Sequence

from django.db import connection

from scheduler.core.model.gpu_parts import WHOLE_GPU
from scheduler.models.maintenance import ACTIVE
from scheduler.models.selectors.jobs import SPARE_VIEW


def _in_utc(column: str) -> str:
    """Return an expression for an instant as `tenants.times.iso` states it."""
    return f"""to_char({column} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')"""


_NODES = f"""
WITH closing AS MATERIALIZED (
    SELECT DISTINCT ON (name) name, state FROM scheduler_maintenancewindow, unnest(nodes) AS name
    WHERE state IN ({", ".join(f"'{state.value}'" for state in ACTIVE)}) ORDER BY name, starts_at
), gpu AS MATERIALIZED (
    SELECT id, node_id, index, healthy, problem FROM scheduler_gpu WHERE node_id = ANY(%(ids)s) AND present
), held AS MATERIALIZED (
    SELECT gpu_id, sum(request) AS thousandths FROM scheduler_allocatedgpu
    WHERE phase = 'held' AND gpu_id IN (SELECT id FROM gpu) GROUP BY gpu_id
), planned AS MATERIALIZED (
    SELECT DISTINCT gpu_id FROM scheduler_allocatedgpu
    WHERE phase = 'planned' AND gpu_id IN (SELECT id FROM gpu)
), gpus AS MATERIALIZED (
    SELECT node_id, bool_or(held.gpu_id IS NOT NULL OR planned.gpu_id IS NOT NULL) AS are_used,
           json_agg(json_build_object(
               'id', id, 'index', index, 'healthy', healthy, 'problem', problem,
               'state', CASE WHEN held.gpu_id IS NOT NULL THEN 'held'
                             WHEN planned.gpu_id IS NOT NULL THEN 'planned' ELSE 'free' END,
               'in_use', coalesce(held.thousandths::float8 / {WHOLE_GPU}, 0)
           ) ORDER BY index) AS found
    FROM gpu LEFT JOIN held ON held.gpu_id = id LEFT JOIN planned ON planned.gpu_id = id GROUP BY node_id
)
SELECT json_agg(json_build_object(
    'id', node.id,
    'name', node.name,
    'rack', node.rack,
    'gpu_model', model.name,
    'state', node.state,
    'cordoned', node.cordoned,
    'draining', node.draining,
    'drained', node.draining AND node.cordoned AND NOT coalesce(gpus.are_used, false) AND NOT EXISTS (
        SELECT FROM scheduler_attemptpart part
        JOIN scheduler_attempt attempt ON attempt.id = part.attempt_id
        JOIN scheduler_allocation allocation ON allocation.id = attempt.allocation_id
        WHERE part.node_id = node.id AND part.state <> 'exited' AND attempt.state <> 'ended'
              AND allocation.nodes IS NOT NULL),
    'drain_deadline', {_in_utc("node.drain_deadline")},
    'loan', CASE WHEN node.serving_pool_id IS NOT NULL THEN json_build_object('state', node.loan_state) END,
    'maintenance', CASE WHEN closing.name IS NOT NULL THEN json_build_object('state', closing.state) END,
    'gpus', coalesce(gpus.found, '[]'),
    'version', node.version
) ORDER BY node.name)::text
FROM scheduler_node node
LEFT JOIN scheduler_gpumodel model ON model.id = node.gpu_model_id
LEFT JOIN closing ON closing.name = node.name
LEFT JOIN gpus ON gpus.node_id = node.id
WHERE node.id = ANY(%(ids)s)
"""

# While a job moves, its running attempt comes before the planned one.
_JOBS = f"""
WITH places AS MATERIALIZED (
    SELECT view, waiting.id::bigint AS job_id, waiting.place
    FROM scheduler_queueorder, jsonb_array_elements(jobs) WITH ORDINALITY AS waiting (id, place)
)
SELECT json_agg(json_build_object(
    'id', job.id,
    'name', job.name,
    'tenant', tenant.name,
    'virtual_cluster', cluster.name,
    'state', job.state,
    'guarantee', CASE WHEN job.guaranteed THEN 'guaranteed' ELSE 'opportunistic' END,
    'gpus', job.gpus,
    'submitted_at', {_in_utc("job.submitted_at")},
    'attempt', attempt.found,
    'position', places.place,
    'held', job.held,
    'version', job.version
) ORDER BY job.id DESC)::text
FROM scheduler_job job
JOIN tenants_tenant tenant ON tenant.id = job.tenant_id
JOIN tenants_virtualcluster cluster ON cluster.id = job.virtual_cluster_id
LEFT JOIN places ON job.state = 'queued' AND places.job_id = job.id
     AND places.view = CASE WHEN job.guaranteed THEN cluster.name ELSE %(spare)s END
LEFT JOIN LATERAL (
    SELECT json_build_object('state', state, 'running_at', {_in_utc("running_at")}, 'placement', (
        SELECT coalesce(json_agg(json_build_object('state', part.state, 'gpus', (
            SELECT coalesce(json_agg(CASE WHEN replica ? 'part'
                THEN json_build_object('id', gpu, 'part', replica->'part') ELSE json_build_object('id', gpu)
            END), '[]')
            FROM jsonb_array_elements(part.replicas) replica, jsonb_array_elements(replica->'gpus') gpu
        ))), '[]')
        FROM scheduler_attemptpart part WHERE part.attempt_id = any_attempt.id
    )) AS found
    FROM scheduler_attempt any_attempt WHERE job_id = job.id AND state <> 'ended'
    ORDER BY state = 'planned' LIMIT 1
) attempt ON true
WHERE job.id = ANY(%(ids)s)
"""


def nodes_of_map(ids: Sequence[int]) -> str:
    """Return the nodes by name, as a JSON array."""
    return _json(_NODES, ids)


def jobs_of_map(ids: Sequence[int]) -> str:
    """Return the jobs, newest first, as a JSON array, each with its attempt that has not ended."""
    return _json(_JOBS, ids)


def _json(statement: str, ids: Sequence[int]) -> str:
    with connection.cursor() as cursor:
        cursor.execute(statement, {"ids": list(ids), "spare": SPARE_VIEW})
        (text,) = cursor.fetchone()
    return text or "[]"
