"""The solver's input: the jobs of a view as an instance of the allocation problem."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, product

import numpy as np

from scheduler.core.building_blocks.co_location import CoLocation
from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.sharing import weights_of
from scheduler.core.building_blocks.time_shares.run_options import RunOption, RunOptions
from scheduler.core.model.snapshot import Job, JobId
from scheduler.core.solvers.checking import ABSURD, checked_instance
from scheduler.core.solvers.instance import Floats, Instance, Pairs

#: The most predicted pairs, those with the largest gain; each makes the solver slower.
FORETOLD_MOST = 500
#: What decides a job's speed, alone and shared: its application, its size, its rates by model.
_JobClass = tuple[str, int, tuple[tuple[str, float], ...]]


@dataclass(frozen=True, slots=True)
class SolverInput:
    """The jobs that can run here on some model, as an instance, whose order is that of `jobs`."""

    instance: Instance
    jobs: tuple[JobId, ...]

    @property
    def digest(self) -> int:
        """Return a number that changes when jobs, GPUs or rates do, but not when jobs merely progress."""
        given = self.instance
        digest = zlib.crc32(" ".join(given.models).encode())
        for values in (
            np.array(self.jobs), given.gpus, given.throughput, given.gang, given.weight, given.price,
            given.entity, given.entity_weight,
        ):  # fmt: skip
            digest = zlib.crc32(np.ascontiguousarray(values).tobytes(), digest)
        return digest


def solver_input_of(
    view: View, run_options: RunOptions, *, by_tenant: bool, sharing: bool
) -> SolverInput | None:
    """Return the solver's input; None when no job could run. It contains pairs only when `sharing`.

    With `by_tenant`, the weights of the view's members are those of tenants; else those of each of their
    jobs. A job of priority p counts p + 1 times, or 1 / (1 - p) times below 0.
    """
    rows = [
        (job, run_option)
        for job in [view.jobs[number] for number in sorted(view.jobs)]
        if (run_option := run_options.of(job)) is not None
    ]
    if not rows:
        return None
    models, weights = tuple(run_options.gpus), believed_weights(view)
    tenants = {tenant: place for place, tenant in enumerate(weights)}
    job_classes: dict[_JobClass, int] = {}
    #: The first job of each job class.
    examples: list[Job] = []
    for job, run_option in rows:
        if job_classes.setdefault(_job_class(job, run_option), len(job_classes)) == len(examples):
            examples.append(job)
    instance = checked_instance(
        names=[str(job.id) for job, _ in rows],
        models=models,
        gpus=list(run_options.gpus.values()),
        price=[_price(view.prices.get(model, 1.0)) for model in models],
        throughput=[[run_option.rates.get(model, 0.0) for model in models] for _, run_option in rows],
        gang=[run_option.amount for _, run_option in rows],
        weight=[weight_of(job) * (1.0 if by_tenant else weights[job.tenant]) for job, _ in rows],
        steps_left=[run_options.steps_left(job) for job, _ in rows],
        age_seconds=[max(0.0, view.now - job.submitted_at) for job, _ in rows],
        slo_seconds=[math.inf if job.deadline_at is None else job.deadline_at - view.now for job, _ in rows],
        entity=[tenants[job.tenant] for job, _ in rows],
        entities=list(tenants),
        entity_weight=list(weights.values()),
        job_class=[job_classes[_job_class(job, run_option)] for job, run_option in rows],
        job_classes=[str(place) for place in range(len(job_classes))],
        pairs=_pairs(view, job_classes, models, examples) if sharing else None,
    )
    return SolverInput(instance, tuple([job.id for job, _ in rows]))


def _job_class(job: Job, run_option: RunOption) -> _JobClass:
    return job.application, run_option.gpus, tuple(run_option.rates.items())


def believed_weights(view: View) -> dict[str, float]:
    """Return the weight of each tenant; a value that is not a number counts as 0, and all are equal when all
    are 0.
    """
    stated = {tenant: weight if 0 <= weight <= ABSURD else 0.0 for tenant, weight in weights_of(view).items()}
    return stated if any(stated.values()) else dict.fromkeys(stated, 1.0)


def weight_of(job: Job) -> float:
    """Return the job's weight relative to priority 0."""
    return 1.0 + job.priority if job.priority >= 0 else 1 / (1.0 - job.priority)


def _price(price: float) -> float:
    return price if 0 < price <= ABSURD else 1.0


def _pairs(
    view: View, job_classes: Mapping[_JobClass, int], models: Sequence[str], examples: Sequence[Job]
) -> Pairs | None:
    """Return the speeds of job classes in pairs, where measured, or predicted for a job of each."""
    of_application: dict[tuple[str, int], list[_JobClass]] = {}
    for job_class in job_classes:
        of_application.setdefault(job_class[:2], []).append(job_class)
    found: dict[tuple[int, int], Floats] = {}
    for known in view.pair_speeds:
        if known.gpu_model not in models or not (min(known.speeds) > 0 and max(known.speeds) <= 1):
            continue
        column = models.index(known.gpu_model)
        one, other = [of_application.get((name, known.gpus), ()) for name in known.applications]
        for first, second in product(one, other):
            numbers = [job_classes[first], job_classes[second]]
            rates = [
                speed * dict(job_class[2]).get(known.gpu_model, 0.0)
                for job_class, speed in zip((first, second), known.speeds, strict=True)
            ]
            if numbers[0] > numbers[1]:
                numbers.reverse()
                rates.reverse()
            found.setdefault((numbers[0], numbers[1]), np.zeros((2, len(models))))[:, column] = rates
    found = _foretold(view, job_classes, models, examples) | found
    if not found:
        return None
    order = sorted(found)
    firsts, seconds = np.array(order).T
    return Pairs(first=firsts, second=seconds, throughput=np.array([found[pair] for pair in order]))


def _foretold(
    view: View, job_classes: Mapping[_JobClass, int], models: Sequence[str], examples: Sequence[Job]
) -> dict[tuple[int, int], Floats]:
    """Return the pairs that are expected to do more together than by turns, at most `FORETOLD_MOST`."""
    if not view.interference:
        return {}
    sizes = [gpus for _, gpus, _ in job_classes]
    numbers = [
        pair
        for pair in combinations_with_replacement(range(len(examples)), 2)
        if sizes[pair[0]] == sizes[pair[1]]
    ]
    answers = CoLocation(view).foretold([(examples[one], examples[other]) for one, other in numbers])
    known = [(pair, speeds) for pair, speeds in zip(numbers, answers, strict=True) if speeds]
    best = sorted(known, key=lambda each: (-sum(each[1]), each[0]))[:FORETOLD_MOST]
    rates = np.array([[dict(rates).get(model, 0.0) for model in models] for _, _, rates in job_classes])
    found = {}
    for pair, speeds in best:
        own = rates[list(pair)]
        if sum(speeds) > 1:
            found[pair] = np.where((own > 0).all(axis=0), np.array(speeds)[:, None] * own, 0.0)
    return found
