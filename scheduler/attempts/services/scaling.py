"""Keeping what adaptive jobs say of how they scale, and fitting it now and then.

A report of an agent only counts lines. The fits, some milliseconds each, are a task's (`fit_due`).
"""

import logging
from collections.abc import Iterable, Mapping, Sequence

from django.db import transaction

from scheduler.attempts.models import Attempt, JobScaling, ProgressPoint
from scheduler.clock import database_now
from scheduler.core.goodput.batch import Limits, Noise
from scheduler.core.goodput.gpu_models import fit_gpu_models
from scheduler.core.goodput.reports import Batch, GoodputReport, Line, Times, Way
from scheduler.core.goodput.throughput import GoodputError

log = logging.getLogger(__name__)

#: Fits of one run of the task: about a second.
FITS_AT_ONCE = 100
#: In every line of an adaptive job, and in no other.
_MARK = "initial_batch"


def scaling_note(attempt: Attempt, points: Sequence[ProgressPoint]) -> None:
    """Count new progress lines of an adaptive job. The job is locked by the caller."""
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
            Line(
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
        # Without what is not known of it, which comes last.
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
    """Fit the jobs of which enough is new; return how many were."""
    due = list(JobScaling.objects.filter(is_fit_due=True).order_by("job_id")[:FITS_AT_ONCE])
    for row in due:
        try:
            fitted = fit_gpu_models(scaling_of(row).measurements())
        except GoodputError as error:
            log.warning("how job %d scales could not be fitted: %s", row.job_id, error)
            fitted = {}
        _write(row, {model: (each.parameters, each.projected_from) for model, each in fitted.items()})
    return len(due)


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
