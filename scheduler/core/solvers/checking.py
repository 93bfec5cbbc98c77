"""Make an instance from arrays of unknown origin, and report everything that is wrong with them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from scheduler.core.solvers.errors import InstanceError, Problem
from scheduler.core.solvers.instance import Flags, Floats, Instance, Ints, Pairs

#: The largest throughput, weight, number of steps or time; a larger one is a mistake in the source.
ABSURD = 1e15
#: A throughput below this part of the job's best counts as zero: a solver could not distinguish them.
NEGLIGIBLE = 1e-6
#: The most jobs that a message names before "and so on".
NAMED = 20


def checked_instance(
    *,
    throughput: ArrayLike,
    gpus: ArrayLike,
    names: Sequence[str] | None = None,
    models: Sequence[str] | None = None,
    price: ArrayLike | None = None,
    gang: ArrayLike = 1,
    weight: ArrayLike = 1.0,
    steps_left: ArrayLike = np.nan,
    age_seconds: ArrayLike = 0.0,
    slo_seconds: ArrayLike = np.inf,
    isolated_seconds: ArrayLike | None = None,
    entity: ArrayLike = 0,
    entities: Sequence[str] = ("",),
    entity_weight: ArrayLike = 1.0,
    job_class: ArrayLike | None = None,
    job_classes: Sequence[str] = ("",),
    pairs: Pairs | None = None,
) -> Instance:
    """Return the instance; raise InstanceError that names each job and field at fault.

    Each quantity of the jobs is an array with an entry per job, or one number for all of them. Without
    `isolated_seconds` every job counts as having done as well so far as on its own part: its age.
    """
    throughputs = np.array(throughput, dtype=np.float64, ndmin=2)
    amounts = np.array(gpus, dtype=np.float64, ndmin=1)
    jobs, count = len(throughputs) if throughputs.size else 0, len(amounts)
    if jobs and throughputs.shape != (jobs, count):
        what = f"has {throughputs.shape[1]} columns for {count} models"
        raise InstanceError([Problem("", "throughput", what, "one column per model")])

    def of_jobs(name: str, values: ArrayLike) -> Floats:
        return _spread(name, values, jobs, "job")

    age = of_jobs("age_seconds", age_seconds)
    instance = Instance(
        names=tuple(names if names is not None else [str(job) for job in range(jobs)]),
        models=tuple(models if models is not None else [str(model) for model in range(count)]),
        gpus=amounts,
        price=_spread("price", 1.0 if price is None else price, count, "model"),
        throughput=throughputs.reshape(jobs, count),
        gang=of_jobs("gang", gang),
        weight=of_jobs("weight", weight),
        steps_left=of_jobs("steps_left", steps_left),
        age_seconds=age,
        slo_seconds=of_jobs("slo_seconds", slo_seconds),
        isolated_seconds=age if isolated_seconds is None else of_jobs("isolated_seconds", isolated_seconds),
        entity=of_jobs("entity", entity).astype(np.int64),
        entities=tuple(entities),
        entity_weight=_spread("entity_weight", entity_weight, len(entities), "entity"),
        job_class=of_jobs("job_class", 0 if job_class is None else job_class).astype(np.int64),
        job_classes=tuple(job_classes),
        pairs=None if pairs is None else replace(pairs, throughput=pairs.throughput.copy()),
    )
    if problems := [*_of_cluster(instance), *_of_jobs(instance), *_of_pairs(instance)]:
        raise InstanceError(problems)
    return _effective(instance)


def _spread(name: str, values: ArrayLike, count: int, of: str) -> Floats:
    try:
        return np.array(np.broadcast_to(np.asarray(values, dtype=np.float64), (count,)))
    except ValueError:
        what = f"has {np.size(values)} entries for {count}"
        raise InstanceError([Problem("", name, what, f"one number per {of}, or one for all")]) from None


def _effective(instance: Instance) -> Instance:
    """Set throughputs to zero where a gang does not fit or the number is negligible; even pairs of one class.

    In a pair of one class, chance decides which job is the first, and measurements of the two differ; both
    get the mean.
    """
    best = instance.throughput.max(axis=1, initial=0.0, keepdims=True)
    fits = instance.gang[:, None] <= instance.gpus
    instance.throughput[~fits | (instance.throughput < NEGLIGIBLE * best)] = 0.0
    if instance.pairs is not None:
        alike = instance.pairs.first == instance.pairs.second
        throughputs = instance.pairs.throughput
        throughputs[alike] = throughputs[alike].mean(axis=1, keepdims=True)
    return instance


def _of_cluster(instance: Instance) -> Iterable[Problem]:
    if len(set(instance.models)) != len(instance.models):
        yield Problem("", "models", "two have the same name", "names that differ")
    for model, gpus, price in zip(instance.models, instance.gpus, instance.price, strict=True):
        if not (0 <= gpus <= ABSURD and gpus == int(gpus)):
            yield Problem(f"model {model}", "gpus", f"is {gpus:g}", "a whole number, zero or more")
        if not 0 < price <= ABSURD:
            yield Problem(f"model {model}", "price", f"is {price:g}", "a positive number")
    if not instance.gpus.sum() > 0:
        yield Problem("", "gpus", "there is not one GPU", "at least one model with a GPU")
    for name, weight in zip(instance.entities, instance.entity_weight, strict=True):
        if not 0 <= weight <= ABSURD:
            yield Problem(f"entity {name}", "weight", f"is {weight:g}", "a number, zero or more")


def _of_jobs(instance: Instance) -> Iterable[Problem]:
    if len(set(instance.names)) != len(instance.names):
        yield Problem("", "names", "two jobs have the same name", "names that differ")
    throughputs = instance.throughput
    wrong = ~((throughputs >= 0) & (throughputs <= ABSURD))
    for job in np.flatnonzero(wrong.any(axis=1))[:NAMED]:
        model = int(np.flatnonzero(wrong[job])[0])
        where = f"throughput on {instance.models[model]}"
        hint = f"steps per second, from 0 (does not run there) to {ABSURD:g}"
        yield Problem(f"job {instance.names[job]}", where, f"is {throughputs[job, model]:g}", hint)
    gang = instance.gang
    yield from _named(
        instance, "gang", gang, ~((gang >= 1e-3) & (gang <= ABSURD)), "GPUs, or a part of one: 0.001 or more"
    )
    for field, hint in (("weight", "a number, zero or more"), ("age_seconds", "seconds, zero or more"),
                        ("isolated_seconds", "seconds, zero or more")):  # fmt: skip
        values = getattr(instance, field)
        yield from _named(instance, field, values, ~((values >= 0) & (values <= ABSURD)), hint)
    steps = instance.steps_left
    yield from _named(
        instance, "steps_left", steps, (steps <= 0) | (steps > ABSURD), "more than zero, or not given"
    )
    slo = instance.slo_seconds
    yield from _named(
        instance, "slo_seconds", slo, np.isnan(slo), "seconds from now; missed already when not positive"
    )
    if instance.jobs and instance.weight.sum() == 0:
        yield Problem(
            "", "weight", "the weights of all jobs sum to zero", "a positive weight for at least one job"
        )
    for field, count in (("entity", len(instance.entities)), ("job_class", len(instance.job_classes))):
        number = getattr(instance, field)
        yield from _named(
            instance, field, number, (number < 0) | (number >= count), f"an index below {count}"
        )


def _named(instance: Instance, field: str, values: Any, wrong: Flags, hint: str) -> Iterable[Problem]:
    for job in np.flatnonzero(wrong)[:NAMED]:
        yield Problem(f"job {instance.names[job]}", field, f"is {values[job]:g}", hint)


def _of_pairs(instance: Instance) -> Iterable[Problem]:
    pairs = instance.pairs
    if pairs is None:
        return
    if pairs.throughput.shape != (len(pairs.first), 2, len(instance.models)):
        yield Problem("", "pairs", "throughput is not pairs × 2 × models", "two numbers per pair and model")
        return
    gangs = _gangs(instance)
    seen = set()
    for number, (one, other) in enumerate(zip(pairs.first, pairs.second, strict=True)):
        subject = f"pair {number + 1}"
        if not (0 <= one < len(instance.job_classes) and 0 <= other < len(instance.job_classes)):
            expected = f"indices below {len(instance.job_classes)}"
            yield Problem(subject, "job_classes", "there is no such job class", expected)
            continue
        subject = f"pair of {instance.job_classes[one]} and {instance.job_classes[other]}"
        if len(sizes := gangs.get(int(one), set()) | gangs.get(int(other), set())) > 1:
            listed = " and ".join(f"{size:g}" for size in sorted(sizes))
            yield Problem(
                subject,
                "job_classes",
                f"have gangs of {listed} GPUs",
                "two jobs share GPUs when both need equally many",
            )
        throughputs = pairs.throughput[number]
        if not ((throughputs >= 0) & (throughputs <= ABSURD)).all():
            worst = throughputs[~((throughputs >= 0) & (throughputs <= ABSURD))][0]
            yield Problem(subject, "throughput", f"is {worst:g}", f"steps per second, from 0 to {ABSURD:g}")
        key = (min(one, other), max(one, other))
        if key in seen:
            yield Problem(subject, "job_classes", "is given twice", "one entry per two classes")
        seen.add(key)


def _gangs(instance: Instance) -> dict[int, set[float]]:
    """Return the gang sizes of each class."""
    found: dict[int, set[float]] = {}
    thousandths = np.round(instance.gang * 1_000).astype(np.int64)
    both: Ints = np.unique(np.column_stack([instance.job_class, thousandths]), axis=0)
    for job_class, gang in both:
        found.setdefault(int(job_class), set()).add(float(gang) / 1_000)
    return found
