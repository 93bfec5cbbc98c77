"""The life of an attempt after a round planned it: stop it, believe its nodes' reports, end it.

Every function runs inside the caller's transaction, with the job's row locked (see `steps`).
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from scheduler import stream
from scheduler.attempts.models import Attempt, AttemptPart, PartState, StopCause
from scheduler.attempts.services.backing_off import backed_off
from scheduler.attempts.services.failures import (
    cordon_if_suspect,
    match_site_rules,
    nodes_to_avoid,
    verdict_on,
    verdict_on_loss,
)
from scheduler.attempts.services.holds import promote, release_gpus
from scheduler.attempts.services.lost_work import lost_seconds_at_end
from scheduler.attempts.services.preemption_cost import settle_preemption_cost
from scheduler.attempts.services.steps import attempt_event, step_attempt, step_job, touch_job
from scheduler.attempts.services.trials import trial_passed
from scheduler.clock import database_now
from scheduler.core.failures.retrying import Verdict
from scheduler.core.model.lifecycle import (
    ATTEMPT_LIVE,
    JOB_FINAL,
    AttemptEvent,
    AttemptState,
    JobEvent,
    Outcome,
)
from scheduler.hints import hint_round
from scheduler.jobs.models import Job
from scheduler.jobs.representations import publish_jobs

#: How an attempt ended that was told to stop, by the cause.
_OUTCOME_BY_CAUSE = {
    StopCause.PREEMPTED: Outcome.PREEMPTED,
    StopCause.MIGRATED: Outcome.PREEMPTED,
    StopCause.DRAINED: Outcome.PREEMPTED,
    StopCause.CANCELLED: Outcome.CANCELLED,
    StopCause.TIME_LIMIT: Outcome.FAILED,
    StopCause.PART_FAILED: Outcome.FAILED,
    StopCause.NODE_LOST: Outcome.LOST,
    StopCause.GANG_TIMEOUT: Outcome.LOST,
    StopCause.STUCK: Outcome.FAILED,
    StopCause.IDLE_GPUS: Outcome.FAILED,
    StopCause.TRIAL_OVER: Outcome.SUCCEEDED,
}


def attempt_stop(
    attempt: Attempt,
    *,
    cause: StopCause,
    actor: str,
    message: str = "",
    preempted_by: Iterable[int] = (),
    at: datetime | None = None,
) -> None:
    """Tell an attempt to stop. A planned one ends at once; a live one when its nodes say so."""
    at = at or database_now()
    note = {"stop_cause": cause, "stop_message": message[:500], "preempted_by": list(preempted_by)}
    if attempt.state == AttemptState.PLANNED:
        for name, value in note.items():
            setattr(attempt, name, value)
        Attempt.objects.filter(id=attempt.id).update(**note)
        attempt_end(attempt, outcome=_OUTCOME_BY_CAUSE[cause], at=at, actor=actor)
        return
    if attempt.state == AttemptState.STOPPING:
        # A person's cancel outranks whatever the attempt is stopping for: it must not be queued again.
        if cause == StopCause.CANCELLED and attempt.stop_cause != cause:
            Attempt.objects.filter(id=attempt.id).update(**note)
        return
    step_attempt(
        attempt,
        AttemptEvent.STOP,
        at=at,
        actor=actor,
        why=message,
        data={"cause": str(cause), "preempted_by": list(preempted_by)},
        stopping_at=at,
        **note,
    )
    touch_job(attempt.job)
    _release_exited(attempt, at=at)
    publish_jobs([attempt.job_id])
    stream.wake_nodes(attempt.parts.exclude(state=PartState.EXITED).values_list("node_id", flat=True))


def part_ready(part: AttemptPart, *, master_port: int | None) -> None:
    """A node is ready; when it was the last of the gang, all are told to go."""
    if part.state != PartState.WAITING:
        return
    part.state, part.master_port = PartState.READY, master_port
    part.save(update_fields=["state", "master_port"])
    attempt = part.attempt
    if attempt.state != AttemptState.STARTING or attempt.go:
        return
    parts = list(attempt.parts.select_related("node"))
    if any(other.state != PartState.READY for other in parts):
        return
    master = next(other for other in parts if has_rank_zero(other))
    attempt.go, attempt.master_address, attempt.master_port = True, master.node.address, master.master_port
    attempt.save(update_fields=["go", "master_address", "master_port"])
    stream.wake_nodes([other.node_id for other in parts])


def part_running(part: AttemptPart, *, at: datetime) -> None:
    """A node runs its replicas; the attempt runs when all of its nodes do."""
    if part.state not in (PartState.WAITING, PartState.READY):
        return
    part.state = PartState.RUNNING
    part.save(update_fields=["state"])
    attempt, job = part.attempt, part.attempt.job
    waiting = attempt.parts.filter(state__in=[PartState.WAITING, PartState.READY]).exists()
    if waiting or attempt.state != AttemptState.STARTING:
        return
    step_attempt(attempt, AttemptEvent.RUNNING, at=at, actor=f"node {part.node.name}", running_at=at)
    first = {} if job.started_at else {"started_at": at}
    data = {"is_trial": True} if attempt.is_trial else None
    step_job(job, JobEvent.STARTED, at=at, actor=f"node {part.node.name}", data=data, **first)
    if job.preemptions:
        settle_preemption_cost(job.id)
    publish_jobs([job.id])


def part_exited(
    part: AttemptPart,
    *,
    exit_code: int,
    category: str,
    message: str,
    at: datetime,
    actor: str,
    last_lines: str = "",
) -> None:
    """A node's part is over; the attempt ends with its last part, or is stopped when it can not go on.

    `last_lines`: the end of the output of the replica that failed.
    """
    if part.state == PartState.EXITED:
        return
    part.state, part.exit_code = PartState.EXITED, exit_code
    part.category, part.message = category, message[:500]
    part.save(update_fields=["state", "exit_code", "category", "message"])
    attempt = part.attempt
    if not part.succeeded and attempt.state != AttemptState.STOPPING:
        _keep_first_failure(attempt, part, last_lines)
        # The rest of the gang can not go on without this part.
        cause = StopCause.NODE_LOST if category == "lost" else StopCause.PART_FAILED
        if attempt.parts.exclude(state=PartState.EXITED).exists():
            attempt_stop(attempt, cause=cause, actor=actor, message=message, at=at)
        else:
            attempt.stop_cause = cause
    _release_exited(attempt, at=at)
    if not attempt.parts.exclude(state=PartState.EXITED).exists():
        attempt_end(attempt, outcome=_outcome(attempt), at=at, actor=actor)


def _release_exited(attempt: Attempt, *, at: datetime) -> None:
    """Give back what a stopping gang has left; one that goes on is held whole, as it was granted."""
    if attempt.state == AttemptState.STOPPING:
        for node_id in attempt.parts.filter(state=PartState.EXITED).values_list("node_id", flat=True):
            release_gpus(attempt.allocation, node_id=node_id, at=at)


def _keep_first_failure(attempt: Attempt, part: AttemptPart, last_lines: str) -> None:
    attempt.exit_code, attempt.category, attempt.message = part.exit_code, part.category, part.message
    match_site_rules(attempt, part, last_lines)
    attempt.save(update_fields=["exit_code", "category", "message", "matched_rule"])


def _outcome(attempt: Attempt) -> Outcome:
    # A part that exits 0 because it was told to stop has saved its work, not done it; one that
    # exits 0 by itself is done, even when the order to stop was already on its way.
    if all(part.succeeded for part in attempt.parts.all()):
        return Outcome.SUCCEEDED
    return _OUTCOME_BY_CAUSE[StopCause(attempt.stop_cause)] if attempt.stop_cause else Outcome.FAILED


def attempt_end(attempt: Attempt, *, outcome: Outcome, at: datetime, actor: str) -> None:
    """End the attempt, give back what it still holds, and take the job's next step."""
    job, allocation = attempt.job, attempt.allocation
    was_live = attempt.state in ATTEMPT_LIVE
    if attempt.exit_code is None:
        is_done = outcome == Outcome.SUCCEEDED and not attempt.stop_cause
        attempt.exit_code = 0 if is_done else _first_exit_code(attempt)
    lost_seconds = lost_seconds_at_end(attempt, outcome, at=at)
    if not _is_shared(attempt):
        release_gpus(allocation, at=at)
    step_attempt(
        attempt,
        AttemptEvent.ENDED,
        at=at,
        actor=actor,
        why=attempt.message or attempt.stop_message,
        data={
            "outcome": str(outcome),
            "exit_code": attempt.exit_code,
            "cause": attempt.stop_cause,
            "lost_seconds": lost_seconds,
            "preempted_by": attempt.preempted_by,
        },
        outcome=outcome,
        ended_at=at,
        exit_code=attempt.exit_code,
        stop_cause=attempt.stop_cause,
        lost_seconds=lost_seconds,
    )
    _job_after(job, attempt, outcome, was_live=was_live, at=at, actor=actor)
    if was_live:
        _next_attempt(job, at=at, actor=actor)
    publish_jobs([job.id])
    hint_round()


