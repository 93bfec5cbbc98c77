"""Actions on a job: submit, cancel, hold, release."""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from datetime import datetime
from functools import cache
from typing import Any

import msgspec
from django.db import connection, transaction

from scheduler.core.model.lifecycle import (
    ATTEMPT_LIVE,
    JOB_FINAL,
    AttemptState,
    JobEvent,
    JobState,
    StopCause,
)
from scheduler.jobs.archives.services import archives_use
from scheduler.jobs.attempts.services.lifecycle import attempt_stop
from scheduler.jobs.attempts.services.steps import (
    job_event,
    lock_jobs,
    step_job,
    touch_job,
)
from scheduler.jobs.representations import publish_jobs, publish_new_jobs
from scheduler.jobs.services.dependencies import dependencies_write
from scheduler.jobs.services.submission import FeasibleJob, Submission
from scheduler.jobspec import JobSpec
from scheduler.jobspec.arrays import JobArray
from scheduler.models.attempts import Attempt
from scheduler.models.jobs import Job
from scheduler.wiring.clock import database_now
from scheduler.wiring.deadlocks import repeated_on_deadlock
from scheduler.wiring.wakeups import request_round_on_commit
from tenants.errors import Conflict, FieldError, Invalid
from tenants.models import Tenant, User, VirtualCluster
from tenants.selectors import Viewer

MAX_JOBS_PER_REQUEST = 1_000


@transaction.atomic
def job_submit(*, viewer: Viewer, tenant: str | None, spec: object) -> Job:
    """Queue one job. `tenant` may be left out by members of one tenant."""
    submission = Submission(viewer, tenant)
    return _queue(submission, [submission.check(spec)], viewer)[0]


@transaction.atomic
def jobs_submit_bulk(*, viewer: Viewer, tenant: str | None, specs: Sequence[object]) -> list[Job]:
    """Queue many jobs, all or none; the fields of errors begin with "jobs." and the job's number."""
    if not 1 <= len(specs) <= MAX_JOBS_PER_REQUEST:
        problem = f"has {len(specs)} entries"
        expected = f"a list of 1 to {MAX_JOBS_PER_REQUEST} jobs"
        raise Invalid.of(FieldError("jobs", problem, expected))
    submission = Submission(viewer, tenant)
    return _queue(submission, submission.check_all(specs, where="jobs"), viewer)


def _queue(submission: Submission, checked: Sequence[FeasibleJob], viewer: Viewer) -> list[Job]:
    checked = _tasks(checked)
    submission.check_room(len(checked))
    archives_use({one.archive.id for one in checked if one.archive is not None})
    facts = submission.facts
    tenant = Tenant(id=facts.tenant_id, name=facts.tenant)
    virtual_clusters = {
        name: VirtualCluster(id=one.id, name=name) for name, one in facts.virtual_clusters.items()
    }
    rows: dict[int, Job] = {}
    for one in checked:
        if one.like is None:
            rows[id(one)] = _row(one, tenant, virtual_clusters[one.spec.virtual_cluster], viewer)
    jobs = [rows[id(one)] if one.like is None else _like(rows[id(one.like)], one.spec) for one in checked]
    insert_jobs(jobs, actor=viewer.actor)
    _number_arrays(jobs, checked)
    dependencies_write(jobs, [one.spec for one in checked])
    publish_new_jobs(jobs)
    request_round_on_commit()
    return jobs


def _row(one: FeasibleJob, tenant: Tenant, virtual_cluster: VirtualCluster, viewer: Viewer) -> Job:
    job, array = new_row(one.spec, tenant, virtual_cluster, viewer.user), one.array
    job.archive = one.archive
    if array is not None and one.spec.array is not None:
        job.array = {
            "index": int(one.spec.array.indices),
            "size": len(array.numbers()),
            "at_most": array.at_most,
        }
    return job


def _like(job: Job, spec: JobSpec) -> Job:
    """Return another queued job, whose specification differs in its name at most."""
    other = copy(job)
    if spec.name != job.name:
        other.name, other.spec = spec.name, job.spec | {"name": spec.name}
    return other


