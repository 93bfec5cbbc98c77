"""Keeping what running jobs report in their progress lines: steps, epochs, batch sizes, and how they scale.

Rounds derive run times from the steps. An attempt's lines are counted once in `EVERY_SECONDS`, and its last
lines at its end: one write a minute. Trial runs do not count, since they are on other GPUs than the job
will be.

A batch size that changes asks for a round. For the scaling of adaptive jobs, a report of an agent only counts
lines; a task fits them, in some milliseconds each (`fit_due`).
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta

from django.db import transaction

from scheduler.core.building_blocks.pace import EVERY_SECONDS, Pace
from scheduler.core.building_blocks.pace import Line as PaceLine
from scheduler.core.goodput.batch import Limits, Noise
from scheduler.core.goodput.gpu_models import fit_gpu_models
from scheduler.core.goodput.reports import Batch, GoodputReport, Times, Way
from scheduler.core.goodput.reports import Line as GoodputLine
from scheduler.core.goodput.throughput import GoodputError
from scheduler.core.perf.training_reports import BatchSizeEpochs, TrainingReport
from scheduler.core.perf.training_reports import Line as TrainingLine
from scheduler.models.attempts import Attempt, JobScaling, ProgressPoint, TrainingProgress
from scheduler.models.jobs import Job
from scheduler.telemetry.throughputs.services.measuring import has_parts, partners
from scheduler.wiring.clock import database_now
from scheduler.wiring.sweeps import for_each
from scheduler.wiring.wakeups import request_round_on_commit


def pace_note(attempt: Attempt, points: Sequence[ProgressPoint], *, is_last: bool) -> None:
    """Count new progress lines, as soon as it is time. The caller has locked the job."""
    job = attempt.job
    if attempt.is_trial or attempt.total_steps is None:
        return
    before = pace_of(job) or Pace()
    fresh = [point for point in points if (attempt.id, point.sequence) > (before.attempt, before.sequence)]
    if not fresh:
        return
    goes_on = before.attempt == attempt.id
    steps = [before.step] * goes_on + [point.step for point in fresh]
    # The next line may make up for one that goes back, so such a line is never skipped.
    is_rising = steps == sorted(steps)
    seconds = fresh[-1].at.timestamp() - before.at
    if goes_on and is_rising and not is_last and seconds < EVERY_SECONDS:
        return
    known = _after(before, attempt, fresh, since_seconds=seconds if goes_on else 0.0)
    if known is before:
        return
    job.pace = asdict(known)
    Job.objects.filter(id=job.id).update(pace=job.pace)
    amount = job.needs.amount(job.gpus)
    if known.is_trusted(amount) and not before.is_trusted(amount):
        request_round_on_commit()


def pace_of(job: Job) -> Pace | None:
    """Return what is known of a job's steps; None: it has reported none."""
    return None if job.pace is None else Pace(**job.pace)


def _after(known: Pace, attempt: Attempt, points: Sequence[ProgressPoint], *, since_seconds: float) -> Pace:
    allocation, now = attempt.allocation, database_now()
    gpus = attempt.job.needs.amount(sum(map(len, allocation.replicas)))
    # By the database's clock, as in a round's facts; lines have the clock of their node.
    held = now - (attempt.starting_at or attempt.planned_at)
    service = dict(attempt.job.service)
    service[allocation.gpu_model] = service.get(allocation.gpu_model, 0.0) + held.total_seconds() * gpus
    # A job with parts of GPUs keeps these, whichever jobs are beside it, so its pace counts as alone.
    is_alone = has_parts(attempt.job) or partners(attempt, now - timedelta(seconds=since_seconds)) == []
    for point in points:
        known = known.after(
            PaceLine(
                attempt=attempt.id,
                sequence=point.sequence,
                at=point.at.timestamp(),
                step=point.step,
                total_steps=attempt.total_steps or 0,
                gpu_model=allocation.gpu_model,
                gpus=gpus,
                is_alone=is_alone,
                service=service,
            )
        )
    return known


def training_note(attempt: Attempt, points: Sequence[ProgressPoint]) -> None:
    """Count new progress lines, most of them without epochs. The caller has locked the job."""
    lines = [point for point in points if "epoch" in point.values]
    if not lines:
        return
    row = TrainingProgress.objects.filter(job_id=attempt.job_id).first()
    before = known = reported_of(row) if row else TrainingReport()
    model = attempt.allocation.gpu_model
    for point in lines:
        known = known.after(
            TrainingLine(
                attempt=attempt.id,
                sequence=point.sequence,
                at=point.at.timestamp(),
                gpu_model=model,
                values={name: float(value) for name, value in point.values.items()},
            )
        )
    if known is before:
        return
    TrainingProgress.objects.update_or_create(job_id=attempt.job_id, defaults=_columns(known))
    if before.batch_size and known.batch_size != before.batch_size:
        request_round_on_commit()


