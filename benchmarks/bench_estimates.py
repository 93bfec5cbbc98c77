"""How far estimated throughputs are from the truth, by Gavel's throughput table.

    python benchmarks/bench_estimates.py [--data ../shared/data/gavel] [--hidden 0.8] [--draws 20]

A job class is one of Gavel's 26 types, its cells are GPU model x gang size (12 for those that can be
distributed, else 3). Of one job class at a time a random part of the cells is hidden, at least one is left;
all others are reference job classes. The relative error of each hidden cell is printed: as estimated, and as
the two assumptions have it that need no knowledge of others: as fast on every model (the geometric mean of
what is left), and as slow as the slowest that is left; both in proportion to the number of GPUs. "Family
left out": the same network with other batch sizes is no reference either.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path

import numpy as np
from machine import describe_machine

from scheduler.core.perf.completion import Cell
from scheduler.core.perf.estimator import ThroughputEstimator
from scheduler.core.perf.tables import read_table
from scheduler.core.perf.throughput import Entry, JobClass, Setting

TABLE = "simulation_throughputs.json"
Rows = dict[JobClass, dict[Cell, float]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared/data/gavel")
    parser.add_argument("--hidden", type=float, default=0.8, help="Part of a kind's cells that is hidden.")
    parser.add_argument("--draws", type=int, default=20, help="Random draws of each kind.")
    options = parser.parse_args()
    print(describe_machine())
    if not (options.data / TABLE).exists():
        print(f"the public data are not here: {options.data / TABLE}")
        return
    rows = gavel_rows(options.data)
    print(f"{len(rows)} kinds, {options.hidden:.0%} of a kind's cells hidden, {options.draws} draws of each")
    print("relative error of hidden cells         median    mean     90 %")
    for title, leave_out in (("all other kinds", False), ("family left out", True)):
        errors = errors_of(rows, options.hidden, options.draws, leave_out_family=leave_out)
        for name, values in errors.items():
            low, mean, high = np.median(values), np.mean(values), np.percentile(values, 90)
            print(f"  {title}: {name:<20} {low:7.3f} {mean:7.3f} {high:8.3f}")
    time_it(rows)


def gavel_rows(data: Path) -> Rows:
    """Return the throughputs alone and near of each type; those of 0 are left out."""
    table = read_table((data / TABLE).read_text())
    rows: Rows = {}
    for (application, setting), throughput in table.throughputs.items():
        if throughput > 0 and not (setting.spread or setting.partner):
            rows.setdefault(JobClass("", application), {})[setting.gpu_model, setting.gpus] = throughput
    return rows


def errors_of(rows: Rows, hidden: float, draws: int, *, leave_out_family: bool) -> dict[str, list[float]]:
    """Return the relative errors of all hidden cells by who guessed."""
    rng = random.Random(0)
    errors: dict[str, list[float]] = {"estimated": [], "as fast everywhere": [], "as the slowest": []}
    for job_class, row in rows.items():
        cells = sorted(row)
        others = {
            other: cells
            for other, cells in rows.items()
            if other != job_class and not (leave_out_family and family(other) == family(job_class))
        }
        for _ in range(draws):
            kept = rng.sample(cells, max(1, round((1 - hidden) * len(cells))))
            known = {cell: row[cell] for cell in kept}
            estimator = ThroughputEstimator(
                {each: entries(cells) for each, cells in {**others, job_class: known}.items()}
            )
            for model, gpus in cells:
                if (model, gpus) in known:
                    continue
                alike = [throughput * gpus / size for (_, size), throughput in known.items()]
                guesses = {
                    "estimated": estimator.throughputs(job_class, gpus, [model])[model].value,
                    "as fast everywhere": float(np.exp(np.mean(np.log(alike)))),
                    "as the slowest": min(alike),
                }
                for name, guess in guesses.items():
                    errors[name].append(abs(guess / row[model, gpus] - 1))
    return errors


def entries(row: dict[Cell, float]) -> dict[Setting, Entry]:
    return {Setting(model, gpus): Entry(corrected=throughput) for (model, gpus), throughput in row.items()}


def family(job_class: JobClass) -> str:
    return job_class.application.partition("-batch-size-")[0]


def time_it(rows: Rows) -> None:
    estimator = ThroughputEstimator({job_class: entries(row) for job_class, row in rows.items()})
    begin = time.perf_counter()
    estimator.throughputs(JobClass("", "new"), 1, ["v100", "p100", "k80"], {"v100": 1.0})
    first = time.perf_counter() - begin
    begin, job_classes = time.perf_counter(), 1_000
    for number in range(job_classes):
        estimator.throughputs(
            JobClass("", f"new-{number}"), 1, ["v100", "p100", "k80"], {"v100": number + 1.0}
        )
    each = (time.perf_counter() - begin) / job_classes
    print(
        f"the first estimate, factors included: {first * 1e3:.1f} ms; each further kind: {each * 1e6:.0f} us"
    )


if __name__ == "__main__":
    main()
