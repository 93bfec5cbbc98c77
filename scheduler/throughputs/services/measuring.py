"""How fast running attempts are, by their progress lines, window by window, for all jobs of their job class.

- What an attempt does in its first `WARM_UP_SECONDS` of progress does not count: it loads and compiles.
- A window lasts `WINDOW_SECONDS` or a little longer, so that an attempt causes at most one write a minute; at
  its end the rest counts if it is at least `LEAST_SECONDS`.
- A window that was shared with one other job throughout is recorded beside that partner, relative to the
  throughput alone, which must be known. One that was shared in part, or with several, says nothing.
- A job that tells steps and no samples has no throughput. Beside a partner its steps are measured all the
  same: relative to its own alone on that GPU model, as `pace` timed them for at least `LEAST_ALONE_SECONDS`.
- A rate that is 0, negative, not finite, absurd, or a million times off what is on record says nothing.
"""

import logging
from datetime import datetime, timedelta

from django.db.models import Count

from scheduler.attempts.models import Attempt, ProgressPoint
from scheduler.clock import database_now
from scheduler.core.building_blocks.pace import Pace
from scheduler.core.perf.throughput import (
    JobClass,
    MovingAverage,
    Setting,
    job_class_of,
    problem_with,
    too_far_apart,
)
from scheduler.jobs.models import Job
from scheduler.nodes.models import Gpu
from scheduler.throughputs.models import SpeedMeasurement
from scheduler.throughputs.services.on_record import read_estimator

WARM_UP_SECONDS = 10.0
WINDOW_SECONDS = 60.0
LEAST_SECONDS = 10.0
LEAST_ALONE_SECONDS = 60.0
#: Of a tenant: the one measured longest ago makes room. Jobs that are all named differently make as many.
MOST_SETTINGS_PER_TENANT = 1_000
#: Of what is measured no more.
KEPT = timedelta(days=90)

_logger = logging.getLogger(__name__)


def measure(attempt: Attempt, newest: ProgressPoint, *, is_last: bool) -> None:
    """Record the window that ends with the newest progress line, if one does; sets `attempt.measured_at`."""
    tells_samples = newest.samples is not None
    if not tells_samples and not attempt.allocation.attempts.exclude(id=attempt.id).exists():
        return
    begin = _begin(attempt, tells_samples=tells_samples)
    if begin is None:
        return
    attempt.measured_at = begin.at
    seconds = (newest.at - begin.at).total_seconds()
    if seconds < (LEAST_SECONDS if is_last else WINDOW_SECONDS):
        return
    attempt.measured_at = newest.at
    rate = (_count(newest) - _count(begin)) / seconds
    if rate <= 0 or problem_with(rate):
        return
    now = database_now()
    beside = partners(attempt, now - timedelta(seconds=seconds))
    if beside is None or len(beside) > 1:
        return
    if tells_samples:
        _record(attempt, rate, beside, now)
    elif beside and (alone := _steps_alone(attempt)):
        _record(attempt, rate, beside, now, alone=alone)


def prune_measurements() -> None:
    """Forget what has not been measured for long."""
    SpeedMeasurement.objects.filter(updated_at__lt=database_now() - KEPT).delete()


def fewest_nodes(replicas: list[int], node_gpus: int) -> int:
    """Return on how many nodes of so many GPUs replicas of these sizes fit: first fit, the largest first."""
    room: list[int] = []
    for size in sorted(replicas, reverse=True):
        place = next((place for place, left in enumerate(room) if left >= size), None)
        if place is None:
            room.append(max(node_gpus, size) - size)
        else:
            room[place] -= size
    return len(room)


def _begin(attempt: Attempt, *, tells_samples: bool) -> ProgressPoint | None:
    """Return the line with which the present window began, of those that tell samples or that do not."""
    points = ProgressPoint.objects.filter(attempt=attempt, samples__isnull=not tells_samples)
    points = points.order_by("sequence")
    if attempt.measured_at is not None:
        return points.filter(at__gte=attempt.measured_at).first()
    first = points.first()
    return first and points.filter(at__gte=first.at + timedelta(seconds=WARM_UP_SECONDS)).first()


