"""Single decisions that Gavel and POP published: a hierarchy of 18 jobs, and a large problem solved in parts.

    python benchmarks/bench_gavel_solves.py --data ../shared/data/gavel [--jobs 256,512,1024,2048]

- *hierarchy*: the normalised throughputs of the paper's example (entities of weights 1, 2 and 3 with six
  jobs each, three GPUs of each model), for as many jobs as the published steps agree with the definition; the
  largest difference, and what all jobs together gain over models taken for alike.
- *parts*: max-min with sharing, GPUs of each model for a quarter of the jobs, whole and in 2, 4 and 8 parts:
  seconds, and each job's throughput as part of what it has in the whole, mean and standard deviation.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from machine import describe_machine

from scheduler.core.solvers.checking import checked_instance
from scheduler.core.solvers.instance import Instance, Pairs
from scheduler.core.solvers.solving import solve
from scheduler.simulation.gavel.workload import GavelSpec, draw
from scheduler.simulation.rates import ThroughputTable
from scheduler.simulation.throughputs import read_throughputs

MODELS = ("v100", "p100", "k80")
#: The steps of the published example that its authors' code and the definition agree on.
FAIR_STEPS, FIFO_STEPS = (1, 17, 18), (1, 2, 3, 4, 5, 6)


def hierarchy(data: Path, table: ThroughputTable) -> None:
    published = json.loads((data / "expected" / "hierarchical_3v100_3p100_3k80.json").read_text())
    entity_of = {job: name for name, jobs in published["entities"].items() for job in jobs}
    names = list(published["entities"])
    kinds = published["job_types_in_order_of_arrival"]
    print("policy,jobs,largest difference to the published values,sum aware / sum agnostic")
    for objective, steps in (("hierarchical", FAIR_STEPS), ("hierarchical_fifo", FIFO_STEPS)):
        fair = objective == "hierarchical"
        for count in steps:
            instance = checked_instance(
                throughput=[[table.alone[kind, 1, model] for model in MODELS] for kind in kinds[:count]],
                models=MODELS,
                gpus=[published["cluster"][model] for model in MODELS],
                weight=[1.0 + (job % 2) if fair else 1.0 for job in range(count)],
                age_seconds=[count - job for job in range(count)],
                entity=[names.index(entity_of[job]) for job in range(count)],
                entities=names,
                entity_weight=list(published["entity_weights"].values()),
            )
            norm = instance.average_throughput
            aware = solve(instance, objective).throughput / norm
            agnostic = solve(instance, objective, aware=False).throughput / norm
            steps_of = published["results"]["fair_then_fairness" if fair else "fair_then_fifo"]
            (step,) = [step for step in steps_of if step["num_jobs"] == count]
            difference = np.abs(aware - np.array(step["aware"])).max()
            print(f"{objective},{count},{difference:.4f},{aware.sum() / agnostic.sum():.3f}", flush=True)


def parts(data: Path, table: ThroughputTable, counts: list[int]) -> None:
    with (data / "expected" / "pop_single_solve_packed.csv").open(newline="") as lines:
        published = {(int(row["num_jobs"]), row["method"]): row for row in csv.DictReader(lines)}
    print("jobs,parts,seconds,mean,deviation,published seconds,mean,deviation")
    for count in counts:
        instance = _packed(table, count)
        whole = None
        for number in (1, 2, 4, 8):
            began = time.process_time()
            found = solve(instance, "max_min", sharing=True, parts=number)
            seconds = time.process_time() - began
            whole = found.throughput if whole is None else whole
            ratio = found.throughput / whole
            known = published[count, "exact" if number == 1 else f"POP-{number}"]
            theirs = [
                float(known[name])
                for name in ("runtime_s", "mean_effective_throughput_ratio_to_exact", "std_ratio")
            ]
            print(
                f"{count},{number},{seconds:.3f},{ratio.mean():.4f},{ratio.std():.4f},"
                + ",".join(f"{value:.4f}" for value in theirs),
                flush=True,
            )


def _packed(table: ThroughputTable, count: int) -> Instance:
    jobs = list(draw(GavelSpec(jobs=count), seed=0))
    kinds = sorted({job.kind for job in jobs})
    instance = checked_instance(
        throughput=[[table.alone[job.kind, 1, model] for model in MODELS] for job in jobs],
        models=MODELS,
        gpus=[count // 4] * len(MODELS),
        job_class=[kinds.index(job.kind) for job in jobs],
        job_classes=kinds,
    )
    couples = [(one, other) for one in range(len(kinds)) for other in range(one, len(kinds))]
    rates = [
        [
            [
                table.pairs.get((kinds[own], kinds[beside], 1, model), 0.0)
                * table.alone[kinds[own], 1, model]
                for model in MODELS
            ]
            for own, beside in (couple, couple[::-1])
        ]
        for couple in couples
    ]
    first, second = np.array(couples).T
    return replace(instance, pairs=Pairs(first=first, second=second, throughput=np.array(rates)))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="the folder of Gavel's data")
    parser.add_argument("--jobs", default="256,512,1024,2048")
    given = parser.parse_args()
    print(describe_machine())
    table = read_throughputs(given.data / "simulation_throughputs.json")
    hierarchy(given.data, table)
    parts(given.data, table, [int(count) for count in given.jobs.split(",")])


if __name__ == "__main__":
    main()
