"""Turn the jobs that a reader found into a workload: their order, gangs, estimates, and notes."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from random import Random

from scheduler.core.model import wording
from scheduler.core.model.snapshot import Job, JobId, Task
from scheduler.core.model.training import Training
from scheduler.core.sim.workload import Arrival, Truth, Workload
from scheduler.simulation.errors import Problem
from scheduler.simulation.traces.options import TraceOptions
from scheduler.simulation.traces.source import TracedJob

#: The GPUs of a node where neither the trace nor the options state them.
GPUS_PER_NODE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The result of reading a trace. Rows with problems are not in the workload, whose notes count them."""

    workload: Workload
    problems: tuple[Problem, ...] = ()


def gang(gpus: int, gpus_per_node: int) -> Task:
    """Return a gang of that many GPUs as replicas of equal size, none larger than a node, as few as possible.

    8 GPUs on nodes of 8 are one replica; 12 are two of 6, 20 are four of 5, 13 are thirteen of 1, and
    none are one replica.
    """
    if not gpus:
        return Task(replicas=1, gpus=0)
    size = next(size for size in range(min(gpus, gpus_per_node), 0, -1) if gpus % size == 0)
    return Task(replicas=gpus // size, gpus=size)


def make_workload(
    name: str,
    traced: Sequence[TracedJob],
    options: TraceOptions,
    *,
    gpus_per_node: int = GPUS_PER_NODE,
    limit: int | None = None,
    notes: Sequence[str] = (),
    left_out: Sequence[str] = (),
) -> Workload:
    """Return the workload of these jobs: by submission, the first at 0, ids 1, 2, ...

    `limit` keeps the first jobs to arrive. Jobs with equal submissions keep their order in the file.
    """
    said = list(notes)
    submissions = [job.submitted_at for job in traced]
    ordered: Sequence[TracedJob] = traced
    if any(map(float.__gt__, submissions, submissions[1:])):
        ordered = sorted(traced, key=itemgetter(0))
    if limit is not None and len(ordered) > limit:
        said.append(f"Only the first {limit:,} of {len(ordered):,} jobs.")
        ordered = ordered[:limit]
    per_node = options.gpus_per_node or gpus_per_node
    if any(job.gpus > per_node and job.tasks is None for job in ordered):
        said.append(
            f"Jobs of more than {per_node} GPUs were split into equal replicas of at most {per_node}."
        )
    said += _about_estimates(ordered, options)
    return Workload(
        name=name,
        arrivals=_arrivals(ordered, options, per_node),
        notes=tuple(said),
        left_out=tuple(left_out),
    )


def _about_estimates(jobs: Sequence[TracedJob], options: TraceOptions) -> list[str]:
    if all(job.own_estimate for job in jobs):
        return []
    if options.estimates == "none":
        return ["The scheduler does not know how long jobs run."]
    if options.estimate_error:
        sigma = options.estimate_error
        return [f"Estimates are the true durations times a log-normal factor (sigma {sigma:g})."]
    return ["Estimates are the true durations (an oracle)."]


def _arrivals(jobs: Sequence[TracedJob], options: TraceOptions, gpus_per_node: int) -> tuple[Arrival, ...]:
    origin = jobs[0].submitted_at if jobs else 0.0
    tasks: dict[tuple[int, float, int], tuple[Task, ...]] = {}
    skews: dict[str, float | None] = {}
    oracle, sigma = options.estimates == "exact", options.estimate_error
    rng = Random(f"estimates/{options.seed}")
    arrivals = []
    # One for all: a million jobs would have two million empty mappings.
    nothing: Mapping[str, float] = {}
    for number, job in enumerate(jobs, 1):
        shape = job.gpus, job.cpus, job.memory_bytes
        if shape not in tasks:
            own = gang(job.gpus, gpus_per_node)
            tasks[shape] = (replace(own, cpus=job.cpus, memory_bytes=job.memory_bytes),)
        if job.application not in skews:
            skews[job.application] = skew_of(job.application)
        estimate = job.estimate_seconds
        if not job.own_estimate and oracle:
            estimate = (
                job.duration_seconds * math.exp(rng.gauss(0.0, sigma)) if sigma else job.duration_seconds
            )
        arrivals.append(
            Arrival(
                job=Job(
                    id=JobId(number),
                    tenant=job.tenant,
                    user=job.user,
                    search=job.search,
                    pinned_cell=job.pinned_cell,
                    reservation=job.reservation,
                    nodes=job.nodes,
                    on_reclaim=job.on_reclaim,
                    virtual_cluster=job.virtual_cluster,
                    submitted_at=job.submitted_at - origin,
                    tasks=job.tasks or tasks[shape],
                    gpu_models=job.gpu_models,
                    priority=job.priority,
                    guaranteed=job.guaranteed,
                    time_limit_seconds=job.time_limit_seconds,
                    throughput=job.throughput,
                    spread_speeds=nothing,
                    attained_service=nothing,
                    estimate_seconds=estimate,
                    application=job.application,
                    skew=skews[job.application] if job.skew is None else job.skew,
                    elastic=_elastic(job, job.tasks or tasks[shape], options.largest_gpus),
                    elastic_mode=job.elastic_mode,
                    training=_training(job),
                    profile=job.profile,
                    data=job.data,
                ),
                truth=Truth(
                    work_seconds=job.duration_seconds,
                    status=job.status,
                    phases=job.phases,
                    scaling=job.scaling,
                    loss=job.loss,
                    use=job.use,
                ),
            )
        )
    return tuple(arrivals)


def _elastic(job: TracedJob, tasks: Sequence[Task], largest: int | None) -> tuple[int, int] | None:
    """Return the fewest and the most GPUs of a job, of which no more than `largest` GPUs are there.

    A job that may have more means as many as there are. Rounds would try every size up to the stated one.
    """
    if job.elastic is None or largest is None:
        return job.elastic
    least, most = job.elastic
    return least, min(most, max(job.gpus, largest - largest % tasks[0].gpus))


def _training(job: TracedJob) -> Training | None:
    """Return what the scheduler knows about a job that changes its batch size, before it has run."""
    if not job.phases:
        return None
    return Training(
        epochs=sum([phase.epochs for phase in job.phases]),
        batch_size=job.phases[0].batch_size,
        regimes=job.regimes,
    )


def about_problems(problems: Sequence[Problem]) -> list[str]:
    """Return a sentence on how many rows were skipped, and why."""
    if not problems:
        return []
    fields = Counter(problem.field or "the row as a whole" for problem in problems)
    kinds = wording.listed([f"{count:,} for {field}" for field, count in fields.most_common()])
    rows = "1 row was" if len(problems) == 1 else f"{len(problems):,} rows were"
    return [f"{rows} skipped ({kinds}). The first: {problems[0]}."]


# How skewed well-known models are: their largest tensor's part of the whole model.
# A gang of a skewed model suffers when it is spread, because one tensor's update waits for one link
# (Tiresias, NSDI'19, section 3.3). The first nine are computed from the tensor sizes in the published
# Tiresias simulator (SymbioticLab/Tiresias, simulator/models.py); the others from the published
# architectures, in parameters.
_SKEWS = {
    "vgg19": 392.0 / 547.1,
    "vgg16": 392.0 / 526.8,
    "vgg11": 392.0 / 506.5,
    "alexnet": 144.0 / 235.8,
    "resnet152": 9.0 / 149.6,
    "resnet101": 9.0 / 119.7,
    "resnet50": 9.0 / 80.6,
    "inception4": 5.9 / 132.8,
    "inception3": 7.8 / 56.6,
    # 4096 x 25088 of 133.0 million.
    "vgg13": 102.76 / 133.05,
    # 512 x 512 x 3 x 3 of 11.69 and 21.80 million.
    "resnet18": 2.359 / 11.69,
    "resnet34": 2.359 / 21.80,
    # 1024 x 1000 of 6.62 million.
    "googlenet": 1.024 / 6.62,
    # 1024 x 1000 of 2.28, 1280 x 1000 of 3.50 million.
    "shufflenetv2x10": 1.024 / 2.279,
    "mobilenetv2": 1.280 / 3.505,
    # 30522 x 768 of 109.5, 50257 x 768 of 124.4 million: the table of word vectors.
    "bert": 23.44 / 109.5,
    "gpt2": 38.60 / 124.4,
}


def skew_of(application: str) -> float | None:
    """Return the skew of a model by its name as traces write it; None when it is unknown.

    "ResNet-50 (batch size 64)" and "resnet50" are the same model.
    """
    name = re.sub(r"[^a-z0-9]", "", application.split("(")[0].split("/")[0].lower())
    return _SKEWS.get(name)
