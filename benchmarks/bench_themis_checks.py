"""What Themis promises, in the simulator: that lying does not pay, and that gangs are placed well.

    python benchmarks/bench_themis_checks.py [--lying [--about estimate] [--steps]] [--placement]
        [--seeds 40] [--processes 2]

--lying      One of 40 apps on 8 V100 and 8 K80 says something else than the truth: that it takes k times as
             long, or that it is k times as fast on the V100. Printed is its true time from submission to its
             end, divided by the same when it is honest, of as many workloads as there are seeds: the
             geometric mean with its standard error, and in how many it ends earlier and later. What others
             lose is the mean of the same over all others. Live, measured speeds overrule stated ones.
--about      Only lies about that: the run time (estimate) or the speed.
--steps      All jobs tell of their steps, truthfully, by which their run times are measured.
--placement  Gangs of 1, 2, 4 and 8 GPUs on 32 GPUs of 8 machines, that do 0.6 as much when they are spread
             more than they need be. Printed are the part of gangs' GPU-time that is near together, the
             GPU-time that everything took in all and the largest rho, by the fairness knob: 1 is greedy by
             rho, where the worst-off takes what is best for it and nobody bids against it.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import Any

from machine import describe_machine

from scheduler.core.model.snapshot import (
    Gpu,
    GpuId,
    Job,
    JobId,
    Member,
    Node,
    NodeId,
    Snapshot,
    Task,
    Tenant,
    VirtualCluster,
)
from scheduler.core.sim.engine import Engine
from scheduler.core.sim.rules import Rules
from scheduler.core.sim.speeds import Speeds
from scheduler.core.sim.workload import Arrival, Truth

JOBS = 40
#: (what it lies about, k).
LIES = (
    ("estimate", 4.0), ("estimate", 2.0), ("estimate", 0.5), ("estimate", 0.25),
    ("speed", 2.0), ("speed", 1.5), ("speed", 0.5),
)  # fmt: skip
KNOBS = (0.0, 0.5, 0.8, 1.0)
NEAR = 0.6


@dataclass(frozen=True)
class Table:
    """How fast applications are, named by their speed-up on the V100."""

    spread: float = 1.0

    def rate(self, application: str, gpus: int, gpu_model: str, of_gpus: int | None = None) -> float:
        return 1.0 if gpu_model == "V100" else 1 / float(application)

    def locality(self, application: str, gpus: int, nodes: int) -> float:
        return self.spread

    def interference(self, application: str, other: str, gpu_model: str, gpus: int = 1) -> None:
        return None

    def among(self, application: str, others: Sequence[str], gpu_model: str, gpus: int = 1) -> None:
        return None


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lying", action="store_true")
    parser.add_argument("--about", choices=sorted({what for what, _ in LIES}))
    parser.add_argument("--steps", action="store_true")
    parser.add_argument("--placement", action="store_true")
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    print(describe_machine())
    with ProcessPoolExecutor(options.processes) as pool:
        if options.lying or not options.placement:
            lies = [lie for lie in LIES if options.about in (None, lie[0])]
            print_lies(pool, range(options.seeds), lies, tells_steps=options.steps)
        if options.placement or not options.lying:
            print_placement(pool, range(options.seeds))


def print_lies(
    pool: ProcessPoolExecutor, seeds: Iterable[int], lies: Sequence[tuple[str, float]], *, tells_steps: bool
) -> None:
    """Print what each lie gains."""
    print(f"\njobs tell {'of their steps' if tells_steps else 'nothing while they run'}")
    print(f"{'says':<18}{'its own time':>20}{'earlier':>9}{'later':>7}{'others':>9}")
    by_seed = list(pool.map(partial(gains, lies=lies, tells_steps=tells_steps), seeds))
    for place, (what, factor) in enumerate(lies):
        own = [found[place][0] for found in by_seed]
        others = [found[place][1] for found in by_seed]
        mean, error = statistics.mean(own), statistics.stdev(own) / math.sqrt(len(own))
        print(
            f"{what + f' x {factor:g}':<18}{math.exp(mean):>12.3f} ± {error:.3f}"
            f"{sum(one < -0.001 for one in own):>9}{sum(one > 0.001 for one in own):>7}"
            f"{math.exp(statistics.mean(others)):>9.3f}",
            flush=True,
        )


def gains(seed: int, lies: Sequence[tuple[str, float]], *, tells_steps: bool) -> list[tuple[float, float]]:
    """Return for each lie the logarithm of how the liar's time, and on average that of others, changes."""
    workload = drawn(seed, spread=1.0)
    liar = JobId(JOBS // 2)
    honest = times(run(workload, mixed(), {}, Table(), tells_steps=tells_steps))
    found = []
    for what, factor in lies:
        lying = [
            replace(one, job=told(one.job, what, factor)) if one.job.id == liar else one for one in workload
        ]
        other = times(run(lying, mixed(), {}, Table(), tells_steps=tells_steps))
        changes = {job: math.log(other[job] / honest[job]) for job in honest}
        own = changes.pop(liar)
        found.append((own, statistics.mean(changes.values())))
    return found


def told(job: Job, what: str, factor: float) -> Job:
    """Return the job as its owner describes it."""
    if what == "estimate":
        assert job.estimate_seconds is not None
        return replace(job, estimate_seconds=job.estimate_seconds * factor)
    return replace(job, throughput={**job.throughput, "V100": job.throughput["V100"] * factor})


def print_placement(pool: ProcessPoolExecutor, seeds: Iterable[int]) -> None:
    """Print how near together gangs are, by the fairness knob."""
    print(f"\n{'knob':>5}{'near':>9}{'GPU-hours':>12}{'mean h':>9}{'largest rho, mean':>19}")
    rows = list(pool.map(_placed, seeds))
    for place, knob in enumerate(KNOBS):
        near, hours, mean, worst = (statistics.mean([row[place][k] for row in rows]) for k in range(4))
        print(f"{knob:>5g}{near:>9.1%}{hours:>12.1f}{mean:>9.2f}{worst:>19.2f}", flush=True)


def _placed(seed: int) -> list[tuple[float, float, float, float]]:
    """Return for each knob: the part that is near, GPU-hours, mean hours to the end, the largest rho."""
    workload = drawn(seed, spread=NEAR)
    nodes = tuple(_node(number, 4, "V100") for number in range(1, 9))
    found = []
    for knob in KNOBS:
        engine = run(workload, nodes, {"fairness_knob": knob}, Table(NEAR))
        near = total = everything = 0.0
        for stay in engine.stays:
            gpu_seconds = (stay.ended_at - stay.started_at) * len(stay.gpus)
            everything += gpu_seconds
            if len(stay.gpus) > 1:
                total += gpu_seconds
                nodes_used = len({gpu // 100 for gpu in stay.gpus})
                near += gpu_seconds * (nodes_used <= math.ceil(len(stay.gpus) / 4))
        took = times(engine)
        found.append(
            (
                near / total,
                everything / 3_600,
                statistics.mean(took.values()) / 3_600,
                max(rhos(workload, took, 32).values()),
            )
        )
    return found


def rhos(workload: list[Arrival], took: dict[JobId, float], gpus: int) -> dict[JobId, float]:
    """Return finish-time fairness by mean contention over each life, as the simulator's report has it."""
    lives = {one.job.id: (one.job.submitted_at, one.job.submitted_at + took[one.job.id]) for one in workload}
    found = {}
    for one in workload:
        begin, end = lives[one.job.id]
        together = sum([max(0.0, min(end, other) - max(begin, first)) for first, other in lives.values()])
        part = max(1.0, one.job.gpus * together / (end - begin) / gpus)
        found[one.job.id] = (end - begin) / (one.truth.work_seconds * part)
    return found


def drawn(seed: int, *, spread: float) -> list[Arrival]:
    """Forty jobs that come within about four hours and ask for about twice what there is."""
    dice = random.Random(seed)
    arrivals = list(accumulate([dice.expovariate(1 / 360) for _ in range(JOBS)]))
    workload = []
    for number, submitted_at in enumerate(arrivals, 1):
        gpus = dice.choice((1, 1, 1, 2, 2, 4)) if spread == 1 else dice.choice((1, 2, 4, 4, 8))
        speed_up, seconds = dice.choice((1.2, 2.0, 4.0, 6.0)), dice.lognormvariate(math.log(4_000), 0.8)
        job = Job(
            id=JobId(number),
            tenant=f"tenant-{number % 4}",
            virtual_cluster="all",
            submitted_at=submitted_at,
            tasks=(Task(replicas=gpus, gpus=1),),
            application=f"{speed_up:g}",
            throughput={"V100": speed_up, "K80": 1.0} if spread == 1 else {"V100": 1.0},
            spread_speeds={} if spread == 1 else {"V100": spread},
            estimate_seconds=seconds,
        )
        workload.append(Arrival(job=job, truth=Truth(work_seconds=seconds)))
    return workload


def mixed() -> tuple[Node, ...]:
    return tuple(_node(number, 4, "V100" if number < 3 else "K80") for number in range(1, 5))


def _node(number: int, gpus: int, model: str) -> Node:
    devices = tuple(Gpu(id=GpuId(100 * number + index), index=index) for index in range(gpus))
    return Node(id=NodeId(number), name=f"node-{number}", gpu_model=model, path=("rack",), gpus=devices)


def run(
    workload: list[Arrival],
    nodes: tuple[Node, ...],
    parameters: dict[str, Any],
    table: Table,
    *,
    tells_steps: bool = False,
) -> Engine:
    guaranteed: dict[str, int] = {}
    for node in nodes:
        guaranteed[node.gpu_model] = guaranteed.get(node.gpu_model, 0) + len(node.gpus)
    tenants = sorted({one.job.tenant for one in workload})
    vc = VirtualCluster(
        name="all",
        guaranteed=guaranteed,
        members=tuple(Member(tenant=tenant) for tenant in tenants),
        policy="themis",
        policy_parameters=parameters,
    )
    facts = Snapshot(
        round_number=0,
        now=0.0,
        round_seconds=20.0,
        nodes=nodes,
        tenants=tuple(Tenant(name=tenant) for tenant in tenants),
        virtual_clusters=(vc,),
    )
    rules = Rules(speeds=Speeds(tables=table, gpus_per_node=4), tells_steps=tells_steps)
    engine = Engine(facts, workload, rules)
    engine.run()
    assert not engine.degraded
    return engine


def times(engine: Engine) -> dict[JobId, float]:
    """Return the seconds from each job's submission to its end."""
    found = {}
    for record in engine.records():
        assert record.ended_at is not None
        found[record.id] = record.ended_at - record.submitted_at
    return found


if __name__ == "__main__":
    main()
