"""Jobs like those of the cluster that Lucid was run on, made of what of it is public.

Their number in each ten minutes of September 2020, the durations that the authors' models expected, the
virtual clusters and the configurations are theirs. Drawn are: which virtual cluster (by its nodes), how many
GPUs, which configuration, and how much longer or shorter than expected a job takes.
"""

from __future__ import annotations

import csv
import gzip
import random
from collections.abc import Mapping
from pathlib import Path

from benchmarks.reproduction.lucid.forecasts import INTERVAL_SECONDS, Forecasts
from benchmarks.reproduction.lucid.jobs import LucidJob
from benchmarks.reproduction.lucid.nodes import GPUS_PER_NODE
from benchmarks.reproduction.lucid.profiles import Profiles, rows_of
from scheduler.simulation.errors import InputError

#: GPUs of twenty jobs: four and a half on average, as in the cluster.
_GPUS = (1,) * 9 + (2,) * 3 + (4,) * 3 + (8,) * 3 + (16,) * 2
#: How long a job takes, in eighths of what was expected of it and a minute.
_EIGHTHS = (1, 2, 4, 8, 12, 16, 32, 64)
_LEAST_SECONDS, _LONGEST_SECONDS = 60, 2 * 86_400


def read_nodes(folder: Path) -> dict[str, int]:
    """Return the nodes of each virtual cluster; raise InputError."""
    return {row[""]: int(row["num"]) for row in rows_of(folder / "venus_vc_nodes.csv")}


def make_jobs(
    folder: Path, profiles: Profiles, forecasts: Forecasts, *, count: int = 4000, seed: int = 1
) -> list[LucidJob]:
    """Return so many jobs by submission, the same for a seed; raise InputError."""
    qssf = _estimates(folder / "Venus_Sept_lgb.csv.gz")
    lucid = _estimates(folder / "Venus_Sept_ebm_weekly_updated.csv.gz")
    numbers = sorted(qssf.keys() & lucid.keys())
    if count > min(len(numbers), sum(forecasts.submitted)):
        raise InputError(f"there are no {count} jobs in what is known")
    nodes, dice = read_nodes(folder), random.Random(seed)
    by_node = [name for name, number in nodes.items() for _ in range(number)]
    instants = [
        interval * INTERVAL_SECONDS + second
        for interval, number in enumerate(forecasts.submitted)
        for second in sorted([dice.randrange(INTERVAL_SECONDS) for _ in range(number)])
    ]
    jobs = []
    for number, instant in zip(numbers[:count], instants, strict=False):
        name = dice.choice(by_node)
        most = GPUS_PER_NODE * max(nodes[name] - 1, 1)
        expected = abs(lucid[number]) + _LEAST_SECONDS
        jobs.append(
            LucidJob(
                number=number,
                virtual_cluster=name,
                submitted_at=instant,
                gpus=min(dice.choice(_GPUS), most),
                duration=min(expected * dice.choice(_EIGHTHS) // 8, _LONGEST_SECONDS),
                configuration=dice.choice(profiles.configurations),
                qssf_estimate=qssf[number],
                lucid_estimate=lucid[number],
            )
        )
    return jobs


def _estimates(path: Path) -> Mapping[int, int]:
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            return {int(row["job_id"]): int(row["priority"]) for row in csv.DictReader(file)}
    except (OSError, KeyError, ValueError) as error:
        raise InputError(f"{path.name} has no estimates: {error}") from None
