"""The sizes of an elastic job as our own format states them, checked by the rule of rounds for its gang."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scheduler.core.model import wording
from scheduler.core.model.snapshot import ADAPTIVE, FIXED_WORLD, RESIZABLE, Task
from scheduler.simulation.traces import fields
from scheduler.simulation.traces.fields import BadField, shown
from scheduler.simulation.traces.reading import GPUS_PER_NODE, gang
from scheduler.simulation.traces.source import TracedJob

_MODES = (RESIZABLE, ADAPTIVE, FIXED_WORLD)


def bounds_of(
    given: Mapping[str, Any], job: TracedJob, tasks: Sequence[Task] | None, gpus_per_node: int | None
) -> tuple[int, int] | None:
    """Return the fewest and the most GPUs; None for a job that states neither, nor a mode.

    `tasks` are None where only the size of the gang is given, which nodes of `gpus_per_node` then split.
    """
    if not {"min_gpus", "max_gpus", "elastic_mode"} & set(given):
        return None
    least = fields.count("min_gpus", given.get("min_gpus", job.gpus))
    most = fields.count("max_gpus", given.get("max_gpus", job.gpus))
    if least > job.gpus:
        raise BadField("min_gpus", f"{least} is more than its own {job.gpus} GPUs; it must be at most that")
    if most < job.gpus:
        raise BadField("max_gpus", f"{most} is less than its own {job.gpus} GPUs; it must be at least that")
    if job.elastic_mode == FIXED_WORLD and most > job.gpus:
        raise BadField(
            "max_gpus", f"{most} is more than its replicas can use; at most {job.gpus} in a fixed world"
        )
    if tasks is not None and len(tasks) > 1:
        raise BadField("min_gpus", "is of a gang of one task; this one has several")
    only = tasks[0] if tasks else gang(job.gpus, gpus_per_node or GPUS_PER_NODE)
    for name, size in (("min_gpus", least), ("max_gpus", most)):
        if only.gpus and size % only.gpus:
            raise BadField(name, _no_multiple(size, only, is_given=tasks is not None))
    return least, most


def _no_multiple(size: int, task: Task, *, is_given: bool) -> str:
    """Return what is wrong with a size that no whole number of replicas has, and what would be right."""
    gpus = task.replicas * task.gpus
    smaller = (
        "fewer gpus_per_replica" if is_given else f"replicas: {gpus} and gpus_per_replica: 1 instead of gpus"
    )
    return (
        f"{size} is not a multiple of the {task.gpus} GPUs of one replica, by which an elastic job grows and"
        f" shrinks; give a multiple, or {smaller}"
    )


def mode_of(value: Any) -> str:
    """Return the mode; raise BadField for another word."""
    if value in _MODES:
        return str(value)
    raise BadField("elastic_mode", f"{shown(value)} is not {wording.either(_MODES)}")
