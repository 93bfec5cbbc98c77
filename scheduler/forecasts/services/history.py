"""How long jobs of each tenant and application ran, as parts of their time limits: what forecasts go by."""

import time
from collections import defaultdict

from django.db import connection

from scheduler.core.sim.run_times import RunTimes

#: Newest attempts that are looked at, so that the query costs the same however long the history is.
_ATTEMPTS = 5_000
#: Quantiles kept of each kind's run times.
_KEPT = 101
_GOOD_FOR_SECONDS = 60.0

# Those that ended by themselves or by their user: what was preempted or lost says nothing of run times.
_RUN_TIMES = """
SELECT t.name, coalesce(j.shape->>'application', ''),
       least(1.0, extract(epoch FROM a.ended_at - a.running_at)::float8
                  / coalesce(j.time_limit_seconds, v.default_time_limit_seconds))
FROM (SELECT job_id, outcome, running_at, ended_at FROM scheduler_attempt ORDER BY id DESC LIMIT %s) a
JOIN scheduler_job j ON j.id = a.job_id
JOIN tenants_tenant t ON t.id = j.tenant_id
JOIN tenants_virtualcluster v ON v.id = j.virtual_cluster_id
WHERE a.outcome IN ('succeeded', 'failed', 'cancelled') AND a.ended_at > a.running_at
"""

_read: tuple[float, RunTimes] | None = None


def known_run_times() -> RunTimes:
    """Return what `read_run_times` said, at most a minute ago."""
    global _read
    now = time.monotonic()
    if _read is None or now - _read[0] > _GOOD_FOR_SECONDS:
        _read = now, read_run_times()
    return _read[1]


def read_run_times() -> RunTimes:
    """Read the newest attempts that ended; their tenant, and all tenants, count with all their jobs too."""
    with connection.cursor() as cursor:
        cursor.execute(_RUN_TIMES, [_ATTEMPTS])
        rows = cursor.fetchall()
    parts: dict[tuple[str, str], list[float]] = defaultdict(list)
    for tenant, application, part in rows:
        for kind in {(tenant, application), (tenant, ""), ("", "")}:
            parts[kind].append(part)
    return RunTimes(parts={kind: _thinned(sorted(values)) for kind, values in parts.items()})


def _thinned(values: list[float]) -> list[float]:
    if len(values) <= _KEPT:
        return values
    return [values[number * (len(values) - 1) // (_KEPT - 1)] for number in range(_KEPT)]
