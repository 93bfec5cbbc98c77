"""What a preemption costs a job, measured by its own attempts, and what all of them cost a virtual cluster.

The cost of one is the time from the order to stop until the attempt has left its GPUs, the time the next one
takes from having GPUs to running, and the work that is done again. Waiting for GPUs in between
is left out: the scheduler causes it and not the job. The cost of a job is the median of its latest ones.

The progress lines show the work of an attempt. When it ends, all work after the last line counts as lost;
for a job that saves its state on the order to stop, this is exact to one line. The step from which the next
attempt goes on shows how much was really lost, and then replaces this value.
"""

from datetime import datetime
from typing import Any

from django.db import connection

from scheduler.core.model.gpu_parts import WHOLE_GPU
from scheduler.core.model.lifecycle import Outcome
from scheduler.models.attempts import Attempt, ProgressPoint

#: The latest preemptions of a job that count.
LATEST = 10
_INTERRUPTED = frozenset({Outcome.PREEMPTED, Outcome.LOST})

_OF_ATTEMPTS = """
    SELECT a.job_id, a.number, a.ended_at, a.lost_seconds, l.id AS allocation_id, l.replicas,
           extract(epoch FROM a.ended_at - a.stopping_at)::float8 AS stop_seconds,
           extract(epoch FROM next.running_at - next.starting_at)::float8 AS start_seconds
    FROM scheduler_attempt a
    JOIN scheduler_allocation l ON l.id = a.allocation_id
    LEFT JOIN LATERAL (
        SELECT n.running_at, n.starting_at FROM scheduler_attempt n
        WHERE n.job_id = a.job_id AND n.number > a.number AND n.running_at IS NOT NULL
        ORDER BY n.number LIMIT 1
    ) next ON true
    WHERE a.outcome = 'preempted' AND a.running_at IS NOT NULL AND a.stopping_at IS NOT NULL
"""
#: Moves and resizes cost as much, but the job goes on at once.
_TAKEN = "AND a.stop_cause NOT IN ('migrated', 'resized')"
_SETTLE = f"""
UPDATE scheduler_job SET preemption_cost_seconds = (
    SELECT percentile_cont(0.5) WITHIN GROUP (
        ORDER BY greatest(stop_seconds, 0) + greatest(start_seconds, 0) + coalesce(lost_seconds, 0)
    )
    FROM (SELECT * FROM ({_OF_ATTEMPTS} AND a.job_id = %s) each WHERE start_seconds IS NOT NULL
          ORDER BY number DESC LIMIT %s) latest
) WHERE id = %s
"""
_OF_JOB = f"""
SELECT count(*), coalesce(sum(lost_seconds), 0),
       coalesce(sum(greatest(stop_seconds, 0) + coalesce(greatest(start_seconds, 0), 0)), 0)
FROM ({_OF_ATTEMPTS} {_TAKEN} AND a.job_id = %s) each
"""
_OF_VIRTUAL_CLUSTER = f"""
SELECT count(*), count(DISTINCT job_id), coalesce(sum(gpus * lost_seconds), 0),
       coalesce(sum(gpus * (greatest(stop_seconds, 0) + coalesce(greatest(start_seconds, 0), 0))), 0)
FROM (
    SELECT each.*,
           (SELECT sum(jsonb_array_length(replica)) FROM jsonb_array_elements(replicas) replica)
           * (SELECT coalesce(avg(request), {WHOLE_GPU}) FROM scheduler_allocatedgpu held
              WHERE held.allocation_id = each.allocation_id) / {WHOLE_GPU} AS gpus
    FROM ({_OF_ATTEMPTS} {_TAKEN}
          AND a.ended_at > clock_timestamp() - make_interval(hours => %s)
          AND a.job_id IN (SELECT id FROM scheduler_job WHERE virtual_cluster_id = %s)) each
) counted
"""


def settle_preemption_cost(job_id: int) -> None:
    """Compute again what a preemption costs a job, which runs again or has reported what it lost."""
    with connection.cursor() as cursor:
        cursor.execute(_SETTLE, [job_id, LATEST, job_id])


def preemptions_of_job(job_id: int) -> dict[str, Any]:
    """Return how often a job was preempted while it ran, and what that cost in all, JSON-ready."""
    with connection.cursor() as cursor:
        cursor.execute(_OF_JOB, [job_id])
        times, lost, overhead = cursor.fetchone()
    return {"times": times, "lost_seconds": round(lost, 3), "overhead_seconds": round(overhead, 3)}


def preemptions_of_virtual_cluster(virtual_cluster_id: int, hours: int) -> dict[str, Any]:
    """Return how often jobs of a virtual cluster were preempted lately, and the GPU-hours that cost."""
    with connection.cursor() as cursor:
        cursor.execute(_OF_VIRTUAL_CLUSTER, [hours, virtual_cluster_id])
        times, jobs, lost, overhead = cursor.fetchone()
    return {
        "hours": hours,
        "preemptions": times,
        "jobs": jobs,
        "preemptions_per_hour": round(times / hours, 3),
        "lost_gpu_hours": round(float(lost) / 3_600, 3),
        "overhead_gpu_hours": round(float(overhead) / 3_600, 3),
    }


def lost_seconds_at_end(attempt: Attempt, outcome: Outcome, *, at: datetime) -> float | None:
    """Return the seconds between the last progress line, or the start, and the order to stop.

    None for an attempt that never ran, or whose end was its own.
    """
    if outcome not in _INTERRUPTED or attempt.running_at is None:
        return None
    newest = ProgressPoint.objects.filter(attempt=attempt).order_by("-sequence").first()
    return _seconds_after(attempt, newest, attempt.stopping_at or at)


def settle_lost_work(attempt: Attempt, first: ProgressPoint) -> None:
    """Correct what the previous attempt lost, by the step from which this one goes on.

    It reports it as `restored_step`; otherwise its first line is about the first step that it did itself.
    """
    interrupted = Attempt.objects.filter(job_id=attempt.job_id, number__lt=attempt.number)
    before = interrupted.exclude(running_at=None).order_by("-number").first()
    if before is None or before.lost_seconds is None:
        return
    restored_step = first.values.get("restored_step", first.step - 1)
    kept = ProgressPoint.objects.filter(attempt=before, step__lte=restored_step).order_by("-sequence").first()
    until = before.stopping_at or before.ended_at
    if until is not None:
        Attempt.objects.filter(id=before.id).update(lost_seconds=_seconds_after(before, kept, until))
        settle_preemption_cost(attempt.job_id)


def _seconds_after(attempt: Attempt, kept: ProgressPoint | None, until: datetime) -> float:
    began = attempt.running_at or until
    # A node's clock may be ahead of the database's, or behind.
    since = began if kept is None else max(kept.at, began)
    return round(max((until - since).total_seconds(), 0.0), 3)
