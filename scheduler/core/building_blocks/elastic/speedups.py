"""The speedup of each gang of a pool over its fair share, by number of replicas."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from scheduler.core.building_blocks.elastic.arrangement import Gang
from scheduler.core.goodput.batch import GoodputModel, Limits, Noise, best_batches
from scheduler.core.goodput.throughput import Floats, GoodputError, Parameters
from scheduler.core.model.snapshot import Job


def goodput_model_of(job: Job, gpu_model: str) -> GoodputModel | None:
    """Return a job's goodput model on a GPU model; None where nothing usable was measured."""
    facts = job.goodput
    if facts is None or gpu_model not in facts.parameters:
        return None
    try:
        limits = Limits(
            initial_batch=facts.initial_batch,
            max_batch=facts.max_batch,
            min_local_batch=facts.min_local_batch,
            max_local_batch=facts.max_local_batch,
        )
        return GoodputModel(Parameters(*facts.parameters[gpu_model]), Noise(*facts.noise), limits)
    except GoodputError:
        return None


def relative_goodput(
    job: Job, gpu_model: str, gpus: int, *, is_spread: bool = False, own_is_spread: bool = False
) -> float | None:
    """Return how many times as fast as its own gang an elastic job is on `gpus` GPUs of a model.

    `is_spread`, `own_is_spread`: whether these GPUs, and those of its own gang, are on several nodes. None
    where nothing was measured, or the model predicts no progress.
    """
    if (gpus, is_spread) == (job.gpus, own_is_spread):
        return 1.0
    model = goodput_model_of(job, gpu_model)
    if model is None:
        return None
    each = job.tasks[0].gpus
    replicas = (gpus // each, job.gpus // each)
    here, own = replicas
    nodes = min(1 + is_spread, here), min(1 + own_is_spread, own)
    return _relative_goodputs(model, nodes, replicas)[0] or None


def relative_goodputs(
    job: Job, gpu_model: str, gpus: Sequence[int], largest_node: int
) -> Sequence[float] | None:
    """Return how many times as fast as its own gang an elastic job is on each of these numbers of GPUs.

    A size above `largest_node` GPUs is spread over several nodes. 0 where the model predicts no progress;
    None where nothing was measured.
    """
    model = goodput_model_of(job, gpu_model)
    if model is None:
        return None
    each, counts = job.tasks[0].gpus, (*gpus, job.gpus)
    replicas = tuple([count // each for count in counts])
    nodes = tuple([min(1 + (count > largest_node), count // each) for count in counts])
    return _relative_goodputs(model, nodes, replicas)


# Policies ask in each round, but the answer changes only when a job's model is fitted again.
@lru_cache(maxsize=4096)
def _relative_goodputs(
    model: GoodputModel, nodes: tuple[int, ...], replicas: tuple[int, ...]
) -> tuple[float, ...]:
    *found, own = model.best(nodes, replicas).goodput.tolist()
    return tuple([here / own if here > 0 and own > 0 else 0.0 for here in found])


def speedup_table(
    models: Sequence[GoodputModel | None], gangs: Sequence[Gang], fair_gpus: float, is_rigid: Sequence[bool]
) -> Floats:
    """Return speedups by (0 on one node or 1 on several, gang, replicas).

    The fair share is on one node, as in Pollux's published code. A gang without measurements scales
    perfectly; a gang of fixed size has speedup 1 at that size. A size that a gang cannot have has speedup 0.
    """
    width = max([gang.sizes[-1] for gang in gangs], default=0) + 1
    found = np.zeros((2, len(gangs), width))
    rows: list[tuple[int, int, int]] = []
    fair = [max(math.ceil(fair_gpus / gang.replica_gpus - 1e-9), 1) for gang in gangs]
    for number, gang in enumerate(gangs):
        sizes = np.array(gang.sizes, dtype=np.int64)
        if is_rigid[number]:
            found[:, number, sizes] = 1.0
        elif models[number] is None:
            found[:, number, sizes] = sizes / fair[number]
        else:
            rows += [(number, 1, fair[number])]
            rows += [(number, nodes, size) for size in gang.sizes for nodes in (1, 2) if nodes <= size]
    if not rows:
        return found
    gang_of, nodes, replicas = np.array(rows, dtype=np.int64).T
    known = [number for number, model in enumerate(models) if model is not None]
    place = np.zeros(len(gangs), dtype=np.int64)
    place[known] = np.arange(len(known))
    measured = [model for model in models if model is not None]
    goodput = best_batches(measured, place[gang_of], nodes, replicas).goodput
    at_fair = np.zeros(len(gangs))
    is_first = np.append(True, gang_of[1:] != gang_of[:-1])
    at_fair[gang_of[is_first]] = goodput[is_first]
    inside = ~is_first
    found[nodes[inside] - 1, gang_of[inside], replicas[inside]] = goodput[inside]
    for number in np.unique(gang_of[is_first]).tolist():
        most = found[:, number].max()
        # Where it cannot run on its fair share, it is compared with its best size.
        found[:, number] /= at_fair[number] or most or 1.0
    return found
