"""Input workers: started for an attempt that runs, as many as its trainer asks for, and ended with it.

A worker is a job of its own that serves an attempt (`Job.serves`, decision 0083). Every few seconds each
attempt that has input workers is looked at, and what there is is brought to what there should be. So whatever
ended a worker, it is replaced; and whatever ended the attempt, its workers end.
"""

from contextlib import suppress
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Count, F, Q, QuerySet

from scheduler.core.model.lifecycle import JOB_FINAL, AttemptState, JobState
from scheduler.core.perf.input_workers import ENDED_SOON_MOST, SOON_SECONDS, settled
from scheduler.jobs.attempts.services.steps import lock_jobs
from scheduler.jobs.representations import publish_new_jobs
from scheduler.jobs.services.control import insert_jobs, job_cancel, new_row
from scheduler.jobs.services.submission import jobs_before
from scheduler.jobspec.input_workers import input_worker_of
from scheduler.models.attempts import Attempt, InputPool
from scheduler.models.jobs import Job
from scheduler.wiring.clock import database_now
from scheduler.wiring.wakeups import request_round_on_commit
from tenants.errors import Conflict

ACTOR = "input workers"


def input_workers_match() -> None:
    """Start and end workers, for each attempt in a transaction of its own."""
    for attempt_id, job_id in _differing().values_list("attempt_id", "attempt__job_id"):
        for worker in _match(attempt_id, job_id):
            with suppress(Conflict):  # It ended meanwhile.
                job_cancel(job_id=worker, actor=ACTOR)


def _differing() -> QuerySet[InputPool]:
    """Return the attempts that may have other workers than they should; most have what they should have."""
    kept = Q(attempt__input_workers__cancelling=False) & ~Q(attempt__input_workers__state__in=JOB_FINAL)
    held = Q(attempt__input_workers__held=True)
    counted = InputPool.objects.filter(is_open=True).annotate(
        there=Count("attempt__input_workers", filter=kept & ~held),
        held=Count("attempt__input_workers", filter=kept & held),
    )
    as_they_should = Q(there=F("desired"), requested=F("desired"), held=0, problem="")
    return counted.exclude(as_they_should, attempt__state=AttemptState.RUNNING).order_by("attempt_id")


@transaction.atomic
def _match(attempt_id: int, job_id: int) -> list[int]:
    """Start the workers that an attempt lacks; return the jobs of those that are to end."""
    job = lock_jobs([job_id])[job_id]
    attempt = Attempt.objects.select_related("allocation").get(id=attempt_id)
    pool, now = InputPool.objects.get(attempt_id=attempt_id), database_now()
    workers = list(Job.objects.filter(serves=attempt).exclude(state__in=JOB_FINAL).order_by("id"))
    if attempt.state != AttemptState.RUNNING:
        # It has not begun to run yet, or is over: then it never runs again.
        pool.is_open = bool(workers) or attempt.state == AttemptState.STARTING
        pool.save(update_fields=["is_open"])
        return [worker.id for worker in workers if not worker.cancelling]
    pool.desired = settled(pool.desired, pool.requested, seconds=(now - pool.requested_since).total_seconds())
    # One that is held, as after several of its nodes were lost, would never start.
    held = [worker for worker in workers if worker.held and not worker.cancelling]
    there = [worker for worker in workers if not worker.held and not worker.cancelling]
    # Those that wait first, then the youngest.
    there.sort(key=lambda worker: (worker.state == JobState.QUEUED, worker.id))
    missing = pool.desired - len(there) if _is_heard_of(attempt, pool) else 0
    pool.problem = _start(job, pool, missing, now=now) if missing > 0 else ""
    pool.save(update_fields=["desired", "problem"])
    return [worker.id for worker in (*held, *there[pool.desired :])]


def _is_heard_of(attempt: Attempt, pool: InputPool) -> bool:
    """Whether all ranks have said where they wait: a worker serves all of them, from its start on."""
    return len(pool.trainers) == len(attempt.allocation.replicas)


def _start(job: Job, pool: InputPool, count: int, *, now: datetime) -> str:
    """Submit workers in the name of the job's user; return why not, or "" when they are submitted."""
    problem = _ended_soon(pool) or _no_room(job, count)
    spec = input_worker_of(job.specification)
    if problem or spec is None:
        return problem
    workers = [new_row(spec, job.tenant, job.virtual_cluster, job.submitted_by) for _ in range(count)]
    for worker in workers:
        worker.serves_id, worker.archive_id = pool.attempt_id, job.archive_id
    insert_jobs(workers, actor=ACTOR)
    publish_new_jobs(workers)
    request_round_on_commit()
    return ""


def _ended_soon(pool: InputPool) -> str:
    """Return why no more are started where many ended soon after their start.

    The count begins again when the trainer asks for another number, which it does only when batches come.
    """
    soon = Job.objects.filter(
        Q(started_at=None) | Q(ended_at__lt=F("started_at") + timedelta(seconds=SOON_SECONDS)),
        serves=pool.attempt_id,
        state__in=[JobState.FAILED, JobState.SUCCEEDED],
        ended_at__gt=pool.requested_since,
    )
    last = list(soon.order_by("-id").values_list("id", flat=True)[:ENDED_SOON_MOST])
    if len(last) < ENDED_SOON_MOST:
        return ""
    return (
        f"{len(last)} input workers ended within {SOON_SECONDS:g} s of their start, so no more are started:"
        f" the output of job {last[0]} says why."
    )


def _no_room(job: Job, count: int) -> str:
    most = job.tenant.most_unfinished_jobs
    if most is None:
        most = settings.CONFIG.unfinished_jobs_per_tenant
    before = jobs_before((job.tenant_id, None), count, most=most)
    if before is None:
        return ""
    return (
        f"Tenant {job.tenant.name} has {before:,} unfinished jobs and may have {most:,}, so {count} input"
        f" worker{'s' * (count > 1)} can not be started."
    )
