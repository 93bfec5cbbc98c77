"""How much work is lost when an attempt is stopped before its job is done.

Known are the attempt's progress lines. At its end, whatever it did after the last one is counted as lost,
which is right to a line for a job that saves its state when it is told to stop. Where the next attempt goes
on from says how much it really was, and then that is written instead.
"""

from datetime import datetime

from scheduler.attempts.models import Attempt, ProgressPoint
from scheduler.attempts.services.preemption_cost import settle_preemption_cost
from scheduler.core.model.lifecycle import Outcome

_INTERRUPTED = frozenset({Outcome.PREEMPTED, Outcome.LOST})


def lost_seconds_at_end(attempt: Attempt, outcome: Outcome, *, at: datetime) -> float | None:
    """Return the seconds between the last progress line, or the start, and the order to stop.

    None for an attempt that never ran, or whose end was its own.
    """
    if outcome not in _INTERRUPTED or attempt.running_at is None:
        return None
    newest = ProgressPoint.objects.filter(attempt=attempt).order_by("-sequence").first()
    return _seconds_after(attempt, newest, attempt.stopping_at or at)


def settle_lost_work(attempt: Attempt, first: ProgressPoint) -> None:
    """Correct what the attempt before this one lost, now that this one has said from where it goes on.

    It says so by `restored_step`; else its first line is about the first step it did itself.
    """
    interrupted = Attempt.objects.filter(job_id=attempt.job_id, number__lt=attempt.number)
    before = interrupted.exclude(running_at=None).order_by("-number").first()
    if before is None or before.lost_seconds is None:
        return
    restored_step = first.values.get("restored_step", first.step - 1)
    kept = ProgressPoint.objects.filter(attempt=before, step__lte=restored_step).order_by("-sequence").first()
    until = before.stopping_at or before.ended_at
    if until is not None:
        Attempt.objects.filter(id=before.id).update(lost_seconds=_seconds_after(before, kept, until))
        settle_preemption_cost(attempt.job_id)


def _seconds_after(attempt: Attempt, kept: ProgressPoint | None, until: datetime) -> float:
    began = attempt.running_at or until
    # A node's clock may be ahead of the database's, or behind.
    since = began if kept is None else max(kept.at, began)
    return round(max((until - since).total_seconds(), 0.0), 3)
