"""What people do with jobs: submit, cancel, hold, release."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import QuerySet

from scheduler.attempts.models import Attempt
from scheduler.attempts.services.lifecycle import attempt_stop
from scheduler.attempts.services.steps import cancel_waiting_jobs, job_event, lock_jobs, step_job, touch_job
from scheduler.clock import database_now
from scheduler.core.model.lifecycle import (
    ATTEMPT_LIVE,
    JOB_FINAL,
    AttemptState,
    JobEvent,
    JobState,
    StopCause,
)
from scheduler.deadlocks import repeated_on_deadlock
from scheduler.jobs.models import Job
from scheduler.jobs.representations import publish_jobs, publish_new_jobs
from scheduler.jobs.services.insertion import insert_jobs
from scheduler.jobs.services.submission import Checked, Submission
from scheduler.jobspec import JobSpec
from scheduler.wakeups import request_round_on_commit
from tenants.errors import Conflict, FieldError, Invalid
from tenants.models import Role, Tenant, VirtualCluster
from tenants.selectors import Viewer

MAX_JOBS_PER_REQUEST = 1_000
#: Jobs that wait and are cancelled in one transaction, and that run and are by one request.
_CANCELLED_TOGETHER = 1_000
_RUNNING_CANCELLED = 200


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
        raise Invalid(f"jobs: {problem}.", [FieldError("jobs", problem, expected)])
    submission = Submission(viewer, tenant)
    return _queue(submission, submission.check_all(specs, where="jobs"), viewer)


def _queue(submission: Submission, checked: Sequence[Checked], viewer: Viewer) -> list[Job]:
    submission.check_room(len(checked))
    facts = submission.facts
    tenant = Tenant(id=facts.tenant_id, name=facts.tenant)
    virtual_clusters = {
        name: VirtualCluster(id=one.id, name=name) for name, one in facts.virtual_clusters.items()
    }
    jobs = [_row(one.spec, tenant, virtual_clusters, viewer) for one in checked]
    insert_jobs(jobs, actor=viewer.actor)
    publish_new_jobs(jobs)
    request_round_on_commit()
    return jobs


def _row(
    spec: JobSpec, tenant: Tenant, virtual_clusters: Mapping[str, VirtualCluster], viewer: Viewer
) -> Job:
    return Job(
        tenant=tenant,
        virtual_cluster=virtual_clusters[spec.virtual_cluster],
        submitted_by=viewer.user,
        name=spec.name,
        spec=spec.to_dict(),
        shape=spec.shape(),
        labels=dict(spec.labels),
        guaranteed=spec.guaranteed,
        priority=spec.priority,
        gpus=spec.gpus,
        gpu_models=list(spec.gpu_models),
        time_limit_seconds=spec.time_limit_seconds,
        state=JobState.QUEUED,
    )


@repeated_on_deadlock
@transaction.atomic
def job_cancel(*, job_id: int, actor: str) -> None:
    """End a waiting job at once; tell a running one to stop. Cancelling again changes nothing."""
    job = lock_jobs([job_id])[job_id]
    if job.cancelling or job.state == JobState.CANCELLED:
        return
    _require_unfinished(job)
    at = database_now()
    unended = list(
        Attempt.objects.filter(job=job).exclude(state=AttemptState.ENDED).select_related("allocation")
    )
    live = [attempt for attempt in unended if attempt.state in ATTEMPT_LIVE]
    planned = [attempt for attempt in unended if attempt.state not in ATTEMPT_LIVE]
    if not unended:
        step_job(job, JobEvent.CANCELLED, at=at, actor=actor, ended_at=at)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """What became of many jobs that were to be cancelled together."""

    #: Cancelled, or told to stop.
    jobs: int
    #: That match too, and are left for another request.
    remaining: int


def jobs_to_cancel(viewer: Viewer, jobs: QuerySet[Job]) -> QuerySet[Job]:
    """Return those of the jobs that the viewer may cancel and that are neither over nor being cancelled."""
    jobs = jobs.exclude(state__in=JOB_FINAL).filter(cancelling=False)
    if viewer.is_operator:
        return jobs
    return jobs.filter(tenant_id__in=[one for one in viewer.roles if viewer.may(one, Role.MEMBER)])


def jobs_cancel(*, viewer: Viewer, jobs: QuerySet[Job], most: int | None) -> Cancelled:
    """Cancel all of the jobs that the viewer may cancel; raise Conflict when more than `most` match.

    Those that wait go many at a time, each batch a transaction; then those that run, one by one and only so
    many, since each is a transaction of its own.
    """
    chosen = jobs_to_cancel(viewer, jobs)
    ids = list(chosen.order_by("id").values_list("id", flat=True))
    if most is not None and len(ids) > most:
        raise Conflict(f"{len(ids):,} jobs match by now, not {most:,}: look again before they are cancelled.")
    waiting: set[int] = set()
    for start in range(0, len(ids), _CANCELLED_TOGETHER):
        waiting |= _cancel_waiting(ids[start : start + _CANCELLED_TOGETHER], viewer.actor)
    others = [job_id for job_id in ids if job_id not in waiting]
    for job_id in others[:_RUNNING_CANCELLED]:
        # It may have ended since it was chosen.
        with suppress(Conflict):
            job_cancel(job_id=job_id, actor=viewer.actor)
    now = others[:_RUNNING_CANCELLED]
    return Cancelled(jobs=len(waiting) + len(now), remaining=len(others) - len(now))


@repeated_on_deadlock
@transaction.atomic
def _cancel_waiting(ids: list[int], actor: str) -> set[int]:
    cancelled = cancel_waiting_jobs(ids, actor=actor)
    publish_jobs(cancelled)
    request_round_on_commit()
    return set(cancelled)


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
    """Let a held job be considered again."""
    _set_held(job_id, held=False, kind="job.released", actor=actor)


def _set_held(job_id: int, *, held: bool, kind: str, actor: str) -> None:
    job = lock_jobs([job_id])[job_id]
    _require_unfinished(job)
    if job.held == held:
        return
    if held and job.state != JobState.QUEUED:
        raise Conflict(f"Job {job.id} is running; only a waiting job can be held.")
    # Why the platform held it is over with that.
    touch_job(job, held=held, message="")
    job_event(job, kind, at=database_now(), actor=actor).save()
    publish_jobs([job.id])
    request_round_on_commit()


def _require_unfinished(job: Job) -> None:
    if job.state in JOB_FINAL:
        raise Conflict(f"Job {job.id} has ended already: it {_ENDED_WORDS[JobState(job.state)]}.")


_ENDED_WORDS = {
    JobState.SUCCEEDED: "succeeded",
    JobState.FAILED: "failed",
    JobState.CANCELLED: "was cancelled",
}
