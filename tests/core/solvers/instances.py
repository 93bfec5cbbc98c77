"""Random instances, nasty ones included: equal jobs, ties, models without GPUs, jobs that hardly run."""

from __future__ import annotations

from typing import Any

import numpy as np

from scheduler.core.solvers.checking import checked_instance
from scheduler.core.solvers.instance import Instance, Pairs

#: An instance of each way to be nasty, in turn.
FLAVOURS = ("plain", "ties", "few GPUs", "many GPUs", "zeros", "one model", "skewed", "late")


def random_instance(seed: int, *, jobs: int = 6, pairs: bool = False) -> Instance:
    """Return an instance of at most so many jobs, each of which runs somewhere."""
    rng = np.random.default_rng(seed)
    flavour = FLAVOURS[seed % len(FLAVOURS)]
    count = int(rng.integers(1, jobs + 1))
    models = 1 if flavour == "one model" else int(rng.integers(2, 4))
    # Jobs of a class are equally fast, so that some are alike.
    job_classes = int(rng.integers(1, count + 1))
    throughputs = 10 ** rng.uniform(-1, 2, (job_classes, 1)) * rng.uniform(0.2, 1.0, (job_classes, models))
    if flavour == "ties":
        throughputs = rng.integers(1, 3, (job_classes, models)).astype(float)
    if flavour == "zeros":
        throughputs[rng.random((job_classes, models)) < 0.4] = 0.0
    gangs = rng.choice([1, 1, 2, 4], job_classes)
    job_class = rng.integers(0, job_classes, count)
    gpus = rng.integers(0, 2 * count + 1, models)
    if flavour in ("few GPUs", "many GPUs"):
        gpus = np.full(models, 1 if flavour == "few GPUs" else 8 * count)
    # Somebody must be able to run: one model has room for all gangs, and everybody runs there.
    gpus[0] = max(gpus[0], gangs.max())
    throughputs[:, 0] = np.where(throughputs[:, 0] > 0, throughputs[:, 0], 1.0)
    spread = 3.0 if flavour == "skewed" else 1.0
    weight = 10 ** rng.uniform(-spread / 2, spread / 2, count) if rng.random() < 0.7 else np.ones(count)
    if count > 1 and rng.random() < 0.2:
        weight[0] = 0.0
    given: dict[str, Any] = {}
    if pairs:
        given["pairs"] = random_pairs(rng, throughputs, gangs)
    entities = 3
    return checked_instance(
        throughput=throughputs[job_class],
        gpus=gpus,
        price=rng.uniform(0.5, 4.0, models),
        gang=gangs[job_class],
        weight=weight,
        steps_left=10 ** rng.uniform(2, 2 + spread * 1.5, count),
        age_seconds=rng.choice([0.0, 1.0], count)
        * 10 ** rng.uniform(1, 5 if flavour == "late" else 3, count),
        slo_seconds=np.where(rng.random(count) < 0.6, 10 ** rng.uniform(1, 5, count), np.inf),
        entity=rng.integers(0, entities, count),
        entities=[f"team {number}" for number in range(entities)],
        entity_weight=rng.uniform(0.5, 3.0, entities),
        job_class=job_class,
        job_classes=[f"class {number}" for number in range(job_classes)],
        **given,
    )


def random_pairs(rng: np.random.Generator, throughputs: np.ndarray, gangs: np.ndarray) -> Pairs:
    """Return throughputs of all pairs of classes with equal gangs, better and worse than taking turns."""
    one, other = np.triu_indices(len(throughputs))
    same = gangs[one] == gangs[other]
    one, other = one[same], other[same]
    both = np.stack([throughputs[one], throughputs[other]], axis=1)
    return Pairs(first=one, second=other, throughput=both * rng.uniform(0.2, 0.95, both.shape))


def large_instance(jobs: int, seed: int = 0) -> Instance:
    """Return an instance of many jobs of which no two are alike."""
    rng = np.random.default_rng(seed)
    throughputs = (
        10 ** rng.uniform(-1, 2, (jobs, 1)) * np.array([1.0, 0.6, 0.25]) * rng.uniform(0.6, 1.6, (jobs, 3))
    )
    throughputs[rng.random((jobs, 3)) < 0.05] = 0.0
    throughputs[:, 0] = np.maximum(throughputs[:, 0], 0.1)
    return checked_instance(
        throughput=throughputs,
        gpus=np.full(3, jobs // 4),
        gang=rng.choice([1, 2, 4, 8], jobs, p=[0.7, 0.1, 0.15, 0.05]),
        weight=rng.choice([1.0, 5.0], jobs),
        steps_left=10 ** rng.uniform(2, 6, jobs),
        age_seconds=rng.uniform(0, 1e5, jobs),
    )
