"""The next state of a job when one of its attempts has ended: its row.

The attempt may be a trial run: one replica of the job on a few GPUs, before the whole gang gets the GPUs that
it asks for. Most jobs that fail do so soon and by their own doing. A trial prevents a large gang from finding
this out only after it has waited a day and other jobs were stopped for it. While a trial is due, `Job.shape`
has what the trial needs, so rounds see a small job only. A trial is over when it has reported a step, has run
for as long as its job says, or has succeeded. A failed trial is a failure of the job like any other.
"""

import json
from datetime import datetime, timedelta
from typing import Any

from scheduler.core.failures.retrying import Verdict
from scheduler.core.model.attempts import EndJob, JobAfter, job_after
from scheduler.core.model.lifecycle import GOES_ON_AT_ONCE, JobEvent, StopCause
from scheduler.core.round.preemption_limits.backoff import after_preemption
from scheduler.jobs.attempts.services.failures import (
    cordon_if_suspect,
    nodes_to_avoid,
    verdict_on,
    verdict_on_loss,
)
from scheduler.jobs.attempts.services.steps import attempt_event, step_job, touch_job
from scheduler.models.attempts import Attempt
from scheduler.models.cluster import ClusterSettings
from scheduler.models.jobs import Job
from scheduler.models.virtual_clusters import PreemptionLimits


def job_step_after(job: Job, attempt: Attempt, end: EndJob, *, at: datetime, actor: str) -> None:
    """Take the step of the job that follows from the recorded end of its attempt."""
    received = _received(job, attempt, was_live=end.was_live, at=at)
    done: dict[str, Any] = {
        "service": received,
        "cancelling": False,
        "ended_at": at,
        "exit_code": attempt.exit_code,
    }
    match job_after(end, is_trial=attempt.is_trial, cancelling=job.cancelling):
        case JobAfter.CANCELLED:
            step_job(job, JobEvent.CANCELLED, at=at, actor=actor, **done)
        case JobAfter.SUCCEEDED:
            step_job(job, JobEvent.SUCCEEDED, at=at, actor=actor, **done)
        case JobAfter.TRIAL_PASSED:
            _trial_passed(job, attempt, received, at=at, actor=actor)
        case JobAfter.FAILED:
            _after_failure(job, attempt, received, was_live=end.was_live, at=at, actor=actor)
        case JobAfter.PREEMPTED | JobAfter.LOST as after:
            interrupted = _after_preemption if after is JobAfter.PREEMPTED else _after_loss
            columns, why = interrupted(job, attempt, at=at)
            step_job(job, JobEvent.REQUEUED, at=at, actor=actor, why=why, service=received, **columns)
        case JobAfter.UNCHANGED:
            touch_job(job)


def _received(job: Job, attempt: Attempt, *, was_live: bool, at: datetime) -> dict[str, float]:
    """Return the GPU-seconds that the job has had, by GPU model."""
    received, allocation = dict(job.service), attempt.allocation
    if was_live and allocation.gpu_count:
        seconds = (at - (attempt.starting_at or at)).total_seconds()
        received[allocation.gpu_model] = (
            received.get(allocation.gpu_model, 0.0) + seconds * allocation.gpu_amount
        )
    return received


def _trial_passed(
    job: Job, attempt: Attempt, received: dict[str, float], *, at: datetime, actor: str
) -> None:
    """Queue the job itself, after its trial is over. `received`: its service until now."""
    ran = (at - (attempt.running_at or at)).total_seconds()
    step_job(
        job,
        JobEvent.REQUEUED,
        at=at,
        actor=actor,
        why=f"Its trial run of {ran:.0f} s went well: now it waits for all of its {job.gpus} GPUs.",
        shape=json.loads(job.needs.after_trial),
        service=received,
    )


