"""Run what Gandiva-Fair (EuroSys'20) promises in the simulator, and print what came of it.

    python benchmarks/bench_gandiva_fair_checks.py [--data ../shared/data/gavel]

Jobs never end unless it is said, and a round is due every five seconds. *hours*: GPU time in each hour, and
the most by which that differs from the user's part. *trading*: the jobs that Gavel's published generator
draws, with its published throughputs; users are families of models, whose speed-ups differ. Told is what each
does in three hours, in GPU-hours of a K80, with and without trades.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

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
from scheduler.simulation.gavel.workload import generate_gavel, parse_gavel
from scheduler.simulation.rates import ThroughputTable
from scheduler.simulation.throughputs import read_throughputs
from scheduler.simulation.traces.options import TraceOptions

HOUR = 3_600.0
QUANTUM = 60.0
FOR_EVER = 1e9


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    data = Path(__file__).resolve().parents[2] / "shared" / "data" / "gavel"
    parser.add_argument("--data", type=Path, default=data)
    options = parser.parse_args()
    print(describe_machine())
    one_against_many()
    a_gang_beside_a_flood()
    a_user_leaves()
    path = options.data / "simulation_throughputs.json"
    if path.exists():
        trading(read_throughputs(path))
    else:
        print(f"trading: skipped, {path} is not there")


def one_against_many() -> None:
    jobs = [gang(1, "one", 8), *[gang(number, "many", 1) for number in range(2, 42)]]
    engine = run(jobs, {"P100": [8, 8]}, 6 * HOUR)
    report_hours("one job of 8 GPUs against 40 of one, on 16", engine, {"one": 8, "many": 8}, 6)


def a_gang_beside_a_flood() -> None:
    flood = [gang(number, f"flood {number % 3}", 1) for number in range(2, 152)]
    engine = run([gang(1, "gang", 16), *flood], {"P100": [8] * 4}, 6 * HOUR)
    parts = {"gang": 8, **{f"flood {place}": 8 for place in range(3)}}
    report_hours("a gang of 16 over two nodes beside 150 jobs of one GPU, on 32", engine, parts, 6)


def a_user_leaves() -> None:
    jobs = [gang(number, f"user {number % 3}", 2) for number in range(1, 31)]
    left_at = 1_830.0
    work = {job.id: left_at for job in jobs if job.tenant == "user 0"}
    engine = run(jobs, {"P100": [8] * 3}, HOUR, work, cancel_at=left_at)
    before, after = gpu_hours(engine, 0, left_at), gpu_hours(engine, left_at + QUANTUM, HOUR)
    hours = [left_at / HOUR, 1 - (left_at + QUANTUM) / HOUR]
    print(
        "a user of three with 24 GPUs leaves within a quantum; GPUs on average before, and a quantum after:"
    )
    for user in sorted(before):
        print(f"  {user}: {before[user] / hours[0]:.2f}, {after.get(user, 0.0) / hours[1]:.2f}")


def trading(table: ThroughputTable) -> None:
    spec, options = parse_gavel("gavel:jobs=200"), TraceOptions(throughputs=table)
    drawn = generate_gavel(spec, seed=0, options=options).arrivals
    jobs = [replace(arrival.job, tenant=family(arrival.job), virtual_cluster="all") for arrival in drawn]
    machines = {"v100": [4] * 8, "p100": [4] * 8, "k80": [4] * 8}
    speeds = Speeds(tables=table)
    found = {
        name: run(jobs, machines, 3 * HOUR, speeds=speeds, parameters=parameters)
        for name, parameters in (
            ("none", {"trading": False}),
            ("second price", {}),
            ("clearing price", {"price": "clearing"}),
        )
    }
    work = {name: progress(engine, speeds) for name, engine in found.items()}
    print("trades among users of 32 V100, 32 P100 and 32 K80; K80-hours of work in three hours:")
    print(f"  {'':16}" + "".join(f"{name:>24}" for name in work))
    for user in sorted(work["none"]):
        print_row(user, [done[user] for done in work.values()])
    print_row("all", [sum(done.values()) for done in work.values()])
    alike = [replace(job, throughput={"v100": 3.0, "p100": 2.0, "k80": 1.0}) for job in jobs]
    engine = run(alike, machines, 600.0, speeds=Speeds())
    print(f"the same users, all with equal speed-ups: {engine_trades(engine)} trades")


def print_row(name: str, amounts: Sequence[float]) -> None:
    print(f"  {name:16}" + "".join(f"{each:15.1f} ({each / amounts[0] - 1:+.1%})" for each in amounts))


def family(job: Job) -> str:
    return job.application.partition(" (")[0]


def gang(number: int, tenant: str, gpus: int) -> Job:
    task = Task(replicas=max(1, gpus // 8), gpus=min(gpus, 8))
    return Job(id=JobId(number), tenant=tenant, virtual_cluster="all", submitted_at=0.0, tasks=(task,))


class Departure:
    """A user cancels all its jobs."""

    def __init__(self, at: float, jobs: Sequence[JobId]) -> None:
        self.at, self._jobs = at, jobs

    def happen(self, engine: Engine) -> None:
        for job in self._jobs:
            engine.cancel(job)


def run(
    jobs: Sequence[Job],
    machines: Mapping[str, Sequence[int]],
    seconds: float,
    leaving: Mapping[JobId, float] | None = None,
    *,
    cancel_at: float = 0.0,
    speeds: Speeds | None = None,
    parameters: Mapping[str, object] | None = None,
) -> Engine:
    """Return the simulation of a virtual cluster with all machines: numbers of GPUs by model."""
    nodes, guaranteed = [], {}
    for model, sizes in machines.items():
        guaranteed[model] = sum(sizes)
        for size in sizes:
            number = len(nodes) + 1
            gpus = tuple(Gpu(id=GpuId(100 * number + index), index=index) for index in range(size))
            nodes.append(Node(id=NodeId(number), name=f"node-{number}", gpu_model=model, gpus=gpus))
    tenants = sorted({job.tenant for job in jobs})
    vc = VirtualCluster(
        name="all",
        guaranteed=guaranteed,
        members=tuple(Member(tenant=tenant) for tenant in tenants),
        policy="gandiva_fair",
        policy_parameters=parameters or {},
    )
    facts = Snapshot(
        round_number=0,
        now=0.0,
        round_seconds=5.0,
        nodes=tuple(nodes),
        tenants=tuple(Tenant(name=tenant) for tenant in tenants),
        virtual_clusters=(vc,),
    )
    arrivals = [Arrival(job=job, truth=Truth(work_seconds=FOR_EVER)) for job in jobs]
    script = [Departure(cancel_at, list(leaving))] if leaving else []
    engine = Engine(facts, arrivals, Rules(speeds=speeds or Speeds()), script=script)
    engine.run(until=lambda engine: engine.now >= seconds)
    assert not engine.degraded, engine.degraded
    return engine


def gpu_hours(engine: Engine, since: float, until: float) -> dict[str, float]:
    tenants = {record.id: record.tenant for record in engine.records()}
    had: dict[str, float] = {}
    for stay in engine.stays:
        seconds = max(0.0, min(until, stay.ended_at) - max(since, stay.started_at))
        had[tenants[stay.job]] = had.get(tenants[stay.job], 0.0) + seconds * len(stay.gpus) / HOUR
    return had


def report_hours(title: str, engine: Engine, parts: Mapping[str, float], hours: int) -> None:
    print(f"{title}; GPU-hours by hour:")
    for user, part in parts.items():
        had = [gpu_hours(engine, hour * HOUR, (hour + 1) * HOUR).get(user, 0.0) for hour in range(hours)]
        most = max(abs(amount - part) for amount in had)
        amounts = " ".join(f"{amount:.2f}" for amount in had)
        print(f"  {user:10} {amounts}   at most {most:.2f} from its part")


def progress(engine: Engine, speeds: Speeds) -> dict[str, float]:
    """Return what each user's jobs did, in GPU-hours of a K80."""
    done: dict[str, float] = {}
    jobs = {job: progress.job for job, progress in engine.progress.items()}
    for stay in engine.stays:
        job = jobs[stay.job]
        rate = speeds.alone(job, stay.gpu_model, job.gpus, len(stay.nodes))
        slow = speeds.alone(job, "k80", job.gpus, 1)
        seconds = min(stay.ended_at, engine.now) - stay.started_at
        done[job.tenant] = done.get(job.tenant, 0.0) + seconds * len(stay.gpus) * rate / slow / HOUR
    return done


def engine_trades(engine: Engine) -> int:
    return len(engine.snapshot().memory["all"]["books"]["trades"])


if __name__ == "__main__":
    main()
