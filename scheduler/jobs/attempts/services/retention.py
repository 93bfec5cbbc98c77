"""How long all progress lines are kept: a number of days after a job's end.

After that each attempt keeps as many as people are shown, so their curves stay as they were. Jobs that have
not ended keep all: rounds read the losses of every attempt, and work that was lost is found by them.
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta

from django.conf import settings
from django.db.models import OuterRef, QuerySet, Subquery
from django.db.models.lookups import GreaterThanOrEqual, LessThan

from scheduler.models.attempts import Attempt, ProgressPoint, ProgressThinning
from scheduler.models.jobs import Job, or_never
from scheduler.models.selectors.attempts import PROGRESS_POINTS_MOST, evenly_thinned
from scheduler.wiring.clock import database_now
from tenants.housekeeping import in_turn

_JOBS_AT_ONCE = 100


def thin_progress() -> None:
    """Thin the progress lines of jobs that ended long ago, in the order of their ends, each job once."""
    for attempt in in_turn(_to_thin()):
        _thin(attempt)


def _to_thin() -> Iterator[Attempt]:
    """Yield the attempts that may have too many lines; note the jobs whose attempts were all thinned."""
    done, _ = ProgressThinning.objects.get_or_create(id=1)
    while jobs := list(_due(done)[:_JOBS_AT_ONCE]):
        yield from _with_many_lines(jobs)
        done.ended_at, done.job_id = jobs[-1].ended_at, jobs[-1].id
        done.save(update_fields=["ended_at", "job_id"])


def _due(done: ProgressThinning) -> QuerySet[Job]:
    """Return the jobs after the last one that was done, by their ends."""
    ends = or_never("ended_at")
    until = database_now() - timedelta(days=settings.CONFIG.progress_days_kept)
    due = Job.objects.filter(LessThan(ends, until)).order_by(ends, "id").only("id", "ended_at")
    if done.ended_at is None:
        return due
    return due.filter(GreaterThanOrEqual(ends, done.ended_at)).exclude(
        ended_at=done.ended_at, id__lte=done.job_id
    )


def _with_many_lines(jobs: Sequence[Job]) -> list[Attempt]:
    """Return the attempts that may have more lines than they keep, by the number of their last one."""
    lines = ProgressPoint.objects.filter(attempt=OuterRef("id")).order_by("-sequence")
    attempts = Attempt.objects.filter(job__in=jobs).annotate(last=Subquery(lines.values("sequence")[:1]))
    return list(attempts.filter(last__gte=PROGRESS_POINTS_MOST).order_by("id").only("id"))


def _thin(attempt: Attempt) -> None:
    lines = ProgressPoint.objects.filter(attempt=attempt)
    # All at once: thinned in part, and again, the curve would be another one. No one waits for these rows.
    lines.exclude(id__in=evenly_thinned(lines)).delete()