def _is_shared(attempt: Attempt) -> bool:
    """Whether another job still has, or is to have, the same GPUs."""
    others = Attempt.objects.filter(allocation=attempt.allocation).exclude(id=attempt.id)
    return others.exclude(state=AttemptState.ENDED).exists()


def _next_attempt(job: Job, *, at: datetime, actor: str) -> None:
    """A job that moved has left its old place: it starts in the new one, or needs it no more."""
    for planned in Attempt.objects.filter(job=job, state=AttemptState.PLANNED).select_related("allocation"):
        if job.state in JOB_FINAL:
            planned.job = job
            attempt_end(planned, outcome=Outcome.CANCELLED, at=at, actor=actor)
        else:
            promote(planned.allocation_id, at=at)


def _first_exit_code(attempt: Attempt) -> int | None:
    codes = attempt.parts.exclude(exit_code=None).order_by("id").values_list("exit_code", flat=True)
    return next((code for code in codes if code), None)


def _job_after(
    job: Job, attempt: Attempt, outcome: Outcome, *, was_live: bool, at: datetime, actor: str
) -> None:
    final = {"ended_at": at, "exit_code": attempt.exit_code}
    received = dict(job.service)
    if was_live:
        seconds = (at - (attempt.starting_at or at)).total_seconds()
        received[attempt.allocation.gpu_model] = (
            received.get(attempt.allocation.gpu_model, 0.0) + seconds * attempt.allocation.gpu_count
        )
    has_succeeded = outcome == Outcome.SUCCEEDED and not attempt.is_trial
    if job.cancelling and not has_succeeded:
        step_job(job, JobEvent.CANCELLED, at=at, actor=actor, service=received, cancelling=False, **final)
    elif has_succeeded:
        step_job(job, JobEvent.SUCCEEDED, at=at, actor=actor, service=received, cancelling=False, **final)
    elif outcome == Outcome.SUCCEEDED:
        trial_passed(job, attempt, received, at=at, actor=actor)
    elif outcome == Outcome.FAILED:
        _after_failure(job, attempt, received, was_live=was_live, at=at, actor=actor)
    elif was_live:
        interrupted = _after_preemption if outcome == Outcome.PREEMPTED else _after_loss
        columns, why = interrupted(job, attempt, at=at)
        step_job(job, JobEvent.REQUEUED, at=at, actor=actor, why=why, service=received, **columns)
    else:
        touch_job(job)


