"""Actions on many jobs at once: cancel, hold, release, requeue, change their priority and labels.

Jobs that already are as the action would leave them do not match it. So a repeated request goes on where
the first one ended.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from scheduler.core.model.lifecycle import JOB_FINAL, AttemptState, JobState
from scheduler.jobs.attempts.services.steps import cancel_waiting_jobs
from scheduler.jobs.representations import publish_jobs
from scheduler.jobs.services.changing import job_change
from scheduler.jobs.services.control import job_cancel, job_hold, job_release
from scheduler.jobs.services.requeueing import job_requeue
from scheduler.models.attempts import Attempt
from scheduler.models.jobs import Job
from scheduler.wiring.deadlocks import repeated_on_deadlock
from scheduler.wiring.wakeups import request_round_on_commit
from tenants.errors import ApplicationError, Conflict, Invalid
from tenants.models import Role
from tenants.selectors import Viewer

#: Jobs that one request changes one by one: each is a transaction of its own.
MOST_AT_ONCE = 200
#: Jobs that wait and are cancelled in one transaction.
_CANCELLED_TOGETHER = 1_000
#: The most unchanged jobs of an answer, with the reason of each.
_MOST_REFUSALS = 20
_STARTED = (AttemptState.STARTING, AttemptState.RUNNING)


class Action(StrEnum):
    CANCEL = "cancel"
    HOLD = "hold"
    RELEASE = "release"
    REQUEUE = "requeue"
    UPDATE = "update"


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What `Action.UPDATE` sets; it removes labels without a value, and keeps the other labels."""

    priority: int | None = None
    labels: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def set_labels(self) -> dict[str, str]:
        return {name: value for name, value in self.labels.items() if value is not None}

    @property
    def removed_labels(self) -> list[str]:
        return [name for name, value in self.labels.items() if value is None]

    def of(self, job: Job) -> dict[str, Any]:
        """Return the fields of the job's specification that differ, with their new values."""
        changes: dict[str, Any] = {}
        if self.priority is not None:
            changes["priority"] = self.priority
        if self.labels:
            kept = {name: value for name, value in job.labels.items() if name not in self.labels}
            changes["labels"] = kept | self.set_labels
        return changes


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A job that was not changed, and why."""

    job: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    #: Done, or under way.
    jobs: int
    #: Matching jobs that are left for another request.
    remaining: int
    refused: tuple[Refusal, ...] = ()


def jobs_open_to(action: Action, changes: Changes, jobs: QuerySet[Job], viewer: Viewer) -> QuerySet[Job]:
    """Return those of the jobs that the viewer may change and that the action would change."""
    if not viewer.is_operator:
        jobs = jobs.filter(tenant_id__in=[one for one in viewer.roles if viewer.may(one, Role.MEMBER)])
    jobs = jobs.exclude(state__in=JOB_FINAL).filter(cancelling=False)
    match action:
        case Action.CANCEL:
            return jobs
        case Action.HOLD:
            return jobs.filter(state=JobState.QUEUED, held=False)
        case Action.RELEASE:
            return jobs.filter(held=True)
        case Action.REQUEUE:
            started = Attempt.objects.filter(job=OuterRef("pk"))
            return jobs.filter(Exists(started.filter(state__in=_STARTED)))
        case Action.UPDATE:
            differs = Q(pk__in=[])
            if changes.priority is not None:
                differs |= ~Q(priority=changes.priority)
            if changes.set_labels:
                differs |= ~Q(labels__contains=changes.set_labels)
            if changes.removed_labels:
                differs |= Q(labels__has_any_keys=changes.removed_labels)
            return jobs.filter(differs)


def jobs_act(
    *, viewer: Viewer, action: Action, changes: Changes, jobs: QuerySet[Job], most: int | None
) -> Outcome:
    """Carry an action out on the jobs that it would change, at most `MOST_AT_ONCE` of them one by one.

    Raises Conflict when more than `most` match, and Invalid for changes that no job can have.
    """
    ids = list(jobs_open_to(action, changes, jobs, viewer).order_by("id").values_list("id", flat=True))
    if most is not None and len(ids) > most:
        raise Conflict(f"{len(ids):,} jobs match now, not {most:,}. Look again, then repeat it.")
    at_once: set[int] = set()
    if action is Action.CANCEL:
        for start in range(0, len(ids), _CANCELLED_TOGETHER):
            at_once |= _cancel_waiting(ids[start : start + _CANCELLED_TOGETHER], viewer.actor)
    others = [job_id for job_id in ids if job_id not in at_once]
    refused = _one_by_one(others[:MOST_AT_ONCE], _act_of(action, changes, viewer))
    return Outcome(
        jobs=len(at_once) + len(others[:MOST_AT_ONCE]) - len(refused),
        remaining=len(others[MOST_AT_ONCE:]),
        refused=tuple(refused[:_MOST_REFUSALS]),
    )


def _act_of(action: Action, changes: Changes, viewer: Viewer) -> Callable[[int], None]:
    def update(job_id: int) -> None:
        job = Job.objects.select_related("tenant").get(id=job_id)
        job_change(viewer=viewer, job=job, changes=changes.of(job))

    if action is Action.UPDATE:
        return update
    services = {
        Action.CANCEL: job_cancel,
        Action.HOLD: job_hold,
        Action.RELEASE: job_release,
        Action.REQUEUE: job_requeue,
    }
    return lambda job_id: services[action](job_id=job_id, actor=viewer.actor)


def _one_by_one(ids: list[int], act: Callable[[int], None]) -> list[Refusal]:
    refused: list[Refusal] = []
    for job_id in ids:
        try:
            act(job_id)
        except ApplicationError as error:
            about = {one.field.partition(".")[0] for one in error.fields}
            is_about_changes = not about.isdisjoint([each.name for each in fields(Changes)])
            if isinstance(error, Invalid) and job_id == ids[0] and is_about_changes:
                # Values that are wrong for one job are wrong for all. Nothing was changed yet.
                raise
            # Most ended since they were chosen.
            refused.append(Refusal(job=job_id, message=error.message))
    return refused


@repeated_on_deadlock
@transaction.atomic
def _cancel_waiting(ids: list[int], actor: str) -> set[int]:
    cancelled = cancel_waiting_jobs(ids, actor=actor)
    publish_jobs(cancelled)
    request_round_on_commit()
    return set(cancelled)
