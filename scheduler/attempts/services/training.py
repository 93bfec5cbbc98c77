"""Keeping what running jobs say of their epochs and batch sizes, and asking for a round when one changes."""

from collections.abc import Sequence

from scheduler.attempts.models import Attempt, ProgressPoint, TrainingProgress
from scheduler.core.perf.training_reports import BatchSizeEpochs, Line, TrainingReport
from scheduler.wakeups import request_round_on_commit


def training_note(attempt: Attempt, points: Sequence[ProgressPoint]) -> None:
    """Count new progress lines, of which most say nothing of epochs. The job is locked by the caller."""
    lines = [point for point in points if "epoch" in point.values]
    if not lines:
        return
    row = TrainingProgress.objects.filter(job_id=attempt.job_id).first()
    before = known = reported_of(row) if row else TrainingReport()
    model = attempt.allocation.gpu_model
    for point in lines:
        known = known.after(
            Line(
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
