"""Input workers: started for an attempt that runs, as many as its trainer asks for, and ended with it.

A worker is a job of its own that serves an attempt (`Job.serves`, decision 0083). Every few seconds each
attempt that has input workers is checked, and their number is brought to what it should be. So whatever ended
a worker, it is replaced; and whatever ended the attempt, its workers end. Attempts that follow one stream
have their workers together (decision 0098): the largest number that one of them wants. These serve the oldest
of the attempts until it ends, and then the next.
"""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Count, F, Q, QuerySet

from scheduler.core.model import wording
from scheduler.core.model.lifecycle import JOB_FINAL, AttemptState, JobState
from scheduler.core.perf.input_workers import ENDED_SOON_MOST, SOON_SECONDS, settled
from scheduler.jobs.attempts.services.steps import lock_jobs
from scheduler.jobs.representations import publish_new_jobs
from scheduler.jobs.services.control import insert_jobs, job_cancel, new_row
from scheduler.jobs.services.submission import jobs_before
from scheduler.jobspec.input_workers import input_worker_of
from scheduler.models.attempts import Attempt, InputPool
from scheduler.models.jobs import Job
from scheduler.models.selectors.jobs import serves_stream
from scheduler.wiring.clock import database_now
from scheduler.wiring.sweeps import for_each
from scheduler.wiring.wakeups import request_round_on_commit
from tenants.errors import Conflict

ACTOR = "input workers"


def input_workers_match() -> None:
    """Start and end workers, for each attempt and each stream in a transaction of its own."""
    differing = list(_differing().values_list("attempt_id", "attempt__job_id", "stream"))
    alone = [(attempt_id, job_id) for attempt_id, job_id, stream in differing if not stream]
    for_each("the input workers of (attempt, job)", alone, lambda of: _end(_match(*of)))
    streams = sorted({stream for _, _, stream in differing if stream})
    for_each("the input workers of stream", streams, lambda stream: _end(_match_stream(stream)))


def _end(workers: Sequence[int]) -> None:
    for worker in workers:
        with suppress(Conflict):  # It ended meanwhile.
            job_cancel(job_id=worker, actor=ACTOR)


def _differing() -> QuerySet[InputPool]:
    """Return the attempts that may have other workers than they should; most have what they should have.

    All that follow a stream are among them, for each is one of several.
    """
    kept = Q(attempt__input_workers__cancelling=False) & ~Q(attempt__input_workers__state__in=JOB_FINAL)
    held = Q(attempt__input_workers__held=True)
    counted = InputPool.objects.filter(is_open=True).annotate(
        there=Count("attempt__input_workers", filter=kept & ~held),
        held=Count("attempt__input_workers", filter=kept & held),
    )
    as_they_should = Q(there=F("desired"), requested=F("desired"), held=0, problem="")
    return counted.exclude(as_they_should, stream="", attempt__state=AttemptState.RUNNING).order_by(
        "attempt_id"
    )


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
    pool.desired = _settled(pool, now=now)
    there, surplus = _kept(workers, pool.desired)
    missing = pool.desired - there if _is_heard_of(attempt, pool) else 0
    pool.problem = _start(job, [pool], missing) if missing > 0 else ""
    pool.save(update_fields=["desired", "problem"])
    return surplus


@transaction.atomic
def _match_stream(stream: str) -> list[int]:
    """Do for all attempts that follow a stream what `_match` does for one."""
    ids = InputPool.objects.filter(stream=stream, is_open=True).values_list("attempt__job_id", flat=True)
    jobs = lock_jobs(list(ids))
    pools = list(
        InputPool.objects.filter(stream=stream, is_open=True, attempt__job_id__in=jobs)
        .select_related("attempt__allocation")
        .order_by("attempt_id")
    )
    running = [pool for pool in pools if pool.attempt.state == AttemptState.RUNNING]
    workers = list(Job.objects.filter(serves_stream(stream)).exclude(state__in=JOB_FINAL).order_by("id"))
    over = [pool.attempt_id for pool in pools if pool.attempt.state not in _NOT_OVER]
    if not running:
        # An attempt that waits for its first worker keeps none, and the pools are checked until the last has
        # ended.
        if not workers:
            InputPool.objects.filter(attempt_id__in=over).update(is_open=False)
        return [worker.id for worker in workers if not worker.cancelling]
    InputPool.objects.filter(attempt_id__in=over).update(is_open=False)
    following = [pool.attempt_id for pool in running]
    Job.objects.filter(id__in=[worker.id for worker in workers]).exclude(serves_id__in=following).update(
        serves_id=following[0]
    )
    now = database_now()
    for pool in running:
        pool.desired = _settled(pool, now=now)
    desired = max(pool.desired for pool in running)
    there, surplus = _kept(workers, desired)
    heard_of = [pool for pool in running if _is_heard_of(pool.attempt, pool)]
    missing = desired - there
    problem = _start(jobs[heard_of[0].attempt.job_id], heard_of, missing) if heard_of and missing > 0 else ""
    for pool in running:
        pool.problem = problem
    InputPool.objects.bulk_update(running, ["desired", "problem"])
    return surplus


_NOT_OVER = (AttemptState.STARTING, AttemptState.RUNNING)


def _settled(pool: InputPool, *, now: datetime) -> int:
    return settled(pool.desired, pool.requested, seconds=(now - pool.requested_since).total_seconds())


def _kept(workers: Sequence[Job], desired: int) -> tuple[int, list[int]]:
    """Return how many workers are of use, and which are to end."""
    # One that is held, as after several of its nodes were lost, would never start.
    held = [worker for worker in workers if worker.held and not worker.cancelling]
    there = [worker for worker in workers if not worker.held and not worker.cancelling]
    # Those that wait first, then the youngest.
    there.sort(key=lambda worker: (worker.state == JobState.QUEUED, worker.id))
    return len(there), [worker.id for worker in (*held, *there[desired:])]


def _is_heard_of(attempt: Attempt, pool: InputPool) -> bool:
    """Whether all ranks have reported where they wait: a worker serves all of them, from its start on."""
    return len(pool.trainers) == len(attempt.allocation.replicas)


def _start(job: Job, pools: Sequence[InputPool], count: int) -> str:
    """Submit workers in the name of the job's user, which serve the first of the pools' attempts.

    Return why not, or "" when they are submitted.
    """
    pool = pools[0]
    served = serves_stream(pool.stream) if pool.stream else Q(serves=pool.attempt_id)
    since = max(each.requested_since for each in pools)
    problem = _ended_soon(served, since) or _no_room(job, count)
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


def _ended_soon(served: Q, since: datetime) -> str:
    """Return why no more are started, if many ended soon after their start.

    The count begins again when the trainer asks for another number, which it does only when batches come.
    """
    soon = Job.objects.filter(
        Q(started_at=None) | Q(ended_at__lt=F("started_at") + timedelta(seconds=SOON_SECONDS)),
        served,
        state__in=[JobState.FAILED, JobState.SUCCEEDED],
        ended_at__gt=since,
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
        f"Tenant {job.tenant.name} has {wording.counted(before, 'unfinished job')} and may have {most:,}, so"
        f" {count} input worker{'s' * (count > 1)} cannot be started."
    )
