"""Muri (SIGCOMM'22): Tiresias's columns in milliseconds, with stage times and a priority.

The times of an iteration's stages (storage, GPU, network) are not carried over. `priority` is 0 or 1,
higher first.
"""

from __future__ import annotations

from scheduler.simulation.traces.fields import count, named, seconds, whole
from scheduler.simulation.traces.source import Source, TracedJob

_COLUMNS = ("submit_time", "num_gpu", "duration", "model_name")


def read(source: Source) -> None:
    """Read the jobs with their models and priorities."""

    def job(row: tuple[str, ...]) -> TracedJob:
        submitted, gpus, duration, model, priority = row
        return TracedJob(
            seconds("submit_time", submitted, "milliseconds") / 1000,
            count("num_gpu", gpus),
            seconds("duration", duration, "milliseconds") / 1000,
            application=named("model_name", model),
            priority=whole("priority", priority or "0"),
        )

    source.read(source.rows(_COLUMNS, ("priority",)), job)
