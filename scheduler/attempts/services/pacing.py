"""Keeping what running jobs say of their steps, by which rounds know how long they will run.

An attempt's lines are counted once in `EVERY_SECONDS`, and its last: one write a minute. Trial runs do not
count, since they are on other GPUs than the job will be.
"""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta

from scheduler.attempts.models import Attempt, ProgressPoint
from scheduler.clock import database_now
from scheduler.core.building_blocks.pace import EVERY_SECONDS, Line, Pace
from scheduler.jobs.models import Job
from scheduler.throughputs.services.measuring import partners
from scheduler.wakeups import request_round_on_commit


def pace_note(attempt: Attempt, points: Sequence[ProgressPoint], *, is_last: bool) -> None:
    """Count new progress lines, as soon as it is time. The job is locked by the caller."""
    job = attempt.job
    if attempt.is_trial or attempt.total_steps is None:
        return
    before = pace_of(job) or Pace()
    fresh = [point for point in points if (attempt.id, point.sequence) > (before.attempt, before.sequence)]
    if not fresh:
        return
    goes_on = before.attempt == attempt.id
    steps = [before.step] * goes_on + [point.step for point in fresh]
    # A line that goes back may be made up for by the next one: it is never passed over.
    is_rising = steps == sorted(steps)
    seconds = fresh[-1].at.timestamp() - before.at
    if goes_on and is_rising and not is_last and seconds < EVERY_SECONDS:
        return
    known = _after(before, attempt, fresh, since_seconds=seconds if goes_on else 0.0)
    if known is before:
        return
    job.pace = asdict(known)
    Job.objects.filter(id=job.id).update(pace=job.pace)
    if known.is_trusted(job.gpus) and not before.is_trusted(job.gpus):
        request_round_on_commit()


def pace_of(job: Job) -> Pace | None:
    """Return what is known of a job's steps; None: it has told nothing of them."""
    return None if job.pace is None else Pace(**job.pace)


def _after(known: Pace, attempt: Attempt, points: Sequence[ProgressPoint], *, since_seconds: float) -> Pace:
    allocation, now = attempt.allocation, database_now()
    gpus = sum(map(len, allocation.replicas))
    # By the database's clock, as in a round's facts; lines have that of their node.
    held = now - (allocation.held_at or allocation.created_at)
    service = dict(attempt.job.service)
    service[allocation.gpu_model] = service.get(allocation.gpu_model, 0.0) + held.total_seconds() * gpus
    is_alone = partners(attempt, now - timedelta(seconds=since_seconds)) == []
    for point in points:
        known = known.after(
            Line(
                attempt=attempt.id,
                sequence=point.sequence,
                at=point.at.timestamp(),
                step=point.step,
                total_steps=attempt.total_steps or 0,
                gpu_model=allocation.gpu_model,
                gpus=gpus,
                is_alone=is_alone,
                service=service,
            )
        )
    return known
