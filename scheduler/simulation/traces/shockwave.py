"""Shockwave (NSDI'23): our CSVs of its traces, with each job's schedule of batch sizes.

The run time is that of the schedule: batch_size_schedule is `<batch>x<epochs>;...` and
epoch_seconds_by_batch_size is `<batch>:<seconds>;...`, both made by the authors' generator for V100s (see
the data's README). The simulator sees only the total, not the changes of speed in between. Weights: 1 is
priority 0, a larger one is that priority.
"""

from __future__ import annotations

from scheduler.simulation.traces.fields import BadField, count, named, number, positive, seconds, shown
from scheduler.simulation.traces.source import Source, TracedJob

_COLUMNS = (
    "arrival_s",
    "job_type",
    "scale_factor",
    "priority_weight",
    "batch_size_schedule",
    "epoch_seconds_by_batch_size",
)


def read(source: Source) -> None:
    """Read the jobs; their kind is the job type at submission."""
    source.notes.append(
        "A job's changes of batch size are in its run time; its speed is taken to be constant."
    )

    def job(row: tuple[str, ...]) -> TracedJob:
        arrival, kind, gpus, weight, schedule, epochs = row
        priority = number("priority_weight", weight)
        return TracedJob(
            seconds("arrival_s", arrival),
            count("scale_factor", gpus),
            _run_seconds(schedule, epochs),
            application=named("job_type", kind),
            priority=0 if priority <= 1 else round(priority),
        )

    source.read(source.rows(_COLUMNS), job)


def _run_seconds(schedule: str, epochs: str) -> float:
    by_batch = {
        batch: positive("epoch_seconds_by_batch_size", text, "seconds")
        for batch, text in _pairs("epoch_seconds_by_batch_size", epochs, ":")
    }
    total = 0.0
    for batch, times in _pairs("batch_size_schedule", schedule, "x"):
        if batch not in by_batch:
            raise BadField(
                "batch_size_schedule", f"batch size {batch} has no entry in epoch_seconds_by_batch_size"
            )
        total += count("batch_size_schedule", times, "epochs") * by_batch[batch]
    return total


def _pairs(field: str, text: str, between: str) -> list[tuple[str, str]]:
    pairs = [part.partition(between) for part in text.split(";") if part]
    if not pairs or not all(middle for _, middle, _ in pairs):
        raise BadField(field, f"{shown(text)} is not a list like 32{between}28;64{between}10")
    return [(left, right) for left, _, right in pairs]
