"""A workload generator: it draws arrivals, gang sizes, durations, kinds of job and tenants from a seed.

`generator_spec` has its parameters and reads them from JSON (`--generate FILE`), `fitting.fit` makes them
from a trace, and `gavel_generator` is the generator of Gavel (OSDI'20, scheduler/utils.py; research note
1.8).
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, islice
from random import Random
from typing import TypeVar

from scheduler.core.sim.workload import Workload
from scheduler.simulation.generator_spec import (
    ANY_SIZE,
    Application,
    Arrivals,
    GeneratorSpec,
    LogUniform,
    Piece,
)
from scheduler.simulation.rates import ThroughputTable
from scheduler.simulation.traces import parts
from scheduler.simulation.traces.options import TraceOptions
from scheduler.simulation.traces.reading import make_workload
from scheduler.simulation.traces.source import TracedJob

T = TypeVar("T")
_GAVEL_PIECES = (
    Piece(weight=0.8, low_seconds=60 * 10**1.5, high_seconds=60 * 10.0**3),
    Piece(weight=0.2, low_seconds=60 * 10.0**3, high_seconds=60 * 10.0**4),
)


def generate(
    spec: GeneratorSpec,
    *,
    seed: int = 0,
    name: str = "generated",
    options: TraceOptions | None = None,
) -> Workload:
    """Return the workload of this spec and seed; the same two give the same workload.

    `options` states what the scheduler sees (estimates) and how gangs are split, as for traces; with its
    throughput table every job knows its rates by GPU model.
    """
    options = options or TraceOptions(seed=seed)
    # Each kind of draw has its own stream, so that another size mix leaves the arrivals as they were.
    streams = {
        kind: Random(f"{kind}/{seed}") for kind in ("arrival", "size", "duration", "kind", "who", "end")
    }
    sizes = _chooser(list(spec.sizes.items()), streams["size"])
    submitters = _chooser([(who, who.weight) for who in spec.submitters], streams["who"])
    ends = _chooser(list(spec.statuses.items()), streams["end"])
    kinds = {
        size: _chooser(
            [
                (application.name, application.weight)
                for application in spec.applications
                if application.largest_gpus is None or application.largest_gpus >= float(size)
            ]
            or [("", 1.0)],
            streams["kind"],
        )
        for size in spec.sizes
    }
    durations = {size: spec.durations.get(size) or spec.durations[ANY_SIZE] for size in spec.sizes}
    replicas = {
        size: replace(
            parts.replica("sizes", size, least=0),
            cpus=spec.cpus_of(size),
            memory_bytes=spec.memory_of(size),
        )
        for size in spec.sizes
    }
    rates: dict[tuple[str, int], Mapping[str, float]] = {}
    static = spec.arrivals.process == "static"
    traced = []
    for submitted_at in islice(spec.arrivals.draw(streams["arrival"]), spec.jobs):
        size, who = sizes(), submitters()
        kind, own = kinds[size](), replicas[size]
        gpus = own.gpus
        if (kind, gpus) not in rates:
            rates[kind, gpus] = options.throughputs.throughput(kind, gpus) if options.throughputs else {}
        traced.append(
            TracedJob(
                0.0 if static else submitted_at,
                gpus,
                durations[size].draw(streams["duration"]),
                who.tenant,
                who.virtual_cluster,
                application=kind,
                status=ends(),
                throughput=rates[kind, gpus],
                tasks=None if own.part is None else (own,),
                cpus=own.cpus,
                memory_bytes=own.memory_bytes,
            )
        )
    return make_workload(name, traced, options, notes=(f"Generated from seed {seed}.",))


def _chooser(weighted: Sequence[tuple[T, float]], rng: Random) -> Callable[[], T]:
    """Return a function that draws one of these by weight."""
    values = [value for value, _ in weighted]
    edges = list(accumulate(weight for _, weight in weighted))
    if len(values) == 1:
        return lambda: values[0]
    return lambda: values[min(bisect(edges, rng.random() * edges[-1]), len(values) - 1)]


def gavel_generator(
    table: ThroughputTable,
    *,
    jobs: int,
    jobs_per_hour: float | None = None,
    multi_gpu: bool = False,
) -> GeneratorSpec:
    """Return Gavel's generator (scheduler/utils.py, generate_job): without a rate all jobs come at 0.

    Kinds are uniform over the table's, re-drawn until distributed for larger gangs. Run times on the
    reference model are 60 x 10^u seconds, u uniform in 1.5 to 3 (80 %) or 3 to 4 (20 %). Gangs are of 1 GPU
    (70 %), 2 (10 %), 4 (15 %) or 8 (5 %). Gavel's generator draws from one stream; ours gives other jobs of
    the same distribution.
    """
    largest: dict[str, int] = {}
    for application, gpus, _ in table.alone:
        largest[application] = max(gpus, largest.get(application, 0))
    return GeneratorSpec(
        jobs=jobs,
        arrivals=Arrivals(process="poisson", jobs_per_hour=jobs_per_hour)
        if jobs_per_hour
        else Arrivals(process="static"),
        sizes={"1": 0.70, "2": 0.10, "4": 0.15, "8": 0.05} if multi_gpu else {"1": 1.0},
        durations={ANY_SIZE: LogUniform(pieces=_GAVEL_PIECES)},
        applications=tuple(
            Application(name=application, largest_gpus=gpus) for application, gpus in sorted(largest.items())
        ),
    )
