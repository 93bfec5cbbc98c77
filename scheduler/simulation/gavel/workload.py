"""The workload generator of Gavel (OSDI'20), draw by draw: the same jobs as in its published figures.

The streams, the order in which they are drawn from, and the order of the kinds of job are those of its code
(scheduler/utils.py and scheduler/scheduler.py of stanford-futuredata/gavel at c4fa400). `generate` has a spec
of the same distribution (`gavel_generator`), which is better for anything but that comparison.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

from scheduler.core.model.plugin_text import parse_plugin
from scheduler.core.sim.workload import Arrival, Workload
from scheduler.simulation.errors import GeneratorError
from scheduler.simulation.rates import ThroughputTable
from scheduler.simulation.traces.options import TraceOptions
from scheduler.simulation.traces.reading import make_workload
from scheduler.simulation.traces.source import TracedJob

NAME = "gavel"
#: The model for which durations hold.
REFERENCE = "v100"
#: Kinds of job in the order of drawing. Those after the gangs only run on one GPU.
GANGS = (
    *[f"ResNet-18 (batch size {size})" for size in (16, 32, 64, 128, 256)],
    *[f"ResNet-50 (batch size {size})" for size in (16, 32, 64, 128)],
    *[f"Transformer (batch size {size})" for size in (16, 32, 64, 128, 256)],
    *[f"LM (batch size {size})" for size in (5, 10, 20, 40, 80)],
)
KINDS = (
    *GANGS,
    *[f"Recommendation (batch size {size})" for size in (512, 1024, 2048, 4096, 8192)],
    "A3C",
    "CycleGAN",
)
#: The numbers added to the seed for the streams of jobs, of arrivals and of SLOs.
JOBS, ARRIVALS, SLOS = 2, 3, 6
HIGH_PRIORITY = 5
#: More jobs than this are a mistake.
MOST_JOBS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GavelSpec:
    """The parameters of a workload. Without a rate, all jobs come at 0."""

    jobs: int
    jobs_per_hour: float = 0.0
    multi_gpu: bool = False
    #: Whether a fifth of the jobs have weight 5.
    priorities: bool = False
    #: Whether each job should end within 1.2, 2 or 10 times its duration.
    slos: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.jobs <= MOST_JOBS:
            raise GeneratorError(f"{NAME}: jobs is {self.jobs}; it must be from 1 to {MOST_JOBS:,}")
        if not 0 <= self.jobs_per_hour < math.inf:
            raise GeneratorError(
                f"{NAME}: jobs_per_hour is {self.jobs_per_hour:g}; it must be a number of at least 0"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnJob:
    """One job as it was drawn."""

    arrived_at: float
    kind: str
    gang: int
    #: The duration on the reference model.
    duration_seconds: float
    weight: int
    #: The SLO from its arrival, in multiples of its duration; infinite without SLOs.
    slo_times: float


def is_gavel(text: str) -> bool:
    """Return whether the text of `--generate` names this generator, not a file."""
    return text == NAME or text.startswith(f"{NAME}:")


def parse_gavel(text: str) -> GavelSpec:
    """Return the spec of `gavel:jobs=5600,jobs_per_hour=5.6,...`; raise GeneratorError."""
    _, given = parse_plugin(text)
    types = {"jobs": int, "jobs_per_hour": (int, float), "multi_gpu": bool, "priorities": bool, "slos": bool}
    for name, value in given.items():
        if name not in types:
            raise GeneratorError(f"{NAME}: there is no {name!r}; there are {', '.join(types)}")
        kind = types[name]
        if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):  # type: ignore[arg-type]
            what = "true or false" if kind is bool else "a number" if name != "jobs" else "a whole number"
            raise GeneratorError(f"{NAME}: {name} is {value!r}; it must be {what}")
    if "jobs" not in given:
        raise GeneratorError(f"{NAME}: jobs is missing; give their number, such as {NAME}:jobs=100")
    return GavelSpec(**given)  # type: ignore[arg-type]


def draw(spec: GavelSpec, seed: int) -> Iterator[DrawnJob]:
    """Yield the jobs of a spec and seed."""
    jobs, arrivals, slos = (Random(seed + stream) for stream in (JOBS, ARRIVALS, SLOS))
    at = 0.0
    for _ in range(spec.jobs):
        # A gang and a duration are drawn for every job, even if all have one GPU.
        gang = _gang(jobs.uniform(0, 1))
        long = jobs.random() >= 0.8
        duration = 60 * 10 ** (jobs.uniform(3, 4) if long else jobs.uniform(1.5, 3))
        if not spec.multi_gpu:
            gang = 1
        kind = jobs.choice(KINDS)
        while gang > 1 and kind not in GANGS:
            kind = jobs.choice(KINDS)
        weight = HIGH_PRIORITY if spec.priorities and jobs.uniform(0, 1) <= 0.2 else 1
        times = _slo_times(slos.uniform(0, 1)) if spec.slos else math.inf
        yield DrawnJob(
            arrived_at=at, kind=kind, gang=gang, duration_seconds=duration, weight=weight, slo_times=times
        )
        if spec.jobs_per_hour:
            mean_seconds = 3600.0 / spec.jobs_per_hour
            at += -math.log(1.0 - arrivals.random()) / (1.0 / mean_seconds)


def _gang(drawn: float) -> int:
    if drawn < 0.7:
        return 1
    if drawn <= 0.8:
        return 2
    return 4 if drawn <= 0.95 else 8


def _slo_times(drawn: float) -> float:
    return 1.2 if drawn < 0.33 else 2.0 if drawn < 0.67 else 10.0


def generate_gavel(spec: GavelSpec, *, seed: int, options: TraceOptions) -> Workload:
    """Return the workload; raise GeneratorError if the options lack Gavel's throughput table."""
    table = options.throughputs
    if table is None:
        raise GeneratorError(
            f"{NAME}: the generator needs --throughputs simulation_throughputs.json of Gavel"
        )
    drawn = list(draw(spec, seed))
    traced = [_traced(job, table) for job in drawn]
    name = f"{NAME}, {spec.jobs_per_hour:g} jobs/h" if spec.jobs_per_hour else f"{NAME}, all at once"
    workload = make_workload(name, traced, options, notes=(f"Gavel's own generator, seed {seed}.",))
    return replace(workload, arrivals=tuple(map(_with_deadline, workload.arrivals, drawn)))


def _with_deadline(arrival: Arrival, drawn: DrawnJob) -> Arrival:
    if drawn.slo_times == math.inf:
        return arrival
    deadline_at = drawn.arrived_at + drawn.slo_times * drawn.duration_seconds
    return replace(arrival, job=replace(arrival.job, deadline_at=deadline_at))


def _traced(job: DrawnJob, table: ThroughputTable) -> TracedJob:
    rates = table.throughput(job.kind, job.gang)
    if not rates.get(REFERENCE):
        raise GeneratorError(
            f"{NAME}: {table.name} has no rate of {job.kind} with {job.gang} GPUs on {REFERENCE}"
        )
    return TracedJob(
        job.arrived_at,
        job.gang,
        job.duration_seconds,
        application=job.kind,
        priority=0 if job.weight == 1 else job.weight - 1,
        throughput=rates,
    )
