"""The only way a job or an attempt changes state: the transition table, a conditional UPDATE and the
event that reports it, in the caller's transaction.

A transaction that changes several rows locks them in this order, which prevents deadlocks:
jobs by id, then attempts, then nodes by id.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import F

from scheduler.core.model.lifecycle import (
    AttemptEvent,
    AttemptState,
    JobEvent,
    JobState,
    attempt_step,
    job_step,
)
from scheduler.models.attempts import Attempt
from scheduler.models.events import Event
from scheduler.models.jobs import Job
from tenants.errors import Conflict


def lock_jobs(ids: list[int], *, waits: bool = True) -> dict[int, Job]:
    """Lock the jobs in id order, without blocking inserts that refer to them; return them by id.

    Without `waits`, jobs that another transaction has locked are left out.
    """
    rows = Job.objects.select_for_update(no_key=True, skip_locked=not waits).filter(id__in=ids).order_by("id")
    return {job.id: job for job in rows}


def hold_jobs(ids: list[int]) -> None:
    """As `lock_jobs`, for a caller that reads what it needs of them afterwards."""
    with connection.cursor() as cursor:
        cursor.execute(_LOCK, [ids])


def step_job(
    job: Job,
    event: JobEvent,
    *,
    at: datetime,
    actor: str,
    why: str = "",
    data: Mapping[str, object] | None = None,
    **columns: Any,
) -> None:
    """Take one step, writing `columns` with it; `why` is the event's sentence.

    Raise InvalidTransition by the table, Conflict when the row moved meanwhile.
    """
    before = job.state
    after = job_step(job.id, JobState(before), event)
    if event is JobEvent.REQUEUED and before == JobState.RUNNING:
        columns["waits_since"] = at
    changed = Job.objects.filter(id=job.id, state=before).update(
        state=after, version=F("version") + 1, **columns
    )
    if not changed:
        raise Conflict(f"Job {job.id} was changed by someone else in the meantime; read it again.")
    _take_over(job, state=after, **columns)
    job_event(job, f"job.{event}", at=at, actor=actor, why=why, data=data, from_state=before).save()


def cancel_waiting_jobs(ids: list[int], *, actor: str, why: Mapping[int, str] | None = None) -> list[int]:
    """Cancel those of the jobs that wait and have no attempt, as one statement; return which those are.

    `why`: a sentence by job, for its page and its history.
    """
    with connection.cursor() as cursor:
        # Locked first: only a later statement sees whether a round gave one an attempt meanwhile.
        cursor.execute(_LOCK, [ids])
        cursor.execute(_CANCEL_WAITING, {"ids": ids, "actor": actor, "why": json.dumps(why or {})})
        return [job_id for (job_id,) in cursor.fetchall()]


#: As `lock_jobs`, whose rows as objects would cost more than all the rest for a thousand jobs.
_LOCK = "SELECT id FROM scheduler_job WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE"
#: The step of `job_step` from queued by cancelled, and its events.
_CANCEL_WAITING = """
WITH moment AS (
    SELECT clock_timestamp() AS now
), cancelled AS (
    UPDATE scheduler_job SET state = 'cancelled', ended_at = now, version = version + 1,
        message = coalesce(%(why)s::jsonb ->> id::text, '')
    FROM moment
    WHERE id = ANY(%(ids)s) AND state = 'queued' AND NOT EXISTS (
        SELECT FROM scheduler_attempt WHERE job_id = scheduler_job.id AND state <> 'ended')
    RETURNING id, tenant_id, ended_at
), told AS (
    INSERT INTO scheduler_event (
        at, kind, subject, subject_id, tenant_id, job_id, from_state, to_state, actor, message, data)
    SELECT ended_at, 'job.cancelled', 'job', id, tenant_id, id, 'queued', 'cancelled', %(actor)s,
        coalesce(%(why)s::jsonb ->> id::text, ''), '{}'
    FROM cancelled ORDER BY id
)
SELECT id FROM cancelled ORDER BY id
"""


def touch_job(job: Job, **columns: Any) -> None:
    """Change a job's columns without a step; its version grows, so a round deciding on it drops it."""
    Job.objects.filter(id=job.id).update(version=F("version") + 1, **columns)
    _take_over(job, **columns)


def _take_over(row: Job | Attempt, **columns: Any) -> None:
    """Make the instance equal to its row after the UPDATE."""
    for name, value in columns.items():
        setattr(row, name, value)


def step_attempt(
    attempt: Attempt,
    event: AttemptEvent,
    *,
    at: datetime,
    actor: str,
    why: str = "",
    data: Mapping[str, object] | None = None,
    **columns: Any,
) -> None:
    """Take one step; raise InvalidTransition by the table, Conflict when the row moved meanwhile."""
    before = attempt.state
    after = attempt_step(attempt.id, AttemptState(before), event)
    changed = Attempt.objects.filter(id=attempt.id, state=before).update(state=after, **columns)
    if not changed:
        raise Conflict(f"Attempt {attempt.id} was changed by someone else in the meantime; read it again.")
    _take_over(attempt, state=after, **columns)
    attempt_event(
        attempt, f"attempt.{event}", at=at, actor=actor, why=why, data=data, from_state=before
    ).save()


def job_event(
    job: Job,
    kind: str,
    *,
    at: datetime,
    actor: str,
    why: str = "",
    data: Mapping[str, object] | None = None,
    from_state: str = "",
) -> Event:
    """Return the unsaved event; the caller saves it, or many at once."""
    return Event(
        at=at,
        kind=kind,
        subject="job",
        subject_id=job.id,
        tenant_id=job.tenant_id,
        job_id=job.id,
        from_state=from_state,
        to_state=job.state if from_state else "",
        actor=actor,
        message=why[:500],
        data=data or {},
    )


def attempt_event(
    attempt: Attempt,
    kind: str,
    *,
    at: datetime,
    actor: str,
    why: str = "",
    data: Mapping[str, object] | None = None,
    from_state: str = "",
) -> Event:
    """Return the unsaved event; it belongs to the attempt's job."""
    return Event(
        at=at,
        kind=kind,
        subject="attempt",
        subject_id=attempt.id,
        tenant_id=attempt.job.tenant_id,
        job_id=attempt.job_id,
        from_state=from_state,
        to_state=attempt.state if from_state else "",
        actor=actor,
        message=why[:500],
        data={"number": attempt.number, **(data or {})},
    )
