"""Hold or cancel a user's jobs when the account is deactivated (decision 0080).

Jobs belong to the tenant, so running jobs go on. No new job starts in the name of a person who may not ask
for it any more: waiting jobs are held until a member of the tenant releases them.
"""

from dataclasses import dataclass

from django.db import transaction
from django.db.models import Count, F, Q, QuerySet

from scheduler.core.model.lifecycle import JOB_FINAL, JobState
from scheduler.jobs.attempts.services.steps import job_event, lock_jobs
from scheduler.jobs.representations import publish_jobs
from scheduler.jobs.services.actions import Action, Changes, jobs_act
from scheduler.models.events import Event
from scheduler.models.jobs import Job
from scheduler.wiring.clock import database_now
from scheduler.wiring.deadlocks import repeated_on_deadlock
from scheduler.wiring.wakeups import request_round_on_commit
from tenants.errors import Conflict, NotFound
from tenants.models import User
from tenants.selectors import Viewer
from tenants.services import user_change

#: Jobs that are held in one transaction.
_HELD_TOGETHER = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaving:
    """What happens to the jobs of a user, in numbers of jobs."""

    #: Go on to their end.
    running: int = 0
    #: Wait, and do not start until they are released.
    held: int = 0
    #: Ended, or being stopped.
    cancelled: int = 0
    #: Not cancelled yet: one request does not cancel all jobs of a user with many; repeat it.
    remaining: int = 0


def leaving_foreseen(*, by: Viewer, username: str, cancel: bool) -> Leaving:
    """Return what `user_deactivate` would do; changes nothing."""
    by.require_operator()
    user = User.objects.filter(username=username).first()
    if user is None:
        raise NotFound(f"There is no user {username!r}.")
    jobs = _unfinished(user)
    if cancel:
        return Leaving(cancelled=jobs.filter(cancelling=False).count())
    # Those that others held are left out, but not those that an earlier call held: this can be repeated.
    held = _waiting(user).filter(Q(held=False, cancelling=False) | Q(held=True, message=_why_held(user)))
    return Leaving(held=held.count(), **jobs.aggregate(running=_RUNNING))


def user_deactivate(*, by: Viewer, username: str, cancel: bool) -> Leaving:
    """End a user's sign-ins and tokens, then hold the waiting jobs, or cancel all that have not ended.

    Safe to repeat: the next call includes jobs that were submitted while the account was being closed.
    """
    by.require_operator()
    if by.user.username == username:
        raise Conflict("You cannot deactivate yourself: another operator can.")
    user = user_change(by=by, username=username, is_active=False)
    if cancel:
        done = jobs_act(viewer=by, action=Action.CANCEL, changes=Changes(), jobs=_unfinished(user), most=None)
        return Leaving(cancelled=done.jobs, remaining=done.remaining)
    waiting = _waiting(user)
    ids = list(waiting.filter(held=False, cancelling=False).order_by("id").values_list("id", flat=True))
    for start in range(0, len(ids), _HELD_TOGETHER):
        _hold(ids[start : start + _HELD_TOGETHER], user, by.actor)
    held = waiting.filter(held=True, message=_why_held(user))
    return Leaving(held=held.count(), **_unfinished(user).aggregate(running=_RUNNING))


_RUNNING = Count("pk", filter=Q(state=JobState.RUNNING))


def _unfinished(user: User) -> QuerySet[Job]:
    # Input workers are not the user's own jobs: they go on and end with the job that they serve.
    return Job.objects.filter(submitted_by=user, serves=None).exclude(state__in=JOB_FINAL)


def _waiting(user: User) -> QuerySet[Job]:
    return _unfinished(user).filter(state=JobState.QUEUED)


def _why_held(user: User) -> str:
    return f"Held because the account of {user.username} is deactivated."


@repeated_on_deadlock
@transaction.atomic
def _hold(ids: list[int], user: User, actor: str) -> None:
    """Hold those of the jobs that still wait."""
    at, why = database_now(), _why_held(user)
    jobs = [job for job in lock_jobs(ids).values() if job.state == JobState.QUEUED and not job.held]
    Job.objects.filter(pk__in=[job.pk for job in jobs]).update(
        held=True, message=why, version=F("version") + 1
    )
    Event.objects.bulk_create([job_event(job, "job.held", at=at, actor=actor, why=why) for job in jobs])
    publish_jobs([job.id for job in jobs])
    request_round_on_commit()
