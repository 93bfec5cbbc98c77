"""What is on record of speeds, as `core.perf` wants it. What has not changed is not read again.

A round asks for it every few seconds, and with many jobs running the figures change every few seconds. So
this is plain SQL, and what is read at once is bounded: the settings measured last, and the newest
corrections.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from django.db import connection

from scheduler.core.perf.knowledge import Knowledge
from scheduler.core.perf.speed import Entry, Kind, Measured, Setting

MOST_MEASUREMENTS = 5_000
MOST_CORRECTIONS = 50_000

#: Differ when the tables do: every change of a row brings a new time stamp, and every measurement a sample.
_MARKS = """
SELECT (SELECT row(count(*), max(id), max(updated_at), sum(samples))::text FROM scheduler_speedmeasurement),
       (SELECT row(count(*), max(id), max(at))::text FROM scheduler_speedcorrection),
       (SELECT row(count(*), max(id), max(name))::text FROM tenants_tenant)
"""
_MEASURED = """
SELECT t.name, s.application, s.gpu_model, s.gpus, s.spread, s.partner, s.average, s.variance, s.samples
FROM scheduler_speedmeasurement s JOIN tenants_tenant t ON t.id = s.tenant_id
ORDER BY s.updated_at DESC, s.id DESC LIMIT %s
"""
_CORRECTED = """
SELECT t.name, s.application, s.gpu_model, s.gpus, s.spread, s.partner, s.value
FROM scheduler_speedcorrection s JOIN tenants_tenant t ON t.id = s.tenant_id
ORDER BY s.at DESC, s.id DESC LIMIT %s
"""


class _Kept(NamedTuple):
    marks: tuple[str, ...]
    measured: Sequence[tuple]
    corrected: Sequence[tuple]
    knowledge: Knowledge


_kept = _Kept(("", "", ""), (), (), Knowledge({}))


def read_knowledge(cursor: Any = None) -> Knowledge:
    """Return what is on record; the same object as last time where nothing has changed.

    `cursor`: of the transaction in whose state it is to be read.
    """
    if cursor is None:
        with connection.cursor() as fresh:
            return read_knowledge(fresh)
    global _kept
    kept = _kept
    cursor.execute(_MARKS)
    marks = cursor.fetchone()
    if marks == kept.marks:
        return kept.knowledge
    measured, corrected = kept.measured, kept.corrected
    if (marks[0], marks[2]) != (kept.marks[0], kept.marks[2]):
        cursor.execute(_MEASURED, [MOST_MEASUREMENTS])
        measured = cursor.fetchall()
    if marks[1:] != kept.marks[1:]:
        cursor.execute(_CORRECTED, [MOST_CORRECTIONS])
        corrected = cursor.fetchall()
    _kept = _Kept(marks, measured, corrected, _knowledge(measured, corrected))
    return _kept.knowledge


def _knowledge(measured: Sequence[tuple], corrected: Sequence[tuple]) -> Knowledge:
    entries: dict[Kind, dict[Setting, Entry]] = defaultdict(dict)
    for tenant, application, model, gpus, spread, partner, average, variance, samples in measured:
        setting = Setting(model, gpus, spread, partner)
        entries[Kind(tenant, application)][setting] = Entry(measured=Measured(average, variance, samples))
    for tenant, application, model, gpus, spread, partner, value in corrected:
        here, setting = entries[Kind(tenant, application)], Setting(model, gpus, spread, partner)
        known = here.get(setting)
        here[setting] = Entry(corrected=value, measured=known.measured if known else None)
    return Knowledge(dict(entries))