def _count(point: ProgressPoint) -> float:
    return point.step if point.samples is None else point.samples


def _steps_alone(attempt: Attempt) -> float | None:
    """Return the job's steps a second alone on as many GPUs of the model; None: too few were timed."""
    if attempt.job.pace is None:
        return None
    pace, model = Pace(**attempt.job.pace), attempt.allocation.gpu_model
    gpus = attempt.allocation.gpu_count
    # What it did elsewhere as well can not be told apart.
    if pace.is_void or set(pace.timed) != {model} or gpus != attempt.job.gpus:
        return None
    seconds = pace.timed[model] / gpus
    return pace.timed_steps / seconds if seconds >= LEAST_ALONE_SECONDS and pace.timed_steps > 0 else None


def partners(attempt: Attempt, since: datetime) -> list[Job] | None:
    """Return with which jobs it has shared all its GPUs since then; None: with one for a part of it.

    Nor does it tell how fast they are together when they took turns.
    """
    if attempt.allocation.slice_seconds is not None:
        return None
    others = Attempt.objects.filter(allocation_id=attempt.allocation_id, running_at__isnull=False)
    beside = [
        other
        for other in others.exclude(id=attempt.id).select_related("job__tenant")
        if other.ended_at is None or other.ended_at > since
    ]
    if any(
        other.ended_at is not None or other.running_at is None or other.running_at > since for other in beside
    ):
        return None
    return [other.job for other in beside]


def _record(
    attempt: Attempt, rate: float, partners: list[Job], now: datetime, *, alone: float | None = None
) -> None:
    """Record a rate alone, or beside one partner relative to `alone`: what is on record, unless told."""
    job = attempt.job
    job_class, setting = _job_class(job), _setting(attempt)
    if partners:
        if alone is None:
            declared = job.shape.get("throughput", {}).get(setting.gpu_model)
            known = read_estimator().at(job_class, setting, declared if setting.gpus == job.gpus else None)
            alone = known.value if known else 0.0
        if alone <= 0:
            return
        rate = min(1.0, rate / alone)
        setting = setting._replace(partner=_job_class(partners[0]).application)
    there, created = SpeedMeasurement.objects.get_or_create(
        tenant_id=job.tenant_id,
        application=job_class.application,
        **setting._asdict(),
        defaults={"average": rate, "updated_at": now},
    )
    if created:
        _make_room(job.tenant_id)
        return
    row = SpeedMeasurement.objects.select_for_update().filter(id=there.id).first()
    if row is None:
        return
    if too_far_apart([rate, row.average]):
        _logger.warning(
            "job %s: %g samples a second say nothing beside %g on record", job.id, rate, row.average
        )
        return
    after = MovingAverage(row.average, row.variance, row.samples).then(rate)
    row.average, row.variance, row.samples = after.average, after.variance, after.samples
    row.updated_at = now
    row.save(update_fields=["average", "variance", "samples", "updated_at"])


def _job_class(job: Job) -> JobClass:
    return job_class_of(job.tenant.name, job.shape.get("application") or "", job.name)


def _setting(attempt: Attempt) -> Setting:
    allocation = attempt.allocation
    sizes = [len(replica) for replica in allocation.replicas]
    here = Gpu.objects.filter(node__gpu_model__name=allocation.gpu_model, present=True)
    largest = here.values("node").annotate(gpus=Count("id")).order_by("-gpus").values_list("gpus", flat=True)
    needed = fewest_nodes(sizes, largest.first() or 0)
    return Setting(allocation.gpu_model, sum(sizes), spread=attempt.parts.count() > needed)


def _make_room(tenant_id: int) -> None:
    oldest = SpeedMeasurement.objects.filter(tenant_id=tenant_id).order_by("-updated_at", "-id")
    SpeedMeasurement.objects.filter(id__in=oldest.values("id")[MOST_SETTINGS_PER_TENANT:]).delete()
