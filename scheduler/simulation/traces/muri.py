"""Muri (SIGCOMM'22): Tiresias's columns in milliseconds, with iterations and the times of their stages.

The run time is iterations x iteration time, by which the authors' simulator counts work; `duration`, by which
it does not, differs from that. The times of the stages (storage, GPU, network) are not carried over. Nor is
`priority`: it is the simulator's own bookkeeping, and no job's rank before others.
"""

from __future__ import annotations

from scheduler.simulation.traces.fields import count, named, seconds
from scheduler.simulation.traces.source import Source, TracedJob

_COLUMNS = ("submit_time", "num_gpu", "iterations", "iteration_time", "model_name")


def read(source: Source) -> None:
    """Read the jobs with their models."""

    def job(row: tuple[str, ...]) -> TracedJob:
        submitted, gpus, iterations, iteration_time, model = row
        milliseconds = seconds("iteration_time", iteration_time, "milliseconds")
        return TracedJob(
            seconds("submit_time", submitted, "milliseconds") / 1000,
            count("num_gpu", gpus),
            count("iterations", iterations, "iterations") * milliseconds / 1000,
            application=named("model_name", model),
        )

    source.read(source.rows(_COLUMNS), job)
