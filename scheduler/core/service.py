"""Attained service: what a job has received, its running attempt included (Tiresias, section 3.1)."""

from __future__ import annotations

from scheduler.core.snapshot import Job, Running


def attained_service(job: Job, running: Running | None, now: float) -> float:
    """Return the GPU-seconds a job has received of any model, up to now."""
    return sum(job.attained_service.values()) + _present(running, now)


def executed_seconds(job: Job, running: Running | None, now: float) -> float:
    """Return how long a job has run at its own size, up to now."""
    return attained_service(job, running, now) / job.gpus


def remaining_seconds(job: Job, running: Running | None, now: float, default: float) -> float:
    """Return how long a job is expected to run on: its estimate, else its limit, else a default.

    Never below zero: a job that outlives its estimate counts as about to end.
    """
    total = next(
        (known for known in (job.estimate_seconds, job.time_limit_seconds) if known is not None), default
    )
    return max(0.0, total - executed_seconds(job, running, now))


def _present(running: Running | None, now: float) -> float:
    if running is None or running.phase == "planned":
        return 0.0
    return max(0.0, now - running.since) * len(running.gpus)
