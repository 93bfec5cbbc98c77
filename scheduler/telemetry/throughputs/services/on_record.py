"""What is on record of throughputs, as `core.perf` wants it. What has not changed is not read again.

A round asks for it every few seconds, and with many jobs running the figures change every few seconds. So
this is plain SQL, and what is read at once is bounded: the settings measured last, and the newest
corrections.
"""

import math
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from django.db import connection

from scheduler.core.perf.estimator import ThroughputEstimator
from scheduler.core.perf.throughput import Entry, JobClass, MovingAverage, Setting

MOST_MEASUREMENTS = 5_000
MOST_CORRECTIONS = 50_000

#: How old the job classes that others are compared with may be, while only averages move: fitting them takes
#: longer than all else, and with many jobs running something has moved in every round.
REFERENCES_KEPT_SECONDS = 60.0

#: Differ when the tables do: every change of a row brings a new time stamp, and every measurement a sample.
_MARKS = """
SELECT (SELECT row(max(updated_at), sum(samples))::text FROM scheduler_speedmeasurement),
       (SELECT row(count(*), max(id))::text FROM scheduler_speedmeasurement),
       (SELECT row(count(*), max(id), max(at))::text FROM scheduler_speedcorrection),
       (SELECT row(count(*), max(id), max(name))::text FROM tenants_tenant)
"""
_MEASURED = """
SELECT t.name, s.application, s.gpu_model, s.gpus, s.spread, s.partner, s.gpu_limit,
       s.average, s.variance, s.samples
FROM scheduler_speedmeasurement s JOIN tenants_tenant t ON t.id = s.tenant_id
ORDER BY s.updated_at DESC, s.id DESC LIMIT %s
"""
_CORRECTED = """
SELECT t.name, s.application, s.gpu_model, s.gpus, s.spread, s.partner, s.gpu_limit, s.value
FROM scheduler_speedcorrection s JOIN tenants_tenant t ON t.id = s.tenant_id
ORDER BY s.at DESC, s.id DESC LIMIT %s
"""


class _CachedEstimator(NamedTuple):
    #: The marks of the averages, of which settings there are, of corrections, and of tenants.
    marks: tuple[str, ...]
    measured: Sequence[tuple[Any, ...]]
    corrected: Sequence[tuple[Any, ...]]
    estimator: ThroughputEstimator
    #: When its references were made, by the monotonic clock.
    compared_at: float


_cached = _CachedEstimator(("", "", "", ""), (), (), ThroughputEstimator({}), -math.inf)


def read_estimator(cursor: Any = None) -> ThroughputEstimator:
    """Return what is on record; the same object as last time where nothing has changed.

    `cursor`: that of the transaction in whose state it is to be read.
    """
    if cursor is None:
        with connection.cursor() as fresh:
            return read_estimator(fresh)
    global _cached
    cached = _cached
    cursor.execute(_MARKS)
    marks = cursor.fetchone()
    if marks == cached.marks:
        return cached.estimator
    measured, corrected = cached.measured, cached.corrected
    if marks[:2] != cached.marks[:2] or marks[3] != cached.marks[3]:
        cursor.execute(_MEASURED, [MOST_MEASUREMENTS])
        measured = cursor.fetchall()
    if marks[2:] != cached.marks[2:]:
        cursor.execute(_CORRECTED, [MOST_CORRECTIONS])
        corrected = cursor.fetchall()
    references, compared_at = None, time.monotonic()
    if marks[1:] == cached.marks[1:] and compared_at < cached.compared_at + REFERENCES_KEPT_SECONDS:
        references, compared_at = cached.estimator.references, cached.compared_at
    estimator = ThroughputEstimator(_entries(measured, corrected), references)
    _cached = _CachedEstimator(marks, measured, corrected, estimator, compared_at)
    return estimator


def _entries(
    measured: Sequence[tuple[Any, ...]], corrected: Sequence[tuple[Any, ...]]
) -> dict[JobClass, dict[Setting, Entry]]:
    entries: dict[JobClass, dict[Setting, Entry]] = defaultdict(dict)
    for tenant, application, *place, average, variance, samples in measured:
        entries[JobClass(tenant, application)][Setting(*place)] = Entry(
            measured=MovingAverage(average, variance, samples)
        )
    for tenant, application, *place, value in corrected:
        here, setting = entries[JobClass(tenant, application)], Setting(*place)
        known = here.get(setting)
        here[setting] = Entry(corrected=value, measured=known.measured if known else None)
    return dict(entries)
