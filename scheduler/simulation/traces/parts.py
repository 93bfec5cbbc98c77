"""Parts of a GPU as traces, scenarios and the generator write them: a number of GPUs below 1."""

from __future__ import annotations

import math
from collections.abc import Iterable

from scheduler.core.model.gpu_parts import WHOLE_GPU, GpuPart
from scheduler.core.model.snapshot import Task
from scheduler.simulation.traces.fields import as_float, count


def replica(field: str, value: str | float, replicas: int = 1, *, least: int = 1) -> Task:
    """Return replicas with that number of GPUs each, a part of one or at least `least`.

    Raises BadField for another number.
    """
    number = as_float(value)
    if 0 < number < 1:
        # Round up to a thousandth, as the platform does; 0.29 times 1,000 is slightly above 290.
        return part_of_one(math.ceil(round(number * WHOLE_GPU, 6)), replicas)
    return Task(replicas=replicas, gpus=count(field, value, least=least))


def part_of_one(thousandths: int, replicas: int = 1) -> Task:
    """Return replicas that each have exactly that number of thousandths of a GPU."""
    if thousandths >= WHOLE_GPU:
        return Task(replicas=replicas, gpus=1)
    return Task(replicas=replicas, gpus=1, part=GpuPart(request=thousandths, limit=thousandths))


def amount(tasks: Iterable[Task]) -> float:
    """Return how many GPUs a gang asks for; a whole number unless it has parts."""
    milligpus = sum([task.replicas * task.milligpus for task in tasks])
    return milligpus // WHOLE_GPU if milligpus % WHOLE_GPU == 0 else milligpus / WHOLE_GPU
