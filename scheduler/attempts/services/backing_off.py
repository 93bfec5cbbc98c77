"""Jobs that were preempted before they had run for long enough may not borrow GPUs for a while."""

from datetime import datetime, timedelta
from typing import Any

from scheduler.attempts.models import Attempt
from scheduler.cluster.models import ClusterSettings
from scheduler.core.round.preemption_limits.backoff import after_preemption
from scheduler.jobs.models import Job
from scheduler.virtual_clusters.models import Restraint


def backed_off(job: Job, attempt: Attempt, *, at: datetime) -> dict[str, Any]:
    """Return the columns that say from when on a preempted job may borrow again."""
    chosen = Restraint.objects.filter(virtual_cluster_id=job.virtual_cluster_id).first() or Restraint()
    bounds = ClusterSettings.objects.filter(id=1).first() or ClusterSettings()
    ran = (attempt.stopping_at or at) - (attempt.starting_at or at)
    short_runs, waits = after_preemption(
        job.short_runs,
        ran_seconds=ran.total_seconds(),
        least_seconds=chosen.min_run_seconds,
        first_wait=bounds.backoff_seconds,
        longest_wait=bounds.most_backoff_seconds,
    )
    return {
        "short_runs": short_runs,
        "may_borrow_at": at + timedelta(seconds=waits) if short_runs else None,
    }
