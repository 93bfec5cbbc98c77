"""The speed of a class of jobs by number of CPUs, measured while one of them runs (`core.perf.cpu_trials`).

The job's shape asks for the CPUs to try, by a curve that ends there. The next round gives them where the node
has room, and the node's agent changes the limit. The progress lines that follow are one trial. Once enough is
known, the shape gets the curve that was found. So does the shape of every later job of the class, when its
first line comes from the same GPU model. Only nodes that enforce limits of CPUs can measure this.
"""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import transaction

from scheduler.core.model.lifecycle import ATTEMPT_LIVE
from scheduler.core.perf.cpu_trials import MOST_SECONDS, CpuTrials, Curve, Line
from scheduler.jobs.attempts.services.steps import lock_jobs, touch_job
from scheduler.jobs.representations import publish_jobs
from scheduler.jobspec.shape import with_cpu_curve
from scheduler.models.attempts import Attempt, ProgressPoint
from scheduler.models.jobs import Job
from scheduler.models.throughputs import CpuSensitivity
from scheduler.telemetry.throughputs.services.measuring import count_of, make_room
from scheduler.wiring.clock import database_now
from scheduler.wiring.sweeps import for_each
from scheduler.wiring.wakeups import request_round_on_commit

_DAY = timedelta(days=1)
#: Lines that are looked at for one trial, the newest.
_LINES_MOST = 1_000


def cpus_note(attempt: Attempt, points: Sequence[ProgressPoint]) -> None:
    """Take in new progress lines of a job whose CPUs are measured. The caller has locked the job."""
    if attempt.auxiliary is None or not is_measured(attempt.job):
        return
    has, share = attempt.auxiliary["replicas"][0][0], attempt.auxiliary["proportional"][0][0]
    if not has or not share:
        return
    known = measured_on(attempt.job, attempt.allocation.gpu_model)
    if known is not None and known.is_over:
        if known.updated_at < database_now() - _DAY:
            CpuSensitivity.objects.filter(id=known.id).update(updated_at=database_now())
        _ask_for(attempt.job, trials_of(known).curve())
        return
    row = _locked_row(attempt)
    if row is None or row.is_over:
        return
    if row.attempt_id != attempt.id:
        node = attempt.parts.select_related("node").get().node
        is_tried = row.attempt is not None and row.attempt.state in ATTEMPT_LIVE
        if is_tried or node is None or not node.isolation.get("cpu"):
            return
        rates = tuple(map(tuple, row.trials.get("rates", ())))
        trials = CpuTrials(share=share, most=node.cpus, rates=rates)
        row.attempt = attempt
    else:
        trials = trials_of(row)
    trials = trials.after(_lines(attempt, points[-1], trials), has)
    if trials.next is None:
        row.is_over, row.attempt = True, None
    # If its time is up, the next job of its class tries what is left, once this attempt has ended.
    due = None if trials.is_over(points[-1].at.timestamp()) else trials.next
    _ask_for(attempt.job, trials.curve() if due is None else ((due, 1.0),))
    row.trials, row.updated_at = asdict(trials), database_now()
    row.save(update_fields=["trials", "attempt", "is_over", "updated_at"])


def cpus_settle() -> None:
    """End the trials of jobs that wrote no line for too long: they have their share again."""
    late = CpuSensitivity.objects.filter(updated_at__lt=database_now() - timedelta(seconds=MOST_SECONDS))

    @transaction.atomic
    def settle(trial: tuple[int, int]) -> None:
        row, job_id = trial
        job = lock_jobs([job_id]).get(job_id)
        if late.filter(id=row, attempt__job_id=job_id).update(attempt=None) and job is not None:
            _ask_for(job, ())

    trials = late.filter(attempt__isnull=False).values_list("id", "attempt__job_id")
    for_each("the end of the CPU trials of (row, job)", trials, settle)


def is_measured(job: Job) -> bool:
    """Whether the platform measures its speed by CPUs."""
    return job.specification.tasks[0].measures_cpus


def trials_of(row: CpuSensitivity) -> CpuTrials:
    stored: dict[str, Any] = dict(row.trials)
    return CpuTrials(**{**stored, "rates": tuple(map(tuple, stored["rates"]))})


def measured_on(job: Job, gpu_model: str) -> CpuSensitivity | None:
    """Return what is known of its class on a GPU model."""
    return CpuSensitivity.objects.filter(
        tenant_id=job.tenant_id, application=job.job_class.application, gpu_model=gpu_model
    ).first()


def _locked_row(attempt: Attempt) -> CpuSensitivity | None:
    job = attempt.job
    there, created = CpuSensitivity.objects.get_or_create(
        tenant_id=job.tenant_id,
        application=job.job_class.application,
        gpu_model=attempt.allocation.gpu_model,
        defaults={"trials": {}, "updated_at": database_now()},
    )
    if created:
        make_room(CpuSensitivity, job.tenant_id)
    rows = CpuSensitivity.objects.select_for_update(of=("self",)).select_related("attempt")
    return rows.filter(id=there.id).first()


def _lines(attempt: Attempt, newest: ProgressPoint, trials: CpuTrials) -> list[Line]:
    """Return the lines of the present trial; if the newest reports samples, only those that do."""
    known = ProgressPoint.objects.filter(
        attempt=attempt,
        at__gte=datetime.fromtimestamp(trials.since, UTC),
        samples__isnull=newest.samples is None,
    )
    found = list(known.order_by("-at", "-sequence")[:_LINES_MOST]) or [newest]
    return [(point.at.timestamp(), float(count_of(point))) for point in reversed(found)]


def _ask_for(job: Job, curve: Curve) -> None:
    """Let rounds use this as the job's speed by CPUs."""
    task = job.needs.tasks[0]
    if task.auto is None or task.auto.sensitivity.by_cpus == curve:
        return
    touch_job(job, shape=with_cpu_curve(job.shape, curve))
    publish_jobs([job.id])
    request_round_on_commit()
