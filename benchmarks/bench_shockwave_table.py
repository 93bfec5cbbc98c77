"""Run Shockwave's workload under policies of ours, and print the table of its authors.

    python benchmarks/bench_shockwave_table.py --trace FILE --gpus 32 --policy shockwave --policy las ...
        [--published FILE] [--round-seconds 120] [--start-seconds 20]

The trace is one of the CSVs that were made of the authors' (docs/traces.md). GPUs are V100s in nodes of 4. As
in their simulator rounds are of 120 s, and a job that did not run in the round before makes no progress for
the first 20 s. (Theirs lets off a job that ends in that round.) Columns:

- makespan, and mean job completion time (JCT), in seconds.
- FTF: finish-time fairness, JCT / (run time alone x max(1, jobs of the trace / GPUs)), the worst one, and the
  part of the jobs above 1.05 and above 1.1. That is the measure of their table: everyone is compared with an
  even share of a cluster on which all jobs of the trace are present throughout. The simulator's own reports
  look at who really is (docs/simulator.md).
- used: GPU time that jobs held, of what there was until the makespan. kept: the part of rounds at whose
  beginning a job that runs ran before on the same GPUs.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np

from scheduler.core.sim.costs import Costs
from scheduler.core.sim.result import Result
from scheduler.core.sim.rules import Rules
from scheduler.simulation.clusters import parse_cluster
from scheduler.simulation.experiment import Experiment
from scheduler.simulation.joining import join
from scheduler.simulation.run import simulate
from scheduler.simulation.traces.options import TraceOptions
from scheduler.simulation.traces.registry import read_trace

GPUS_PER_NODE = 4


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trace", type=Path, required=True)
    parser.add_argument("--gpus", type=int, required=True)
    parser.add_argument("--policy", action="append", required=True, help="repeat to compare")
    parser.add_argument("--published", type=Path, help="the authors' table, of which simulations are shown")
    parser.add_argument("--round-seconds", type=float, default=120.0)
    parser.add_argument("--start-seconds", type=float, default=20.0, help="that a start costs")
    options = parser.parse_args()
    print(f"{'policy':60} makespan s   JCT s  worst FTF  > 1.05   > 1.1    used    kept")
    if options.published is not None:
        print_published(options.published)
    reading = read_trace(options.trace, "shockwave", options=TraceOptions(gpus_per_node=GPUS_PER_NODE))
    cluster, workload = join(parse_cluster(f"v100={options.gpus}:{GPUS_PER_NODE}"), reading.workload)
    for policy in options.policy:
        experiment = Experiment(
            cluster=cluster,
            workload=workload,
            policy=policy,
            rules=Rules(costs=Costs(start_seconds=options.start_seconds)),
            round_seconds=options.round_seconds,
        )
        print_result(policy, simulate(experiment), options.gpus, options.round_seconds)


def print_published(path: Path) -> None:
    with path.open() as file:
        for row in csv.DictReader(file):
            if (row["result_set"], row["kind"]) == ("tacc_32gpus", "simulation"):
                numbers = [float(value) for value in list(row.values())[3:]]
                makespan, jct, worst, *unfair, used, kept = numbers
                print_row(
                    f"published: {row['policy']}", makespan, jct, worst, *unfair, used=100 * used, kept=kept
                )


def print_result(policy: str, result: Result, gpus: int, round_seconds: float) -> None:
    if result.cut_short or result.degraded:
        raise SystemExit(f"{policy}: {result.cut_short or result.degraded}")
    jobs = result.jobs
    makespan = max(job.ended_at or 0.0 for job in jobs)
    jct = np.array([(job.ended_at or 0.0) - job.submitted_at for job in jobs])
    alone = np.array([job.work_seconds for job in jobs])
    ftf = jct / (alone * max(1.0, len(jobs) / gpus))
    used = sum(job.gpu_seconds for job in jobs) / (makespan * gpus)
    rounds = sum(np.ceil(job.held_seconds / round_seconds) for job in jobs)
    begun = sum(job.attempts for job in jobs)
    unfair = [float((ftf > bound).mean() * 100) for bound in (1.05, 1.1)]
    print_row(
        policy,
        makespan,
        float(jct.mean()),
        float(ftf.max()),
        *unfair,
        used=100 * used,
        kept=100 - 100 * begun / rounds,
    )


def print_row(
    name: str,
    makespan: float,
    jct: float,
    worst: float,
    above: float,
    far_above: float,
    used: float,
    kept: float,
) -> None:
    print(
        f"{name:60} {makespan:10,.0f} {jct:7,.0f} {worst:10.2f} {above:6.1f}% {far_above:6.1f}%"
        f" {used:6.1f}% {kept:6.1f}%",
        flush=True,
    )


if __name__ == "__main__":
    main()