def new_row(spec: JobSpec, tenant: Tenant, virtual_cluster: VirtualCluster, user: User) -> Job:
    """Return a queued job, for `insert_jobs`."""
    kept = replace(spec, hold=False) if spec.hold else spec
    return Job(
        tenant=tenant,
        virtual_cluster=virtual_cluster,
        submitted_by=user,
        name=spec.name,
        spec=kept.to_dict(),
        shape=kept.shape(),
        labels=dict(spec.labels),
        guaranteed=spec.guaranteed,
        priority=spec.priority,
        gpus=spec.gpus,
        gpu_models=list(spec.gpu_models),
        time_limit_seconds=spec.time_limit_seconds,
        state=JobState.QUEUED,
        held=spec.hold,
    )


def _tasks(checked: Sequence[FeasibleJob]) -> list[FeasibleJob]:
    """Return each array as its tasks; each task names only its own index."""
    found: list[FeasibleJob] = []
    for one in checked:
        array = one.spec.array
        if array is None:
            found.append(one)
            continue
        for index in array.numbers():
            own = JobArray(indices=str(index))
            found.append(replace(one, spec=replace(one.spec, array=own), array=array))
    if len(found) > max(MAX_JOBS_PER_REQUEST, len(checked)):
        problem = f"there are {len(found):,} with the tasks of arrays"
        expected = f"at most {MAX_JOBS_PER_REQUEST:,} in one request"
        raise Invalid.of(FieldError("jobs", problem, expected))
    return found


def _number_arrays(jobs: Sequence[Job], checked: Sequence[FeasibleJob]) -> None:
    """Give every task of an array the array's number, which is that of its first task."""
    firsts: dict[int, int] = {}
    for job, one in zip(jobs, checked, strict=True):
        if one.array is not None:
            job.array_id = firsts.setdefault(id(one.array), job.id)
    tasks = [job for job in jobs if job.array_id is not None]
    if tasks:
        with connection.cursor() as cursor:
            cursor.execute(_NUMBER_ARRAYS, [[job.id for job in tasks], [job.array_id for job in tasks]])


_NUMBER_ARRAYS = """
UPDATE scheduler_job SET array_id = task.array FROM unnest(%s::bigint[], %s::bigint[]) AS task (id, "array")
WHERE scheduler_job.id = task.id
"""


@repeated_on_deadlock
@transaction.atomic
def job_cancel(*, job_id: int, actor: str) -> None:
    """End a waiting job at once; stop a running one. Cancelling again changes nothing."""
    job = lock_jobs([job_id])[job_id]
    if job.cancelling or job.state == JobState.CANCELLED:
        return
    _require_unfinished(job)
    at = database_now()
    unended = _unended_attempts(job)
    live = [attempt for attempt in unended if attempt.state in ATTEMPT_LIVE]
    planned = [attempt for attempt in unended if attempt.state not in ATTEMPT_LIVE]
    if not unended:
        # Why it was held ends with that.
        step_job(job, JobEvent.CANCELLED, at=at, actor=actor, ended_at=at, message="")
    # The end of a job's last attempt ends a job that is being cancelled. So a planned attempt that is
    # not the last one must end before the job says that it is.
    for attempt in planned if live else ():
        _cancel_attempt(attempt, job, actor=actor, at=at)
    if unended:
        touch_job(job, cancelling=True)
        job_event(job, "job.cancelling", at=at, actor=actor).save()
    for attempt in live or planned:
        _cancel_attempt(attempt, job, actor=actor, at=at)
    publish_jobs([job.id])
    request_round_on_commit()


def _unended_attempts(job: Job) -> list[Attempt]:
    unended = Attempt.objects.filter(job=job).exclude(state=AttemptState.ENDED)
    return list(unended.select_related("allocation"))


def _cancel_attempt(attempt: Attempt, job: Job, *, actor: str, at: datetime) -> None:
    attempt.job = job
    attempt_stop(attempt, cause=StopCause.CANCELLED, actor=actor, message=f"Cancelled by {actor}.", at=at)


@repeated_on_deadlock
@transaction.atomic
def job_hold(*, job_id: int, actor: str) -> None:
    """Keep a waiting job from starting until it is released."""
    _set_held(job_id, held=True, kind="job.held", actor=actor)


@repeated_on_deadlock
@transaction.atomic
def job_release(*, job_id: int, actor: str) -> None:
    """Release a held job, so that it can start."""
    _set_held(job_id, held=False, kind="job.released", actor=actor)


def _set_held(job_id: int, *, held: bool, kind: str, actor: str) -> None:
    job = lock_jobs([job_id])[job_id]
    _require_unfinished(job)
    if job.held == held:
        return
    at = database_now()
    if held:
        _give_up_gpus(job, actor=actor, at=at)
    # The platform's reason to hold it ends with that. A held job does not age.
    touch_job(job, held=held, message="", **({} if held else {"waits_since": at}))
    job_event(job, kind, at=at, actor=actor).save()
    publish_jobs([job.id])
    request_round_on_commit()


