"""How fast running attempts are, by their progress lines, window by window, for all jobs of their job class.

- What an attempt does in its first `WARM_UP_SECONDS` of progress does not count: it loads and compiles.
- A window lasts `WINDOW_SECONDS` or a little longer, so that an attempt causes at most one write a minute; at
  its end the rest counts if it is at least `LEAST_SECONDS`.
- A window that was shared with the same jobs throughout, three of them at most, is recorded beside these
  partners, relative to the throughput alone, which must be known. One that was shared in part, or with more,
  is not recorded.
- A job with parts of GPUs is measured by what it may use of each: alone while no other job is on its GPUs,
  and beside partners that have parts of just these. What it does beside others in a GPU of which it may use
  all counts only where these may, too, since policies use this for whole GPUs. It has to report samples.
- A job that reports steps and no samples has no throughput. Beside a partner its steps are measured all the
  same: relative to its own alone on that GPU model, as `pace` timed them for at least `LEAST_ALONE_SECONDS`.
- A rate that is 0, negative, not finite, absurd, or a million times off what is on record is not recorded.
"""

import logging
from datetime import datetime, timedelta

from django.db.models import Count, Q, QuerySet

from scheduler.core.building_blocks.pace import Pace
from scheduler.core.model.gpu_parts import WHOLE_GPU
from scheduler.core.model.lifecycle import HoldPhase
from scheduler.core.model.snapshot import Task
from scheduler.core.perf.throughput import (
    MOST_TOGETHER,
    WARM_UP_SECONDS,
    WINDOW_SECONDS,
    MovingAverage,
    Setting,
    beside,
    problem_with,
    too_far_apart,
)
from scheduler.models.attempts import AllocatedGpu, Attempt, ProgressPoint
from scheduler.models.jobs import Job
from scheduler.models.nodes import Gpu
from scheduler.models.throughputs import ClassProfile, CpuSensitivity, SpeedMeasurement
from scheduler.telemetry.throughputs.services.on_record import read_estimator
from scheduler.wiring.clock import database_now
from tenants.housekeeping import delete_rows

LEAST_SECONDS = 10.0
LEAST_ALONE_SECONDS = 60.0
#: The most rows of a tenant in each table: the one measured longest ago makes room. Jobs that are all named
#: differently make as many.
MOST_PER_TENANT = 1_000
#: What is no longer measured.
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
    rate = (count_of(newest) - count_of(begin)) / seconds
    if rate <= 0 or problem_with(rate):
        return
    now = database_now()
    others = partners(attempt, now - timedelta(seconds=seconds))
    limit = gpu_limit(attempt.job)
    if others is None or len(others) >= MOST_TOGETHER or limit is None:
        return
    if limit == WHOLE_GPU and any(gpu_limit(partner) != WHOLE_GPU for partner in others):
        return
    if tells_samples:
        _record(attempt, rate, others, now)
    elif others and (alone := _steps_alone(attempt)):
        _record(attempt, rate, others, now, alone=alone)


def prune_measurements() -> None:
    """Forget what has not been measured, or asked for, in a long time."""
    for kind in (SpeedMeasurement, ClassProfile, CpuSensitivity):
        delete_rows(kind.objects.filter(updated_at__lt=database_now() - KEPT))


def make_room(kind: type[SpeedMeasurement | ClassProfile | CpuSensitivity], tenant_id: int) -> None:
    """Delete the oldest measurements of a tenant beyond the most that it may have of a kind."""
    oldest = kind.objects.filter(tenant_id=tenant_id).order_by("-updated_at", "-id")
    kind.objects.filter(id__in=list(oldest.values_list("id", flat=True)[MOST_PER_TENANT:])).delete()


def fewest_nodes(replicas: list[int], node_gpus: int) -> int:
    """Return the number of nodes with `node_gpus` GPUs on which replicas of these sizes fit: first fit, the
    largest first.
    """
    room: list[int] = []
    for size in sorted(replicas, reverse=True):
        place = next((place for place, left in enumerate(room) if left >= size), None)
        if place is None:
            room.append(max(node_gpus, size) - size)
        else:
            room[place] -= size
    return len(room)


def _begin(attempt: Attempt, *, tells_samples: bool) -> ProgressPoint | None:
    """Return the line with which the present window began, among those that report samples or those that do
    not.
    """
    points = ProgressPoint.objects.filter(attempt=attempt, samples__isnull=not tells_samples)
    # By time, so that the index leads to the line: by sequence all that came before would be read.
    points = points.order_by("at", "sequence")
    if attempt.measured_at is not None:
        return points.filter(at__gte=attempt.measured_at).first()
    first = points.first()
    return first and points.filter(at__gte=first.at + timedelta(seconds=WARM_UP_SECONDS)).first()


def count_of(point: ProgressPoint) -> float:
    """Return the samples that had been done with a line, or the steps where it tells no samples."""
    return point.step if point.samples is None else point.samples