def _after_preemption(job: Job, attempt: Attempt, *, at: datetime) -> tuple[dict, str]:
    """Return the columns of a job that change when it is preempted, and why it was."""
    columns: dict = {"preemptions": job.preemptions + 1}
    if attempt.stop_cause == StopCause.PREEMPTED:
        columns |= backed_off(job, attempt, at=at)
    return columns, attempt.stop_message or attempt.message


def _after_loss(job: Job, attempt: Attempt, *, at: datetime) -> tuple[dict, str]:
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
    job: Job, attempt: Attempt, received: dict, *, was_live: bool, at: datetime, actor: str
) -> None:
    """Try a job that failed again where that is worth while, later and perhaps elsewhere."""
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
    columns: dict = {"service": received, "failures": job.failures + 1}
    if was_live and verdict is not None and verdict.retry:
        columns["eligible_at"] = at + timedelta(seconds=verdict.after_seconds)
        if verdict.avoid_node:
            columns["avoid_nodes"] = nodes_to_avoid(job, attempt)
        why = _sentence(message, attempt, verdict)
        step_job(job, JobEvent.REQUEUED, at=at, actor=actor, why=why, **columns)
    else:
        why = message if verdict is None else _sentence(message, attempt, verdict)
        final = {"ended_at": at, "exit_code": attempt.exit_code, "message": message}
        step_job(job, JobEvent.FAILED, at=at, actor=actor, why=why, **columns, **final)


def _sentence(message: str, attempt: Attempt, verdict: Verdict) -> str:
    advice = (attempt.matched_rule or {}).get("advice")
    said = f"{message.rstrip('.')}. {advice}" if advice else message
    return f"{said} It is {'' if verdict.retry else 'not '}tried again: {verdict.why}."


def has_rank_zero(part: AttemptPart) -> bool:
    return any(replica["rank"] == 0 for replica in part.replicas)