def _after_preemption(job: Job, attempt: Attempt, *, at: datetime) -> tuple[dict[str, Any], str]:
    """Return the columns of a job that change when it is preempted, and the reason."""
    columns: dict[str, Any] = {}
    if attempt.stop_cause not in GOES_ON_AT_ONCE:
        columns["preemptions"] = job.preemptions + 1
    if attempt.stop_cause == StopCause.PREEMPTED:
        columns |= _backed_off(job, attempt, at=at)
    return columns, attempt.stop_message or attempt.message


def _backed_off(job: Job, attempt: Attempt, *, at: datetime) -> dict[str, Any]:
    """Return the columns that state when a preempted job may borrow again.

    A job that had not run for long enough waits for a while.
    """
    chosen = (
        PreemptionLimits.objects.filter(virtual_cluster_id=job.virtual_cluster_id).first()
        or PreemptionLimits()
    )
    bounds = ClusterSettings.objects.filter(id=1).first() or ClusterSettings()
    ran = (attempt.stopping_at or at) - (attempt.starting_at or at)
    short_runs, waits = after_preemption(
        job.short_runs,
        ran_seconds=ran.total_seconds(),
        least_seconds=chosen.min_run_seconds,
        first_wait=bounds.backoff_seconds,
        longest_wait=bounds.most_backoff_seconds,
    )
    return {
        "short_runs": short_runs,
        "may_borrow_at": at + timedelta(seconds=waits) if short_runs else None,
    }


def _after_loss(job: Job, attempt: Attempt, *, at: datetime) -> tuple[dict[str, Any], str]:
    """Return the columns of a job that change when an attempt of it is lost, and what that means."""
    loss, why = verdict_on_loss(job, attempt, at=at), attempt.stop_message or attempt.message
    if loss.is_held:
        held = f"It is held: {loss.in_a_row} attempts in a row were lost. Release it to try once more."
        return {"held": True, "message": held}, f"{why} {held}".strip()
    if loss.wait_seconds:
        waits = f"{loss.in_a_row} attempts in a row were lost; it waits {loss.wait_seconds:g} s."
        return {"eligible_at": at + timedelta(seconds=loss.wait_seconds)}, f"{why} {waits}".strip()
    return {}, why


def _after_failure(
    job: Job, attempt: Attempt, received: dict[str, float], *, was_live: bool, at: datetime, actor: str
) -> None:
    """Try a failed job again where that is worthwhile, later and perhaps elsewhere."""
    message = attempt.message or attempt.stop_message
    if attempt.is_trial:
        attempt_event(attempt, "attempt.trial_failed", at=at, actor=actor, why=message).save()
        message = f"In its trial run: {message}"
    message = message[:500]
    verdict = verdict_on(job, attempt)
    if verdict is not None:
        attempt.failure = verdict.name
        Attempt.objects.filter(id=attempt.id).update(failure=verdict.name)
    cordon_if_suspect(attempt, at=at)
    columns: dict[str, Any] = {"service": received, "failures": job.failures + 1}
    if was_live and verdict is not None and verdict.retry:
        columns["eligible_at"] = at + timedelta(seconds=verdict.after_seconds)
        if verdict.avoid_node:
            columns["avoid_nodes"] = nodes_to_avoid(job, attempt)
        why = _sentence(message, attempt, verdict)
        step_job(job, JobEvent.REQUEUED, at=at, actor=actor, why=why, **columns)
    else:
        why = message if verdict is None else _sentence(message, attempt, verdict)
        final: dict[str, Any] = {"ended_at": at, "exit_code": attempt.exit_code, "message": message}
        step_job(job, JobEvent.FAILED, at=at, actor=actor, why=why, **columns, **final)


def _sentence(message: str, attempt: Attempt, verdict: Verdict) -> str:
    advice = (attempt.matched_rule or {}).get("advice")
    # The last line of a job's own output need not end as a sentence does.
    ended = message if message.endswith((".", "!", "?")) else f"{message}."
    said = f"{ended} {advice}" if advice else ended
    return f"{said} It is {'' if verdict.retry else 'not '}tried again: {verdict.why}."
