"""Keeping the profiles of running jobs, for each job and for the jobs of its user that are like it.

Stage times come with progress lines. Device readings are read once a minute, after they have been combined
into minutes. Only minutes count in which an attempt ran throughout and had its GPUs alone. The attempt may
have been stopped since, as happens to a job that is only profiled.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta

from django.db import transaction

from scheduler.core.model.training import Profile
from scheduler.core.perf.profiles import (
    MINUTE_SECONDS,
    STAGES,
    WARM_UP_SECONDS,
    Line,
    ProfileReport,
    blended,
    measured_profile,
    stored_profile,
)
from scheduler.jobs.attempts.services.steps import lock_jobs
from scheduler.models.attempts import Attempt, JobProfile, ProgressPoint
from scheduler.models.jobs import Job
from scheduler.models.metrics import PartMetrics, Resolution
from scheduler.models.throughputs import ClassProfile
from scheduler.telemetry.metrics.selectors.buckets import GPU_MEASURES, count_mean_least_most
from scheduler.telemetry.throughputs.services.measuring import has_gpus_alone, make_room
from scheduler.wiring.clock import database_now
from scheduler.wiring.sweeps import for_each

WARM_UP, MINUTE = timedelta(seconds=WARM_UP_SECONDS), timedelta(seconds=MINUTE_SECONDS)
#: A minute that is combined later than this does not count.
_LATE = timedelta(minutes=10)
_MEASURES = [
    GPU_MEASURES.index(name)
    for name in ("utilisation_percent", "memory_utilisation_percent", "memory_used_bytes")
]


def profile_note(attempt: Attempt, points: Sequence[ProgressPoint]) -> None:
    """Count new progress lines, most of them without stages. The caller has locked the job."""
    lines = [point for point in points if STAGES[0] in point.values or "amp" in point.values]
    if not lines:
        return
    before = known = _report_of(JobProfile.objects.filter(job_id=attempt.job_id).first())
    is_alone = has_gpus_alone(attempt)
    for point in lines:
        values = {name: float(value) for name, value in point.values.items()}
        known = known.after(
            Line(attempt=attempt.id, sequence=point.sequence, is_alone=is_alone, values=values)
        )
    if known is not before:
        _write(attempt.job, known)


def profiles_measure(now: datetime | None = None) -> None:
    """Count the device readings of attempts that run, or did a moment ago, minute by minute."""
    now = now or database_now()
    rows = (
        PartMetrics.objects.filter(seconds=Resolution.MINUTE, at__gte=now - _LATE)
        .filter(part__attempt__running_at__lte=now - WARM_UP)
        .select_related("part__attempt__allocation", "part__attempt__job")
        .order_by("part__attempt__job_id", "at")
    )
    by_attempt: dict[tuple[int, int], list[PartMetrics]] = {}
    for row in rows:
        if _ran_throughout(row.part.attempt, row.at):
            by_attempt.setdefault((row.part.attempt.job_id, row.part.attempt_id), []).append(row)
    jobs = {job_id for job_id, _ in by_attempt}
    counted = dict(JobProfile.objects.filter(job__in=jobs).values_list("job_id", "minute_at"))

    def measure(attempt: tuple[int, int]) -> None:
        job_id, _ = attempt
        fresh = [row for row in by_attempt[attempt] if row.at.timestamp() > counted.get(job_id, 0.0)]
        if fresh:
            _measure(job_id, fresh)

    for_each("the profile of (job, attempt)", sorted(by_attempt), measure)


def _ran_throughout(attempt: Attempt, minute: datetime) -> bool:
    """Whether a minute that begins then counts: after the warm-up, and before the order to stop."""
    ends = [at for at in (attempt.stopping_at, attempt.ended_at) if at is not None]
    if attempt.running_at is None or minute < attempt.running_at + WARM_UP:
        return False
    return minute + MINUTE <= min(ends, default=minute + MINUTE)


@transaction.atomic
def _measure(job_id: int, rows: Sequence[PartMetrics]) -> None:
    lock_jobs([job_id])
    attempt = rows[0].part.attempt
    # If another attempt was ever beside it, its devices did that attempt's work too.
    if not has_gpus_alone(attempt):
        return
    before = known = _report_of(JobProfile.objects.filter(job_id=job_id).first())
    by_minute: dict[datetime, list[PartMetrics]] = {}
    for row in rows:
        by_minute.setdefault(row.at, []).append(row)
    for at, parts in sorted(by_minute.items()):
        known = known.after_minute(at.timestamp(), _minute_profile(parts))
    if known is not before:
        _write(Job.objects.select_related("tenant").get(id=job_id), known)


def _minute_profile(rows: Sequence[PartMetrics]) -> Profile:
    """Return the means over the GPUs of all parts in a minute; for memory the maximum."""
    by_measure: list[list[tuple[int, float, float, float]]] = [[], [], []]
    for row in rows:
        for group in row.values["gpus"].values():
            for figures, place in zip(by_measure, _MEASURES, strict=True):
                figure = count_mean_least_most(group[place]) if place < len(group) else None
                if figure is not None:
                    figures.append(figure)
    busy, memory_busy, memory = by_measure
    return measured_profile(
        _mean(busy), _mean(memory_busy), max([highest for _, _, _, highest in memory], default=None)
    )


def _mean(figures: Sequence[tuple[int, float, float, float]]) -> float | None:
    count = sum([readings for readings, *_ in figures])
    return sum([readings * mean for readings, mean, *_ in figures]) / count if count else None


def _report_of(row: JobProfile | None) -> ProfileReport:
    if row is None:
        return ProfileReport()
    return ProfileReport(
        attempt=row.attempt,
        sequence=row.sequence,
        minute_at=row.minute_at,
        profile=stored_profile(row.profile),
    )


def _write(job: Job, known: ProfileReport) -> None:
    """Store the profile of the job, and update that of its user's jobs of its class."""
    JobProfile.objects.update_or_create(
        job_id=job.id,
        defaults={
            "attempt": known.attempt,
            "sequence": known.sequence,
            "minute_at": known.minute_at,
            "profile": _columns(known.profile),
        },
    )
    application = job.job_class.application
    there, created = ClassProfile.objects.get_or_create(
        tenant_id=job.tenant_id,
        application=application,
        user_id=job.submitted_by_id,
        defaults={"profile": _columns(known.profile), "updated_at": database_now()},
    )
    if created:
        make_room(ClassProfile, job.tenant_id)
        return
    row = ClassProfile.objects.select_for_update().filter(id=there.id).first()
    if row is not None:
        row.profile = _columns(blended(stored_profile(row.profile), known.profile))
        row.updated_at = database_now()
        row.save(update_fields=["profile", "updated_at"])


def _columns(profile: Profile) -> Mapping[str, object]:
    return {name: value for name, value in asdict(profile).items() if value is not None}
