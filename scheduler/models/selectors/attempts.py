"""Attempts and their progress, for a viewer who may see the job, and which job has its turn on
shared GPUs.
"""

from collections import defaultdict
from collections.abc import Iterable

from django.db.models import F, Max, QuerySet, Window
from django.db.models.functions import Mod, RowNumber

from nodeagent.messages import Turn
from scheduler.core.model.lifecycle import ATTEMPT_LIVE, Outcome
from scheduler.models.attempts import Attempt, ProgressPoint
from scheduler.models.jobs import Job
from tenants.errors import NotFound
from tenants.selectors import Viewer


def attempt_of(job: Job, number: int | None) -> Attempt | None:
    """Return the attempt of that number, the newest one when no number is given; None before the first."""
    attempts = Attempt.objects.filter(job=job)
    if number is None:
        return attempts.order_by("-number").first()
    attempt = attempts.filter(number=number).first()
    if attempt is None:
        newest = attempts.aggregate(newest=Max("number"))["newest"]
        there_are = f"Expected a number from 1 to {newest}" if newest else "It has none yet"
        raise NotFound(f"Job {job.id} has no attempt {number}. {there_are}.")
    return attempt


def failures_visible(viewer: Viewer) -> QuerySet[Attempt]:
    """Return the attempts that failed of the jobs that the viewer may see."""
    failed = Attempt.objects.filter(outcome=Outcome.FAILED)
    return failed if viewer.is_operator else failed.filter(job__tenant_id__in=list(viewer.roles))


#: The most progress lines of a job, or of one attempt, that people are shown.
PROGRESS_POINTS_MOST = 500


def progress_points(job: Job, *, number: int | None) -> list[ProgressPoint]:
    """Return progress points by attempt and step, evenly thinned, newest always included."""
    points = ProgressPoint.objects.filter(attempt__job=job)
    if number is not None:
        points = points.filter(attempt=attempt_of(job, number))
    shown = points.filter(id__in=evenly_thinned(points))
    return list(shown.order_by("attempt__number", "sequence").select_related("attempt"))


def evenly_thinned(points: QuerySet[ProgressPoint]) -> list[int]:
    """Return the ids of at most `PROGRESS_POINTS_MOST` of these points; the newest is one of them.

    The database counts and chooses: a job may have written hundreds of thousands.
    """
    stride = -(-points.count() // PROGRESS_POINTS_MOST)
    if stride <= 1:
        return list(points.values_list("id", flat=True))
    newest_first = [F("attempt__number").desc(), F("sequence").desc()]
    numbered = points.annotate(left_over=Mod(Window(RowNumber(), order_by=newest_first) - 1, stride))
    return list(numbered.filter(left_over=0).values_list("id", flat=True))


def time_slices_of(attempts: Iterable[Attempt]) -> dict[int, Turn]:
    """Return the turns of those attempts that take some, by id; one that is left alone runs all the time.

    All nodes of a gang get the same answer, and by the wall clock that is all they need to agree.
    """
    slices = {
        attempt.allocation_id: attempt.allocation.slice_seconds
        for attempt in attempts
        if attempt.allocation.slice_seconds is not None
    }
    if not slices:
        return {}
    sharing: dict[int, list[int]] = defaultdict(list)
    live = Attempt.objects.filter(allocation__in=slices, state__in=ATTEMPT_LIVE).order_by("id")
    for allocation, attempt in live.values_list("allocation_id", "id"):
        sharing[allocation].append(attempt)
    return {
        attempt: Turn(index=index, count=len(group), seconds=slices[allocation])
        for allocation, group in sharing.items()
        if len(group) > 1
        for index, attempt in enumerate(group)
    }
