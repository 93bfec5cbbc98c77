"""Who waits in a view after its round, in order."""

from __future__ import annotations

from scheduler.core.model.snapshot import JobId
from scheduler.core.round.run_view import ViewOutcome


def queue_of(outcome: ViewOutcome) -> tuple[JobId, ...]:
    """Return the view's waiting jobs in the order in which they will be considered."""
    placed = outcome.kept
    placed.update(job for position in outcome.placements for job in outcome.decision.grants[position].jobs)
    named = [job for job in outcome.decision.queue if job not in placed]
    rest = {job.id: job for job in outcome.view.jobs.values() if job.id not in placed}
    for job in named:
        rest.pop(job, None)
    others = sorted(rest.values(), key=lambda job: (-job.priority, job.submitted_at, job.id))
    return (*named, *(job.id for job in others))
