"""New jobs and their events into the database, a thousand as one statement.

The ORM takes as long to write the SQL of a thousand inserts as PostgreSQL takes for all of the rest.
"""

import json
from collections.abc import Sequence

from django.db import connection

from scheduler.jobs.models import Job

_INSERT = """
WITH given AS (
    SELECT * FROM jsonb_to_recordset(%s::jsonb) AS job(
        ordinal int, virtual_cluster_id bigint, name text, spec jsonb, shape jsonb, labels jsonb,
        guaranteed bool, priority smallint, gpus int, gpu_models varchar[], time_limit_seconds float8)
), moment AS (
    SELECT clock_timestamp() AS now
), inserted AS (
    INSERT INTO scheduler_job (
        tenant_id, submitted_by_id, virtual_cluster_id, name, spec, shape, labels, guaranteed, priority, gpus,
        gpu_models, time_limit_seconds, submitted_at, state, held, cancelling, attempts_started, failures,
        preemptions, short_runs, avoid_nodes, service, message, version)
    SELECT %s, %s, virtual_cluster_id, name, spec, shape, labels, guaranteed, priority, gpus,
        gpu_models, time_limit_seconds, now, 'queued', false, false, 0, 0, 0, 0, '{}', '{}', '', 1
    FROM given, moment ORDER BY ordinal
    RETURNING id, tenant_id, submitted_at
), told AS (
    INSERT INTO scheduler_event (
        at, kind, subject, subject_id, tenant_id, job_id, from_state, to_state, actor, message, data)
    SELECT submitted_at, 'job.submitted', 'job', id, tenant_id, id, '', 'queued', %s, '', '{}'
    FROM inserted ORDER BY id
)
SELECT id, submitted_at FROM inserted ORDER BY id
"""
_COLUMNS = (
    "virtual_cluster_id",
    "name",
    "spec",
    "shape",
    "labels",
    "guaranteed",
    "priority",
    "gpus",
    "gpu_models",
    "time_limit_seconds",
)


def insert_jobs(jobs: Sequence[Job], *, actor: str) -> None:
    """Insert queued jobs of one tenant and one user in their order; fills in `id` and `submitted_at`."""
    first = jobs[0]
    given = [
        {"ordinal": ordinal, **{name: getattr(job, name) for name in _COLUMNS}}
        for ordinal, job in enumerate(jobs)
    ]
    with connection.cursor() as cursor:
        cursor.execute(_INSERT, [json.dumps(given), first.tenant_id, first.submitted_by_id, actor])
        for job, (job_id, submitted_at) in zip(jobs, cursor.fetchall(), strict=True):
            job.id, job.submitted_at = job_id, submitted_at
            job._state.adding = False
