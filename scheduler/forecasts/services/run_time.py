"""A job's run time as it was declared and as its own steps show it, beside each other."""

from dataclasses import dataclass

from django.db import connection

from scheduler.core.building_blocks.pace import measured_seconds
from scheduler.core.perf.recurrence import Like
from scheduler.jobs.attempts.services.progress import pace_of
from scheduler.models.jobs import Job
from scheduler.rounds.recurrence import known_recurrence
from scheduler.rounds.throughputs import known_throughputs

#: An estimate that is further off than this part of what is measured gets a remark.
TOLERATED = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTime:
    """Seconds of the job's own gang, alone on `gpu_model`; empty: its throughput is known on none."""

    declared_seconds: float | None
    measured_seconds: float | None
    gpu_model: str
    #: The declared estimate or limit differs from what is measured.
    differs: bool
    #: It will be stopped before it is done: an attempt may be no longer than its time limit.
    outlasts_limit: bool
    #: How long jobs like it ran on average; None: too few have ended.
    usual_seconds: float | None
    #: The jobs it was compared with: "size", "application" or "user"; empty: none.
    usual_by: str
    #: How many of them ended, and how far off such estimates were, relative to the actual run time.
    usual_jobs: int
    usual_error: float | None


def run_time_of(job: Job) -> RunTime:
    """Return what is known of the job's run time now."""
    declared, pace = job.specification.estimate_seconds, pace_of(job)
    with connection.cursor() as cursor:
        throughputs = known_throughputs(cursor)
    stated = job.needs.throughput
    job_class = job.job_class
    throughput = throughputs.of(job_class, job.gpus, stated, (job.gpus, *sorted(stated.items()))).throughput
    amount = job.needs.amount(job.gpus)
    measured = None if pace is None else measured_seconds(pace, amount, throughput)
    like = Like(job.tenant.name, job.submitted_by.username, job_class.application, job.gpus)
    usual = known_recurrence().usual(like)
    return RunTime(
        declared_seconds=declared,
        measured_seconds=measured,
        gpu_model=max(throughput, key=lambda model: throughput[model], default=""),
        differs=bool(measured and declared and abs(declared - measured) > TOLERATED * measured),
        outlasts_limit=bool(measured and job.time_limit_seconds and measured > job.time_limit_seconds),
        usual_seconds=usual and usual.seconds,
        usual_by=usual.by if usual else "",
        usual_jobs=usual.jobs if usual else 0,
        usual_error=usual and usual.error,
    )
