"""Aryl: serve base demands first, shortest job first, then give what is left where it shortens jobs most.

J. Li et al., "Aryl: An Elastic Cluster Scheduler for Deep Learning", arXiv 2202.07896 (Lyra, EuroSys'23),
elastic scaling. A job has a base demand, all its GPUs or the fewest of an elastic one; elastic jobs may have
extra workers beyond it. Bases are served by the shortest remaining time, as many as fit, and no job loses its
base. The GPUs left over go to extra workers by a multiple-choice knapsack. It chooses one number of extra
workers for each job; its weight is their GPUs, and its worth is the time by which the job ends sooner. The
weights sum to at most what is left, and the worth is maximal. Deviations:

- The paper divides extra workers again in each epoch. Here a job whose base waits gets it in the round in
  which it comes, and extra workers are taken back for it then; only growth waits for the epoch, since a gang
  that grows starts again from a checkpoint.
- Extra workers take idle GPUs only, never those of opportunistic jobs, and there is a knapsack for each GPU
  model: a gang stays on the model that it has.
- A job's progress is in proportion to its GPUs, as in the paper, whatever was measured. Its remaining time is
  what `run_time` expects on the model that it has, or, while it waits, on the fastest model for it.
- Priority of our jobs comes before the remaining time.
- Servers lent by an inference cluster, and where flexible workers are placed because of them, are not part of
  the policy but of `serving_pools` and the placer of the same name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from scheduler.core.building_blocks.elastic.extra_workers import decide_by_epochs
from scheduler.core.building_blocks.elastic.knapsack import best_choices
from scheduler.core.building_blocks.ordering import waiting_jobs
from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.run_time import LONGEST_SECONDS, work_left_seconds_on
from scheduler.core.fitting.demand import least_gpus, models_of
from scheduler.core.model.plan import Decision, Reason, Tier
from scheduler.core.model.snapshot import Job, JobId, Memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Aryl:
    """Shortest base demands first, then a knapsack of extra workers."""

    #: It decides how large elastic gangs are.
    resizes: ClassVar[bool] = True

    #: How often extra workers are divided again.
    epoch_seconds: float = 300.0

    def __post_init__(self) -> None:
        if not self.epoch_seconds > 0:
            raise ValueError("epoch_seconds must be above 0")

    def allocate(self, view: View, memory: Memory) -> Decision:
        """Start bases by remaining time, and divide what they leave."""
        waiting = sorted(waiting_jobs(view), key=partial(_rank, view))
        return decide_by_epochs(view, memory, waiting, partial(_divide, view), _LESS_LEFT, self.epoch_seconds)


def _rank(view: View, job: Job) -> tuple[int, float, float, JobId]:
    """Return the place in line: by priority, then by how long the job would run on its base."""
    return -job.priority, _gpu_seconds_left(view, job) / least_gpus(job), job.submitted_at, job.id


def _gpu_seconds_left(view: View, job: Job) -> float:
    """Return the GPU-seconds left on the GPU model that a job has, or, while it waits, on its fastest."""
    running, capacity = view.running.get(job.id), view.capacity
    there = [model for model in models_of(job, capacity.cluster) if model in capacity.models]
    models = there if running is None else [running.gpu_model]
    left = [
        work_left_seconds_on(model, job, running, view.now, view.default_time_limit_seconds)
        for model in models
    ]
    return min(left, default=LONGEST_SECONDS) * job.gpus


def _divide(view: View, jobs: Sequence[Job], choices: Sequence[Sequence[int]], idle: int) -> list[int]:
    """Return the size of each job with which the jobs together save the most time."""
    options = []
    for job, sizes in zip(jobs, choices, strict=True):
        left, gpus = _gpu_seconds_left(view, job), np.array(sizes)
        options.append((gpus - sizes[0], left / sizes[0] - left / gpus))
    places, _ = best_choices(options, idle)
    return [sizes[place] for sizes, place in zip(choices, places, strict=True)]


_LESS_LEFT = Reason(
    code="less_left_first",
    tier=Tier.ORDER,
    message="Jobs with less left to run go before it.",
    hint="A shorter estimate or time limit moves it forward.",
)
