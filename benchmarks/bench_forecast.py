"""Time a forecast: 1,000 waiting jobs on 2,000 GPUs with about 500 running, all three runs together.

    python benchmarks/bench_forecast.py [--runs 5] [--gpus 2000] [--waiting 1000] [--clusters 1 20] [--rules]

Jobs have about four GPUs each; a few are gangs over several nodes. One round fills the cluster; what it
starts has run for up to 50 minutes, and so many of the others wait. Times are of one core's processor time;
the time of ten million additions tells how fast the machine was at that moment. With --rules every virtual
cluster lends what is idle for a minute, for an hour, and borrows for whoever waits.
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from bench_decide import NOW, add_up, make_nodes, seconds
from machine import describe_machine

from scheduler.core.model.loan_terms import BorrowRule, Lending, LendRule, Lot, RuleId
from scheduler.core.model.plan import ActionKind
from scheduler.core.model.snapshot import (
    AllocationId,
    Job,
    JobId,
    Member,
    Running,
    Snapshot,
    Task,
    Tenant,
    VirtualCluster,
)
from scheduler.core.round.decide import decide
from scheduler.core.round.guarantees.reliance import relying_on
from scheduler.core.sim.forecast import forecast
from scheduler.core.sim.run_times import RunTimes

MODELS = ("A100", "P100", "V100")
#: (replicas, GPUs per replica, weight): about four GPUs a job, so that 500 jobs fill 2,000 GPUs.
SHAPES = ((1, 1, 30), (1, 2, 20), (1, 4, 25), (1, 8, 15), (2, 8, 6), (4, 4, 4))


def make_snapshot(gpus: int, running: int, waiting: int, clusters: int, policy: str, seed: int) -> Snapshot:
    """Return a full cluster: what one round started runs since some time, everybody else waits."""
    dice = random.Random(seed)
    nodes = make_nodes(gpus)
    share = {m: sum(len(n.gpus) for n in nodes if n.gpu_model == m) // clusters for m in MODELS}
    empty = Snapshot(
        round_number=1,
        now=NOW,
        round_seconds=5.0,
        nodes=nodes,
        tenants=tuple(Tenant(name=f"tenant-{number:03d}") for number in range(clusters)),
        virtual_clusters=tuple(
            VirtualCluster(
                name=f"cluster-{number:03d}",
                guaranteed=share,
                members=(Member(tenant=f"tenant-{number:03d}"),),
                policy=policy,
            )
            for number in range(clusters)
        ),
        spare_policy=policy,
        jobs=make_jobs(2 * (running + waiting), clusters, dice),
    )
    started = [action for action in decide(empty).actions if action.kind is ActionKind.START]
    on = tuple(
        Running(
            allocation=AllocationId(number),
            jobs=action.jobs,
            gpu_model=action.placement.gpu_model,
            replicas=action.placement.replicas,
            since=NOW - dice.uniform(0, 3_000),
            guaranteed=action.guaranteed,
        )
        for number, action in enumerate(started, start=1)
        if action.placement is not None
    )
    placed = {job for each in on for job in each.jobs}
    idle = [job for job in empty.jobs if job.id not in placed][:waiting]
    return replace(
        empty,
        jobs=tuple(job for job in empty.jobs if job.id in placed) + tuple(idle),
        running=on,
        round_number=2,
    )


def with_rules(snapshot: Snapshot) -> Snapshot:
    """Let every virtual cluster lend what it does not need, and borrow for jobs that wait."""
    numbers = map(RuleId, count(1))
    clusters = snapshot.virtual_clusters
    lend = [
        LendRule(
            id=next(numbers),
            virtual_cluster=vc.name,
            lot=Lot(gpus=vc.guaranteed),
            idle_seconds=60.0,
            lend_seconds=3_600.0,
        )
        for vc in clusters
    ]
    borrow = [
        BorrowRule(id=next(numbers), virtual_cluster=vc.name, most_gpus=1_000, waiting_seconds=0.0)
        for vc in clusters
    ]
    return relying_on(snapshot, Lending(lend_rules=tuple(lend), borrow_rules=tuple(borrow)))


def make_jobs(jobs: int, clusters: int, dice: random.Random) -> tuple[Job, ...]:
    shapes = dice.choices(SHAPES, [weight for *_, weight in SHAPES], k=jobs)
    return tuple(
        Job(
            id=JobId(number),
            tenant=f"tenant-{owner:03d}",
            virtual_cluster=f"cluster-{owner:03d}",
            submitted_at=NOW - 86_400 + number,
            tasks=(Task(replicas=replicas, gpus=gpus, cpus=4.0 * gpus, memory_bytes=gpus * 2**34),),
            gpu_models=dice.choice(((), (), MODELS[:1], MODELS[1:2], MODELS[2:], MODELS[1:])),
            priority=dice.choice((0, 0, 0, 10)),
            guaranteed=dice.random() < 0.8,
            time_limit_seconds=dice.choice((3_600.0, 14_400.0, 28_800.0, 86_400.0)),
            estimate_seconds=dice.choice((None, None, dice.uniform(600, 3_600))),
        )
        for number, (replicas, gpus, _) in enumerate(shapes, start=1)
        for owner in (dice.randrange(clusters),)
    )


def report(snapshot: Snapshot, runs: int) -> None:
    """Print what one forecast of all waiting jobs costs, and of what kind the answers are."""
    history = RunTimes(parts={("", ""): [number / 100 for number in range(1, 101)]})
    made = forecast(snapshot, history)
    told: Sequence[float] = [p.starts_at for p in made.predictions.values() if p.starts_at is not None]
    print(
        f"{len(snapshot.running)} running, {len(made.predictions)} waiting;"
        f" {len(told)} starts told, the last {(max(told, default=NOW) - NOW) / 3600:.1f} h ahead;"
        f" {made.rounds} rounds"
    )
    taken = seconds(lambda: forecast(snapshot, history), runs)
    print(f"  forecast  median {statistics.median(taken):.3f} s   raw " + " ".join(f"{t:.3f}" for t in taken))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--gpus", type=int, default=2_000)
    parser.add_argument("--running", type=int, default=500)
    parser.add_argument("--waiting", type=int, default=1_000)
    parser.add_argument("--clusters", type=int, nargs="+", default=[1, 20])
    parser.add_argument("--policies", nargs="+", default=["fifo", "tiresias"])
    parser.add_argument("--rules", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(describe_machine())
    print(f"ten million additions: {min(seconds(add_up, 3)):.2f} s")
    for policy in options.policies:
        for clusters in options.clusters:
            print(
                f"{options.gpus} GPUs, {clusters} virtual clusters, {policy}, seed {options.seed}: ", end=""
            )
            snapshot = make_snapshot(
                options.gpus, options.running, options.waiting, clusters, policy, options.seed
            )
            report(with_rules(snapshot) if options.rules else snapshot, options.runs)


if __name__ == "__main__":
    main()