def reported_of(row: TrainingProgress) -> TrainingReport:
    """Return what a row says."""
    seen = {
        int(size): BatchSizeEpochs(
            epochs=epochs, timed={model: tuple(timed) for model, timed in by_model.items()}
        )
        for size, (epochs, by_model) in row.seen.items()
    }
    return TrainingReport(
        attempt=row.attempt,
        sequence=row.sequence,
        at=row.at,
        epoch=row.epoch,
        epochs=row.epochs,
        batch_size=row.batch_size,
        seen=seen,
    )


def _columns(known: TrainingReport) -> dict[str, object]:
    seen = {str(size): [each.epochs, dict(each.timed)] for size, each in sorted(known.seen.items())}
    return {
        "attempt": known.attempt,
        "sequence": known.sequence,
        "at": known.at,
        "epoch": known.epoch,
        "epochs": known.epochs,
        "batch_size": known.batch_size,
        "seen": seen,
    }


log = logging.getLogger(__name__)

#: Fits of one run of the task: about a second.
FITS_AT_ONCE = 100
#: In every line of an adaptive job, and in no other.
_MARK = "initial_batch"


def scaling_note(attempt: Attempt, points: Sequence[ProgressPoint]) -> None:
    """Count new progress lines of an adaptive job. The caller has locked the job."""
    lines = [point for point in points if _MARK in point.values]
    if not lines:
        return
    row = JobScaling.objects.filter(job_id=attempt.job_id).first()
    before = known = scaling_of(row) if row else GoodputReport()
    replicas = len(attempt.allocation.replicas)
    nodes = attempt.parts.count()
    is_alone = not attempt.allocation.attempts.exclude(id=attempt.id).exists()
    for point in lines:
        known = known.after(
            GoodputLine(
                attempt=attempt.id,
                sequence=point.sequence,
                gpu_model=attempt.allocation.gpu_model,
                nodes=nodes,
                replicas=replicas,
                is_alone=is_alone,
                values={name: float(value) for name, value in point.values.items()},
            )
        )
    if known is before or known.limits is None or known.batch is None:
        return
    limits = known.limits
    columns = {
        "attempt": known.attempt,
        "sequence": known.sequence,
        "limits": [
            limits.initial_batch,
            limits.max_batch,
            limits.min_local_batch,
            limits.max_local_batch,
        ],
        # Without its unknown fields, which come last.
        "batch": [value for value in known.batch if value is not None],
        "noise": None if known.noise is None else list(known.noise),
        "times": _rows(known.times),
        "most_replicas": known.most_replicas,
        "is_fit_due": known.has_news(_times(row.fitted_times if row else ())),
    }
    JobScaling.objects.update_or_create(job_id=attempt.job_id, defaults=columns)


def scaling_of(row: JobScaling) -> GoodputReport:
    """Return what a row says."""
    initial, most, min_local, max_local = row.limits
    return GoodputReport(
        attempt=row.attempt,
        sequence=row.sequence,
        limits=Limits(
            initial_batch=initial, max_batch=most, min_local_batch=min_local, max_local_batch=max_local
        ),
        batch=Batch(*row.batch),
        noise=None if row.noise is None else Noise(*row.noise),
        times=_times(row.times),
        most_replicas=row.most_replicas,
    )


def fit_due() -> int:
    """Fit the jobs with enough new lines; return their number."""
    # By chance: rows that cannot be fitted stay due, and must not always be first.
    due = list(JobScaling.objects.filter(is_fit_due=True).order_by("?")[:FITS_AT_ONCE])
    for_each("the fit of", due, _fit)
    return len(due)


def _fit(row: JobScaling) -> None:
    try:
        fitted = fit_gpu_models(scaling_of(row).measurements())
    except GoodputError as error:
        log.warning("how job %d scales could not be fitted: %s", row.job_id, error)
        fitted = {}
    _write(row, {model: (each.parameters, each.projected_from) for model, each in fitted.items()})


@transaction.atomic
def _write(row: JobScaling, parameters: Mapping[str, Sequence[object]]) -> None:
    now = JobScaling.objects.select_for_update().filter(job_id=row.job_id).first()
    if now is None:
        return
    now.parameters, now.fitted_times, now.fitted_at = parameters, row.times, database_now()
    # Lines may have come meanwhile.
    now.is_fit_due = scaling_of(now).has_news(_times(row.times))
    now.save(update_fields=["parameters", "fitted_times", "fitted_at", "is_fit_due"])


def _rows(times: Mapping[Way, Times]) -> list[list[object]]:
    return [[*way, *means] for way, means in times.items()]


def _times(rows: Iterable[Sequence[object]]) -> dict[Way, Times]:
    return {Way._make(row[:5]): Times._make(row[5:]) for row in rows}
