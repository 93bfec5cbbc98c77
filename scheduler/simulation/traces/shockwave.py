"""Shockwave (NSDI'23): our CSVs of its traces, with each job's schedule of batch sizes.

batch_size_schedule is `<batch>x<epochs>;...` and epoch_seconds_by_batch_size is `<batch>:<seconds>;...`, both
made by the authors' generator for V100s (see the data's README). The simulator follows the schedule. The
scheduler sees the number of epochs, the batch sizes that the job uses, how long an epoch takes with each,
and, as the job runs, how many epochs are done with each. It does not see their order or how many epochs each
will have. The authors' scheduler, too, knows which batch sizes will be used. A job of weight w gets priority
w - 1.
"""

from __future__ import annotations

from itertools import groupby

from scheduler.core.model.training import Regime
from scheduler.core.sim.workload import Phase
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
        "Jobs change their batch sizes, and so their speeds, as they run; the scheduler sees only the past."
    )

    def job(row: tuple[str, ...]) -> TracedJob:
        arrival, kind, gpus, weight, schedule, epochs = row
        regimes = _regimes(epochs)
        phases = _phases(schedule, regimes)
        return TracedJob(
            seconds("arrival_s", arrival),
            count("scale_factor", gpus),
            sum([phase.seconds for phase in phases]),
            application=named("job_type", kind),
            priority=max(0, round(number("priority_weight", weight)) - 1),
            phases=phases,
            regimes=regimes,
        )

    source.read(source.rows(_COLUMNS), job)


def _regimes(text: str) -> tuple[Regime, ...]:
    field = "epoch_seconds_by_batch_size"
    known = {
        count(field, batch, "samples a step"): positive(field, duration, "seconds")
        for batch, duration in _pairs(field, text, ":")
    }
    return tuple([Regime(batch_size=batch, epoch_seconds=known[batch]) for batch in sorted(known)])


def _phases(text: str, regimes: tuple[Regime, ...]) -> tuple[Phase, ...]:
    field = "batch_size_schedule"
    by_batch = {regime.batch_size: regime.epoch_seconds for regime in regimes}
    listed = []
    for batch, times in _pairs(field, text, "x"):
        size = count(field, batch, "samples a step")
        if size not in by_batch:
            raise BadField(field, f"batch size {batch} has no entry in epoch_seconds_by_batch_size")
        listed.append((size, count(field, times, "epochs")))
    # The authors' schedule lists a batch size twice in a row where two of its rules agree.
    return tuple(
        [
            Phase(
                batch_size=size,
                epochs=float(sum([epochs for _, epochs in run])),
                epoch_seconds=by_batch[size],
            )
            for size, run in groupby(listed, key=lambda pair: pair[0])
        ]
    )


def _pairs(field: str, text: str, between: str) -> list[tuple[str, str]]:
    pairs = [part.partition(between) for part in text.split(";") if part]
    if not pairs or not all(middle for _, middle, _ in pairs):
        raise BadField(field, f"{shown(text)} is not a list like 32{between}28;64{between}10")
    return [(left, right) for left, _, right in pairs]
