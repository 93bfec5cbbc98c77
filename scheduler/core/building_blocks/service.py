"""Attained service: what a job has received, its running attempt included (Tiresias, section 3.1)."""

from __future__ import annotations

from dataclasses import replace

from scheduler.core.fitting.demand import amount_of
from scheduler.core.model.snapshot import Job, Running

#: Instants within a microsecond count as one: a float does not hold Unix seconds reliably more finely.
INSTANT_SECONDS = 1e-6


def attained_service(job: Job, running: Running | None, now: float) -> float:
    """Return the GPU-seconds that a job has received on any model, up to now; a part of a GPU counts as a
    fraction.
    """
    received = job.attained_service
    service = sum(received.values()) if received else 0
    if running is not None and running.phase == "held":
        since = running.since_of(job.id) if running.joined else running.since
        if now > since:
            service += (now - since) * amount_of(job, len(running.gpus))
    return service


def put_back(job: Job, running: Running, now: float) -> Job:
    """Return the job as it is after leaving its GPUs: it waits again, with its service so far."""
    received = attained_service(job, running, now) - sum(job.attained_service.values())
    service = dict(job.attained_service)
    service[running.gpu_model] = service.get(running.gpu_model, 0.0) + received
    return replace(job, attained_service=service, attempts=job.attempts + 1)


def executed_seconds(job: Job, running: Running | None, now: float) -> float:
    """Return how long a job has run at its own size, up to now; for a job without GPUs, in its present
    attempt.
    """
    amount = amount_of(job)
    if amount:
        return attained_service(job, running, now) / amount
    begun = now if running is None or running.phase != "held" else running.since_of(job.id)
    return max(0.0, now - begun)
