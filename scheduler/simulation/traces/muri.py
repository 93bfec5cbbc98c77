"""Muri (SIGCOMM'22): Tiresias's columns in milliseconds, with iterations and the times of their stages.

The run time is iterations x iteration time, as the authors' simulator counts work; it ignores `duration`,
which differs. The times of the stages (storage with CPUs, GPU, network) are the job's profile. `priority` is
not read, because it is the simulator's own bookkeeping and does not rank jobs.
"""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.core.model.training import Profile
from scheduler.simulation.traces.fields import count, named, seconds
from scheduler.simulation.traces.source import Source, TracedJob

_COLUMNS = ("submit_time", "num_gpu", "iterations", "iteration_time", "model_name")
_STAGES = ("resource_time_0", "resource_time_1", "resource_time_2")


def read(source: Source) -> None:
    """Read the jobs with their models."""

    def job(row: tuple[str, ...]) -> TracedJob:
        submitted, gpus, iterations, iteration_time, model, *stages = row
        milliseconds = seconds("iteration_time", iteration_time, "milliseconds")
        return TracedJob(
            seconds("submit_time", submitted, "milliseconds") / 1000,
            count("num_gpu", gpus),
            count("iterations", iterations, "iterations") * milliseconds / 1000,
            application=named("model_name", model),
            profile=_profile(stages),
        )

    source.read(source.rows(_COLUMNS, _STAGES), job)


def _profile(stages: Sequence[str]) -> Profile | None:
    if not all(stages):
        return None
    storage, gpu, network = [
        seconds(name, each, "milliseconds") / 1000 for name, each in zip(_STAGES, stages, strict=True)
    ]
    return Profile(stages=(storage, gpu, network)) if storage + gpu + network > 0 else None
