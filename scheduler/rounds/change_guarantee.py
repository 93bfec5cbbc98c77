"""Make guarantees lapse and return: a job goes on where it is, as an opportunistic or guaranteed one."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from scheduler.core.model.lifecycle import AttemptState
from scheduler.core.model.plan import Action
from scheduler.core.model.snapshot import AllocationId
from scheduler.core.round.reserve import SPARE
from scheduler.jobs.attempts.services.steps import job_event, touch_job
from scheduler.jobs.representations import publish_jobs
from scheduler.models.attempts import Allocation, Attempt
from scheduler.models.events import Event

LAPSED = "guarantee.lapsed"
RETURNED = "guarantee.returned"


def problem_with_regrade(action: Action, attempts: Mapping[AllocationId, Sequence[Attempt]]) -> str | None:
    """Return why an action cannot be carried out any more, None when it can."""
    assert action.allocation is not None
    there = attempts.get(action.allocation, ())
    if {attempt.job_id for attempt in there if attempt.state != AttemptState.STOPPING} != set(action.jobs):
        return f"allocation {action.allocation} is no longer what these jobs run on"
    if there[0].allocation.guaranteed == action.guaranteed:
        return f"allocation {action.allocation} is so already"
    return None


def change_guarantee(action: Action, attempts: Collection[Attempt], *, at: datetime, actor: str) -> None:
    """Store the allocation's new kind, with an event for its jobs; their rows are locked."""
    assert action.allocation is not None
    view = action.virtual_cluster if action.guaranteed else SPARE
    Allocation.objects.filter(id=action.allocation).update(guaranteed=action.guaranteed, view=view)
    data = {"cause": action.cause, "virtual_cluster": action.virtual_cluster}
    for attempt in attempts:
        touch_job(attempt.job)
    Event.objects.bulk_create(
        job_event(
            attempt.job,
            RETURNED if action.guaranteed else LAPSED,
            at=at,
            actor=actor,
            why=action.message,
            data={**data, "attempt": attempt.number},
        )
        for attempt in attempts
    )
    publish_jobs(action.jobs)
