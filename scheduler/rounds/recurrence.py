"""The run times of similar jobs that have ended, read at most once a minute by one query."""

import time

from django.db import connection

from scheduler.core.perf.recurrence import Like, Recurrence
from scheduler.core.perf.throughput import job_class_of
from scheduler.jobspec.shape import shape_of
from scheduler.wiring.jsonb import read_jsonb

#: The most newest jobs that are read, so that the query costs the same however long the history is.
JOBS_MOST = 10_000
_GOOD_FOR_SECONDS = 60.0

# The GPU time of a job in all its attempts, by model: a job that was stopped and went on counts once.
_ENDED = """
SELECT t.name, u.username, j.name, j.shape::text, j.service
FROM (SELECT * FROM scheduler_job WHERE state IN ('succeeded', 'failed', 'cancelled')
      ORDER BY id DESC LIMIT %s) j
JOIN tenants_tenant t ON t.id = j.tenant_id
JOIN tenants_user u ON u.id = j.submitted_by_id
WHERE j.attempts_started > 0
ORDER BY j.ended_at, j.id
"""

_read: tuple[float, Recurrence] | None = None


def known_recurrence() -> Recurrence:
    """Return what `read_recurrence` returned at most a minute ago."""
    global _read
    now = time.monotonic()
    if _read is None or now - _read[0] > _GOOD_FOR_SECONDS:
        _read = now, read_recurrence()
    return _read[1]


def read_recurrence() -> Recurrence:
    """Read the newest jobs that ended, in the order of their ends."""
    known = Recurrence()
    with connection.cursor() as cursor:
        cursor.execute(_ENDED, [JOBS_MOST])
        for tenant, user, name, shape, service in cursor.fetchall():
            stated = shape_of(shape)
            if not stated.gpus:
                continue  # Its run time is computed from its GPU time.
            values = read_jsonb(service)
            # Service counts a part of a GPU as a part.
            seconds = sum(map(float, values.values())) / stated.amount(stated.gpus)
            group = job_class_of(tenant, stated.application, name).application
            known.ended(Like(tenant, user, group, stated.gpus), seconds)
    return known
