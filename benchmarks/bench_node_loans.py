"""What loans of nodes from a serving pool gain, and what keeping flexible workers apart saves.

    python benchmarks/bench_node_loans.py [--days 4] [--seeds 3]

Simulates a training cluster of 8 nodes with 8 GPUs and a serving pool of as many, whose load curve leaves
most of them idle by night (an invented workload: jobs of 1 to 16 GPUs, half an hour to a day, half of them
elastic up to twice their size; a checkpoint takes 15 s, to start again 45 s). All by policy
`aryl`. The questions are those of Aryl (arXiv 2202.07896, abstract): completion and queueing without loans
or scaling, with one of them, with both; and, beyond its abstract, how many jobs stop when nodes go back, with
flexible workers apart (placer `aryl`) and without (`consolidate`).
"""

import argparse
import random
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path

from machine import describe_machine

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scheduler.core.model.snapshot import Job, JobId, Task
from scheduler.core.serving_pools.load_curve import curve_of
from scheduler.core.sim.costs import Costs
from scheduler.core.sim.result import Result
from scheduler.core.sim.rules import Rules
from scheduler.core.sim.workload import Arrival, Truth, Workload
from scheduler.simulation.cluster_yaml import read_cluster_yaml
from scheduler.simulation.experiment import Experiment
from scheduler.simulation.run import simulate

CLUSTER = """
nodes:
  - {name: train, gpu_model: V100, gpus: 8, count: 8}
  - {name: serve, gpu_model: V100, gpus: 8, count: 8, serving_pool: chat}
serving_pools:
  - {name: chat, return: 10m}
virtual_clusters:
  - {name: cluster, guaranteed: {V100: 128}, policy: aryl, placer: aryl, members: [vision]}
tenants: [{name: vision}]
"""
#: A day of users: few at night, most of them in the evening.
NEEDED = {"00:00": 3, "02:00": 2, "07:00": 4, "09:00": 6, "18:00": 8, "22:00": 5}
#: Name, whether there are loans, whether jobs are elastic, placer.
SETTINGS = [
    ("neither", False, False, "aryl"),
    ("scaling alone", False, True, "aryl"),
    ("loans alone", True, False, "aryl"),
    ("both, not apart", True, True, "consolidate"),
    ("both, apart", True, True, "aryl"),
]


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--days", type=float, default=4.0)
    arguments.add_argument("--seeds", type=int, default=3)
    given = arguments.parse_args()
    print(describe_machine())
    print(f"{'':18}{'mean JCT':>10}{'queueing':>10}{'GPU use':>9}{'returns stop':>14}{'shrink':>8}{'CPU':>7}")
    for name, with_loans, with_scaling, placer in SETTINGS:
        began = time.process_time()
        results = [
            simulate(experiment(with_loans, with_scaling, placer, given.days, seed))
            for seed in range(given.seeds)
        ]
        jct = statistics.fmean(job.completion_seconds or 0.0 for result in results for job in result.jobs)
        wait = statistics.fmean(job.queueing_seconds or 0.0 for result in results for job in result.jobs)
        stopped, shrunk = (sum(ends(result, end) for result in results) for end in ("drained", "resized"))
        use = statistics.fmean(map(used, results))
        cpu = time.process_time() - began
        print(f"{name:18}{jct / 3600:8.2f} h{wait / 3600:8.2f} h{use:9.1%}{stopped:14}{shrunk:8}{cpu:5.0f} s")


def experiment(with_loans: bool, with_scaling: bool, placer: str, days: float, seed: int) -> Experiment:
    cluster = read_cluster_yaml("loans", CLUSTER)
    if with_loans:
        cluster = replace(cluster, pools=tuple([replace(cluster.pools[0], curve=curve_of(NEEDED))]))
    costs = Costs(checkpoint_seconds=15.0, restore_seconds=45.0)
    return Experiment(
        cluster=cluster,
        workload=Workload(name="invented", arrivals=tuple(arrivals(days, seed, with_scaling))),
        policy="",
        placer=placer,
        rules=Rules(costs=costs),
    )


def arrivals(days: float, seed: int, with_scaling: bool) -> list[Arrival]:
    """Return jobs of a Poisson process that asks for about as much as there is on average."""
    rng, at, found = random.Random(seed), 0.0, []
    while (at := at + rng.expovariate(1 / 800.0)) < days * 86_400:
        gpus = rng.choice([1, 1, 2, 2, 4, 4, 8, 16])
        seconds = min(max(rng.lognormvariate(9.3, 1.0), 1_800.0), 86_400.0)
        is_elastic = rng.random() < 0.5
        job = Job(
            id=JobId(len(found) + 1),
            tenant="vision",
            virtual_cluster="cluster",
            submitted_at=at,
            tasks=(Task(replicas=gpus, gpus=1),),
            elastic=(gpus, gpus * 2) if with_scaling and is_elastic else None,
            estimate_seconds=seconds,
        )
        found.append(Arrival(job=job, truth=Truth(work_seconds=seconds)))
    return found


def ends(result: Result, end: str) -> int:
    return sum(stay.end == end for stay in result.stays)


def used(result: Result) -> float:
    """Return the part in use of all GPU time that was there, the pool's own use left out."""
    held = sum((stay.ended_at - stay.started_at) * len(stay.gpus) for stay in result.stays)
    pairs = zip(result.samples, result.samples[1:], strict=False)
    return held / sum((later.at - sample.at) * sample.usable_gpus for sample, later in pairs)


if __name__ == "__main__":
    main()
