"""Queueing a running job again."""

from django.db import transaction

from scheduler.core.model.lifecycle import JOB_FINAL, AttemptState, StopCause
from scheduler.jobs.attempts.services.lifecycle import attempt_stop
from scheduler.jobs.attempts.services.steps import lock_jobs
from scheduler.jobs.representations import publish_jobs
from scheduler.models.attempts import Attempt
from scheduler.wiring.clock import database_now
from scheduler.wiring.deadlocks import repeated_on_deadlock
from scheduler.wiring.wakeups import request_round_on_commit
from tenants.audit.entries import record
from tenants.errors import Conflict


@repeated_on_deadlock
@transaction.atomic
def job_requeue(*, job_id: int, actor: str) -> None:
    """Stop a job's attempts as a preemption would, checkpoint included, and queue the job again.

    Raises Conflict for a job that has no GPUs: one that waits, has ended, or is being cancelled.
    """
    job = lock_jobs([job_id])[job_id]
    if job.state in JOB_FINAL:
        raise Conflict(f"Job {job.id} has ended already. Submit its specification again.")
    if job.cancelling:
        raise Conflict(f"Job {job.id} is being cancelled.")
    attempts = Attempt.objects.filter(job=job, state__in=[AttemptState.STARTING, AttemptState.RUNNING])
    attempt = attempts.select_related("allocation").first()
    if attempt is None:
        raise Conflict(f"Job {job.id} does not run, so it cannot be requeued.")
    attempt.job = job
    message = f"Requeued by {actor}."
    attempt_stop(attempt, cause=StopCause.PREEMPTED, actor=actor, message=message, at=database_now())
    record("job.requeue", object_kind="job", object_id=job.id, subject=job.name, tenant=job.tenant)
    publish_jobs([job.id])
    request_round_on_commit()
