"""Which configurations a job may have: models and counts (Sia, SOSP'23, section 3.3)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from scheduler.core.building_blocks.elastic.pools import most_replicas
from scheduler.core.building_blocks.elastic.speedups import goodput_model_of
from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.run_time import relative_speeds
from scheduler.core.fitting.demand import all_sizes_of, least_gpus, models_of
from scheduler.core.goodput.batch import GoodputModel
from scheduler.core.goodput.throughput import gradient_seconds
from scheduler.core.model.snapshot import Job, Running
from scheduler.core.policies.sia.program import Candidate, Configuration

#: The assumed cost of a restart where it is unknown.
USUAL_RESTART_SECONDS = 30.0


def counts_on(job: Job, running: Running | None, node_gpus: int) -> list[int]:
    """Return the numbers of GPUs that a job may have of a model with `node_gpus` GPUs on a node.

    They are powers of two up to a node's size and then whole nodes, so that gangs fit beside each other. Only
    numbers that the job can have remain, with at most twice the replicas that it ever had. A rigid job has
    its own size; a job that can have none of these has the fewest GPUs that it runs on.
    """
    sizes = all_sizes_of(job)
    if job.elastic is None:
        return list(sizes)
    most = most_replicas(job, running) * job.tasks[0].gpus
    allowed = [gpus for gpus in sizes if gpus <= most and _is_regular(gpus, node_gpus)]
    return allowed or [sizes[0]]


def candidate_of(
    job: Job, view: View, models: Sequence[str], restart_seconds: float, *, profiled: int = 0
) -> Candidate:
    """Return the job as the program sees it. `models`: those of the view; `profiled`: how often it was
    started to be profiled.
    """
    running, fleets = view.running.get(job.id), view.capacity.cluster.fleets
    speeds = relative_speeds(job, models)
    goodput = _goodput_on(job, models)
    accepted = set(models_of(job, view.capacity.cluster))
    options: list[Configuration] = []
    for place, model in enumerate(models):
        if model in accepted and (speeds[model] > 0 or goodput[place] is not None):
            node_gpus = fleets[model].largest_node
            options += [
                Configuration(place, gpus, -(-gpus // node_gpus))
                for gpus in counts_on(job, running, node_gpus)
            ]
    present = -1
    if running is not None:
        here = _held(running, view, models)
        alike = [(option.model, option.gpus) for option in options]
        if (here.model, here.gpus) in alike:
            # If it is spread over more nodes than needed, this is its present speed.
            present = alike.index((here.model, here.gpus))
            options[present] = here
        else:
            present = len(options)
            options.append(here)
    return Candidate(
        configurations=tuple(options),
        goodput=tuple(goodput),
        speeds=tuple([speeds[model] for model in models]),
        replica_gpus=job.tasks[0].gpus,
        least_gpus=least_gpus(job),
        present=present,
        restart_factor=restart_factor(job, view.now, restart_seconds, profiled=profiled),
        priority=job.priority,
    )


def _held(running: Running, view: View, models: Sequence[str]) -> Configuration:
    where = view.capacity.cluster.where
    nodes = {where[gpu][1] for gpu in running.gpus if gpu in where}
    return Configuration(models.index(running.gpu_model), len(running.gpus), max(len(nodes), 1))


def restart_factor(job: Job, now: float, restart_seconds: float, *, profiled: int = 0) -> float:
    """Return what a restart leaves of a utility: (T - N·S) / (T + S) for the age T and N restarts so far.

    A restart takes S seconds: `restart_seconds`, or if that is 0 what the job was seen to lose, else 30 s.
    Starts by which it was `profiled` do not count.
    """
    age = max(0.0, now - job.submitted_at)
    lost = restart_seconds or job.preemption_cost_seconds or USUAL_RESTART_SECONDS
    restarts = max(0, job.attempts - 1 - profiled)
    return max(0.0, age - restarts * lost) / (age + lost) if age + lost > 0 else 1.0


def _is_regular(gpus: int, node_gpus: int) -> bool:
    return gpus & (gpus - 1) == 0 if gpus < node_gpus else gpus % node_gpus == 0


def _goodput_on(job: Job, models: Sequence[str]) -> list[GoodputModel | None]:
    """Return how a job scales on each model; None everywhere: nothing was measured.

    On a model without measurements, times are scaled by the ratio of the job's speeds; without such a ratio
    the job is assumed to be as slow as on its slowest measured model.
    """
    known = {} if job.goodput is None or job.elastic is None else job.goodput.parameters
    measured = {
        model: found for model in sorted(known) if (found := goodput_model_of(job, model)) is not None
    }
    if not measured:
        return [None] * len(models)
    return [measured.get(model) or _projected(job, model, measured) for model in models]


def _projected(job: Job, model: str, measured: Mapping[str, GoodputModel]) -> GoodputModel | None:
    rate = job.throughput.get(model, -1.0)
    if rate == 0:
        return None  # It does not run there.
    for name, known in measured.items():
        ratio = job.throughput.get(name, 0.0) / rate
        if 0 < ratio < math.inf:
            return replace(known, parameters=known.parameters.times(ratio))
    return max(
        measured.values(),
        key=lambda known: gradient_seconds(known.parameters, known.limits.max_local_batch),
    )