def _steps_alone(attempt: Attempt) -> float | None:
    """Return the job's steps a second alone on as many GPUs of the model; None: too few were timed."""
    if attempt.job.pace is None:
        return None
    pace, model = Pace(**attempt.job.pace), attempt.allocation.gpu_model
    gpus = attempt.allocation.gpu_count
    # What it did elsewhere as well cannot be separated.
    if pace.is_void or set(pace.timed) != {model} or gpus != attempt.job.gpus:
        return None
    seconds = pace.timed[model] / gpus
    return pace.timed_steps / seconds if seconds >= LEAST_ALONE_SECONDS and pace.timed_steps > 0 else None


def has_parts(job: Job) -> bool:
    return any(task.part is not None for task in _tasks(job))


def gpu_limit(job: Job) -> int | None:
    """Return what a job may use of each of its GPUs, in thousandths; None: not of each as much."""
    limits = {task.part.limit if task.part else WHOLE_GPU for task in _tasks(job) if task.gpus}
    return limits.pop() if len(limits) == 1 else None


def _tasks(job: Job) -> tuple[Task, ...]:
    return job.needs.tasks


def others_on_gpus(attempt: Attempt, since: datetime) -> QuerySet[Attempt]:
    """Return the attempts that have its GPUs, too, or had since then: in its allocation, or parts of them."""
    others = Attempt.objects.exclude(id=attempt.id)
    if not has_parts(attempt.job):
        return others.filter(allocation_id=attempt.allocation_id)
    on_gpus = AllocatedGpu.objects.filter(gpu__in=attempt.allocation.gpus.values("gpu"))
    there = on_gpus.filter(Q(phase=HoldPhase.HELD) | Q(released_at__gt=since))
    return others.filter(allocation__in=there.values("allocation"))


def has_gpus_alone(attempt: Attempt) -> bool:
    """Whether it may use all of its GPUs, and no other job ever had them beside it."""
    since = attempt.allocation.held_at or attempt.allocation.created_at
    return gpu_limit(attempt.job) == WHOLE_GPU and not others_on_gpus(attempt, since).exists()


def partners(attempt: Attempt, since: datetime) -> list[Job] | None:
    """Return with which jobs it has shared all its GPUs since then; None: with one for a part of it.

    Nor does it show how fast they are together when they took turns, or had parts of other GPUs besides.
    """
    if attempt.allocation.slice_seconds is not None:
        return None
    running = others_on_gpus(attempt, since).filter(running_at__isnull=False)
    beside = [
        other
        for other in running.select_related("job__tenant", "allocation")
        if other.ended_at is None or other.ended_at > since
    ]
    gpus = _gpus(attempt)
    if any(
        other.ended_at is not None
        or other.running_at is None
        or other.running_at > since
        or _gpus(other) != gpus
        for other in beside
    ):
        return None
    return [other.job for other in beside]


def _gpus(attempt: Attempt) -> set[int]:
    return {gpu for replica in attempt.allocation.replicas for gpu in replica}


def _record(
    attempt: Attempt, rate: float, partners: list[Job], now: datetime, *, alone: float | None = None
) -> None:
    """Record a rate alone, or beside partners relative to `alone`: by default what is on record."""
    job = attempt.job
    job_class, setting = job.job_class, _setting(attempt)
    if partners:
        if alone is None:
            declared = job.needs.throughput.get(setting.gpu_model)
            # For a part, it is unclear whether the declared figure was meant for a whole GPU.
            is_declared = setting.gpus == job.gpus and setting.gpu_limit == WHOLE_GPU
            known = read_estimator().at(job_class, setting, declared if is_declared else None)
            alone = known.value if known else 0.0
        if alone <= 0:
            return
        rate = min(1.0, rate / alone)
        setting = setting._replace(partner=beside([other.job_class.application for other in partners]))
    there, created = SpeedMeasurement.objects.get_or_create(
        tenant_id=job.tenant_id,
        application=job_class.application,
        **setting._asdict(),
        defaults={"average": rate, "updated_at": now},
    )
    if created:
        make_room(SpeedMeasurement, job.tenant_id)
        return
    row = SpeedMeasurement.objects.select_for_update().filter(id=there.id).first()
    if row is None:
        return
    if too_far_apart([rate, row.average]):
        _logger.warning(
            "job %s: %g samples a second are ignored: too far from %g on record", job.id, rate, row.average
        )
        return
    after = MovingAverage(row.average, row.variance, row.samples).then(rate)
    row.average, row.variance, row.samples = after.average, after.variance, after.samples
    row.updated_at = now
    row.save(update_fields=["average", "variance", "samples", "updated_at"])


def _setting(attempt: Attempt) -> Setting:
    allocation = attempt.allocation
    sizes = [len(replica) for replica in allocation.replicas]
    here = Gpu.objects.filter(node__gpu_model__name=allocation.gpu_model, present=True)
    largest = here.values("node").annotate(gpus=Count("id")).order_by("-gpus").values_list("gpus", flat=True)
    needed = fewest_nodes(sizes, largest.first() or 0)
    return Setting(
        allocation.gpu_model,
        sum(sizes),
        spread=attempt.parts.count() > needed,
        gpu_limit=gpu_limit(attempt.job) or WHOLE_GPU,
    )
