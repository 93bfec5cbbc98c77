"""Measure what elasticity saves: run the same jobs on one cluster twice, elastic and each at its own size.

Both runs are simulated, by the same policies, and each job has the same work in both: what it does on its own
number of GPUs. On other numbers its speed follows from its goodput facts (Pollux, OSDI'21, equation 6), or is
in proportion where there are none, as rounds assume.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from scheduler.core.building_blocks.elastic.speedups import goodput_model_of
from scheduler.core.model.errors import SchedulingError
from scheduler.core.model.snapshot import Job, JobId, Snapshot
from scheduler.core.sim.costs import Costs
from scheduler.core.sim.engine import Engine
from scheduler.core.sim.result import JobRecord
from scheduler.core.sim.rules import Rules
from scheduler.core.sim.speeds import Speeds
from scheduler.core.sim.workload import Arrival

#: Seconds without progress whenever a job goes on after a stop, as Pollux assumes (OSDI'21, section 5.3).
RESTART_SECONDS = 30.0


class TooLongError(SchedulingError):
    """The two runs took too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoodputSpeeds(Speeds):
    """Speeds by the jobs' goodput facts, relative to each one's own size on as few nodes as possible.

    GPU models are assumed to be equally fast, as `Speeds` assumes without tables.
    """

    #: Rates by job, GPU model, GPUs and nodes, since policies return to the same ones.
    _known: dict[tuple[JobId, str, int, int], float] = field(default_factory=dict, repr=False)

    def alone(self, job: Job, gpu_model: str, gpus: int, nodes: int) -> float:
        """Return the seconds of work at its own size done in a second, with these GPUs to itself."""
        key = job.id, gpu_model, gpus, nodes
        if key not in self._known:
            rate = self._by_goodput(job, gpu_model, gpus, nodes)
            # `super()` does not work in a dataclass with slots.
            self._known[key] = Speeds.alone(self, job, gpu_model, gpus, nodes) if rate is None else rate
        return self._known[key]

    def _by_goodput(self, job: Job, gpu_model: str, gpus: int, nodes: int) -> float | None:
        model = goodput_model_of(job, gpu_model)
        if model is None:
            return None
        each = job.tasks[0].gpus
        replicas = [max(1, size // each) for size in (gpus, job.gpus)]
        few = max(1, -(-job.gpus // self.gpus_per_node))
        found = model.best([min(nodes, replicas[0]), min(few, replicas[1])], replicas).goodput
        rate = float(found[0] / found[1]) if found[1] > 0 else 0.0
        return rate if math.isfinite(rate) and rate > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The results of the jobs in one of the two runs."""

    #: From submission to end, and to the first start.
    mean_completion_seconds: float
    mean_wait_seconds: float
    gpu_hours: float
    #: How often a job got another number of GPUs.
    resizes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Savings:
    """The jobs that ended in both runs, elastic and rigid."""

    jobs: int
    #: How many of these jobs are elastic.
    elastic_jobs: int
    #: Jobs that did not end in one of the runs, such as those that the cluster can never run.
    left_out: int
    #: None where no elastic job is left to compare.
    elastic: Figures | None
    rigid: Figures | None


def savings(
    facts: Snapshot,
    arrivals: Iterable[Arrival],
    speeds: Speeds,
    *,
    restart_seconds: float = RESTART_SECONDS,
    is_over: Callable[[], bool] = lambda: False,
) -> Savings:
    """Run jobs twice to their ends, as declared and rigid, on the cluster of `facts`, which has no jobs yet.

    `is_over` is called after each round; raises TooLongError once it returns True.
    """
    given = list(arrivals)
    elastic_jobs = {arrival.job.id for arrival in given if arrival.job.elastic is not None}
    if not elastic_jobs:
        return Savings(jobs=len(given), elastic_jobs=0, left_out=0, elastic=None, rigid=None)
    rules = Rules(speeds=speeds, costs=Costs(restore_seconds=restart_seconds))
    rigid = [replace(arrival, job=replace(arrival.job, elastic=None)) for arrival in given]
    runs = [_run(facts, jobs, rules, is_over) for jobs in (given, rigid)]
    both = [{record.id: record for record in run.records() if record.ended_at is not None} for run in runs]
    # A job that can never run has no end in either run.
    compared = sorted(both[0].keys() & both[1].keys())
    counted = elastic_jobs.intersection(compared)
    figures = [_figures(run, records, compared) for run, records in zip(runs, both, strict=True)]
    return Savings(
        jobs=len(compared),
        elastic_jobs=len(counted),
        left_out=len(given) - len(compared),
        elastic=figures[0] if counted else None,
        rigid=figures[1] if counted else None,
    )


def _run(facts: Snapshot, arrivals: Sequence[Arrival], rules: Rules, is_over: Callable[[], bool]) -> Engine:
    def check(engine: Engine) -> bool:
        if is_over():
            raise TooLongError("the simulation took too long")
        return False

    engine = Engine(facts, arrivals, rules)
    engine.run(check)
    return engine


def _figures(engine: Engine, records: dict[JobId, JobRecord], compared: Sequence[JobId]) -> Figures | None:
    if not compared:
        return None
    counted = [records[job] for job in compared]
    sizes: dict[JobId, int] = {}
    resizes = 0
    for stay in sorted(engine.stays, key=lambda stay: (stay.started_at, stay.job)):
        if stay.job in records:
            resizes += sizes.get(stay.job, len(stay.gpus)) != len(stay.gpus)
            sizes[stay.job] = len(stay.gpus)
    return Figures(
        mean_completion_seconds=fmean([record.completion_seconds or 0.0 for record in counted]),
        mean_wait_seconds=fmean([record.queueing_seconds or 0.0 for record in counted]),
        gpu_hours=sum([record.gpu_seconds for record in counted]) / 3_600.0,
        resizes=resizes,
    )
