"""Chronus (SoCC'21): two weeks of Philly with deadlines. Times are minutes; rows are not in order of time.

`user` names one of Philly's virtual clusters, which the authors assigned to jobs at random; here it is the
tenant and the virtual cluster. Deadlines and values are not used. A few hundred rows that ask for 0 GPUs are
problems.
"""

from __future__ import annotations

from scheduler.simulation.traces.fields import count, named, seconds, truth
from scheduler.simulation.traces.source import Source, TracedJob

_COLUMNS = ("submit_time", "user", "num_gpu", "duration", "model_name")


def read(source: Source) -> None:
    """Read the jobs with their models."""
    opportunistic = source.options.best_effort == "opportunistic"
    source.notes.append("Deadlines were not used.")

    def job(row: tuple[str, ...]) -> TracedJob:
        submitted, user, gpus, duration, model, best_effort = row
        vc = named("user", user)
        return TracedJob(
            60 * seconds("submit_time", submitted, "minutes"),
            count("num_gpu", gpus),
            60 * seconds("duration", duration, "minutes"),
            vc,
            vc,
            application=named("model_name", model),
            guaranteed=not (truth("best_effort", best_effort or "0") and opportunistic),
        )

    source.read(source.rows(_COLUMNS, ("best_effort",)), job)
