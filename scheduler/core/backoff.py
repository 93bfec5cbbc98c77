"""How long a job that was preempted again and again before it had run for long enough may not borrow.

Without it, an opportunistic job on GPUs that come and go is started and stopped again and again, and each
time pays for a checkpoint and a start. It waits twice as long each time, as colliding senders do (R. Metcalfe
and D. Boggs, "Ethernet", CACM 19(7), 1976), and never longer than a bound, so that it always comes back.
"""

from __future__ import annotations

from dataclasses import replace

from scheduler.core.snapshot import Job, VirtualCluster


def after_preemption(
    job: Job,
    virtual_cluster: VirtualCluster | None,
    *,
    ran_seconds: float,
    now: float,
    backoff_seconds: float,
    most_backoff_seconds: float,
) -> Job:
    """Return the job as it waits again; a run that was long enough clears its record."""
    least = 0.0 if virtual_cluster is None else virtual_cluster.min_run_seconds
    if ran_seconds >= least:
        return replace(job, short_runs=0, may_borrow_at=0.0) if job.short_runs else job
    # No more doublings than a float can take.
    waits = min(backoff_seconds * 2.0 ** min(job.short_runs, 60), most_backoff_seconds)
    return replace(job, short_runs=job.short_runs + 1, may_borrow_at=now + waits)
