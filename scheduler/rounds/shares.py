"""The CPUs and memory of attempts whose jobs leave them to the platform: written while they run."""

import json
from collections.abc import Mapping
from typing import Any

from django.db import connection

from scheduler.core.model.auxiliary import AuxiliaryShare
from scheduler.core.model.lifecycle import AttemptState
from scheduler.core.model.snapshot import JobId
from scheduler.jobs.representations import publish_jobs
from scheduler.wiring import stream

#: A share of an action that was dropped has another number of replicas than the attempt.
_CHANGED = """
WITH given AS (SELECT * FROM unnest(%(jobs)s::bigint[], %(shares)s::jsonb[]) AS g (job, share)),
locked AS (
    SELECT a.id, a.job_id, g.share FROM given g
    JOIN scheduler_job j ON j.id = g.job
    JOIN scheduler_attempt a ON a.job_id = j.id AND a.state = ANY(%(states)s)
    JOIN scheduler_allocation l ON l.id = a.allocation_id
    WHERE a.auxiliary IS DISTINCT FROM g.share
      AND jsonb_array_length(l.replicas) = jsonb_array_length(g.share -> 'replicas')
    FOR UPDATE OF j SKIP LOCKED
),
changed AS (
    UPDATE scheduler_attempt a SET auxiliary = locked.share FROM locked
    WHERE a.id = locked.id AND a.state = ANY(%(states)s) RETURNING a.id, a.job_id
),
told AS (UPDATE scheduler_job SET version = version + 1 WHERE id IN (SELECT job_id FROM changed))
SELECT changed.job_id, array_remove(array_agg(p.node_id), NULL) FROM changed
LEFT JOIN scheduler_attemptpart p ON p.attempt_id = changed.id AND p.state <> 'exited'
GROUP BY changed.job_id
"""
_STATES = [AttemptState.PLANNED.value, AttemptState.STARTING.value, AttemptState.RUNNING.value]


def share_json(share: AuxiliaryShare | None) -> dict[str, Any] | None:
    """Return a share as `Attempt.auxiliary` has it; equal shares give equal values."""
    if share is None:
        return None
    return {
        "replicas": [list(each) for each in share.replicas],
        "proportional": [list(each) for each in share.proportional],
        "message": share.message,
    }


def write_shares(shares: Mapping[JobId, AuxiliaryShare]) -> None:
    """Write the shares that changed, and wake the nodes on which limits are to follow.

    A job that another transaction has locked is left to the next round, so that this waits for no lock.
    """
    if not shares:
        return
    given: dict[str, Any] = {
        "jobs": list(shares),
        "shares": [json.dumps(share_json(share)) for share in shares.values()],
        "states": _STATES,
    }
    with connection.cursor() as cursor:
        cursor.execute(_CHANGED, given)
        rows = cursor.fetchall()
    if rows:
        stream.wake_nodes({node for _, nodes in rows for node in nodes})
        publish_jobs([job for job, _ in rows])
