"""Tiresias (NSDI'19), inputs of its simulator.

Columns: job_id, num_gpu, submit_time, iterations, model_name, duration, interval.
Times are seconds. `interval`, the time to the next submission, repeats submit_time and is not used.
"""

from __future__ import annotations

from scheduler.simulation.traces.fields import count, named, seconds
from scheduler.simulation.traces.source import Source, TracedJob

_COLUMNS = ("submit_time", "num_gpu", "duration", "model_name")


def read(source: Source) -> None:
    """Read the jobs with their models."""

    def job(row: tuple[str, ...]) -> TracedJob:
        submitted, gpus, duration, model = row
        return TracedJob(
            seconds("submit_time", submitted),
            count("num_gpu", gpus),
            seconds("duration", duration),
            application=named("model_name", model),
        )

    source.read(source.rows(_COLUMNS), job)