def _give_up_gpus(job: Job, *, actor: str, at: datetime) -> None:
    """Withdraw the GPUs that the waiting job would have next; raise Conflict where it has some already."""
    planned = _unended_attempts(job)
    if job.state != JobState.QUEUED or any(attempt.state in ATTEMPT_LIVE for attempt in planned):
        does = "running" if job.state != JobState.QUEUED else "starting"
        raise Conflict(f"Job {job.id} is {does}; only a waiting job can be held.")
    for attempt in planned:
        attempt.job = job
        attempt_stop(attempt, cause=StopCause.PREEMPTED, actor=actor, message=f"Held by {actor}.", at=at)


def _require_unfinished(job: Job) -> None:
    if job.state in JOB_FINAL:
        raise Conflict(f"Job {job.id} has ended already: it {_ENDED_WORDS[JobState(job.state)]}.")


_ENDED_WORDS = {
    JobState.SUCCEEDED: "succeeded",
    JobState.FAILED: "failed",
    JobState.CANCELLED: "was cancelled",
}


# The ORM takes as long to write the SQL of a thousand inserts as PostgreSQL takes for all of the rest.
# Rows that are alike are written, and parsed there, once.
_INSERT = """
WITH moment AS (
    SELECT clock_timestamp() AS now
), given AS (
    SELECT * FROM unnest(%s::int[]) WITH ORDINALITY AS each (alike, place)
    JOIN ROWS FROM (
        jsonb_populate_recordset(NULL::scheduler_job, %s::jsonb), unnest(%s::float8[])
    ) WITH ORDINALITY ON ordinality = alike
), inserted AS (
    INSERT INTO scheduler_job ({columns}) SELECT {values} FROM given, moment ORDER BY given.place
    RETURNING id, tenant_id, submitted_at, eligible_at
), told AS (
    INSERT INTO scheduler_event (
        at, kind, subject, subject_id, tenant_id, job_id, from_state, to_state, actor, message, data)
    SELECT submitted_at, 'job.submitted', 'job', id, tenant_id, id, '', 'queued', %s, '', '{{}}'
    FROM inserted ORDER BY id
)
SELECT id, submitted_at, eligible_at FROM inserted ORDER BY id
"""
#: The database's clock gives the present time, also for durations from now.
_BY_THE_CLOCK = {
    "submitted_at": "moment.now",
    "eligible_at": "coalesce(given.eligible_at, moment.now + given.unnest * interval '1 second')",
}


@cache
def _statement() -> tuple[tuple[tuple[str, str], ...], str]:
    """Return attribute and column of each field of a job's row but its number, and the INSERT."""
    columns = {
        field.attname: field.column
        for field in Job._meta.concrete_fields
        if field.column and not field.primary_key
    }
    quoted = {column: connection.ops.quote_name(column) for column in columns.values()}
    values = [_BY_THE_CLOCK.get(column, f"given.{name}") for column, name in quoted.items()]
    return tuple(columns.items()), _INSERT.format(
        columns=", ".join(quoted.values()), values=", ".join(values)
    )


def insert_jobs(jobs: Sequence[Job], *, actor: str) -> None:
    """Insert queued jobs in their order, with every column as it is; fills in `id` and the instants."""
    columns, statement = _statement()
    # Copies of a row have its very values, all of which live as long as it: their identities tell.
    different: dict[tuple[int, ...], int] = {}
    rows: list[dict[str, Any]] = []
    seconds: list[float | None] = []
    alike = []
    for job in jobs:
        values = [getattr(job, name) for name, _ in columns]
        place = different.setdefault(tuple(map(id, values)), len(rows) + 1)
        alike.append(place)
        if place > len(rows):
            begin = job.specification.begin if "begin" in job.spec else None
            row = dict(zip([column for _, column in columns], values, strict=True))
            rows.append(row | {"eligible_at": begin if isinstance(begin, datetime) else None})
            seconds.append(None if isinstance(begin, datetime) else begin)
    with connection.cursor() as cursor:
        cursor.execute(statement, [alike, msgspec.json.encode(rows).decode(), seconds, actor])
        for job, instants in zip(jobs, cursor.fetchall(), strict=True):
            job.id, job.submitted_at, job.eligible_at = instants
            job._state.adding = False
