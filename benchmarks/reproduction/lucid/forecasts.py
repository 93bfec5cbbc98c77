"""What Lucid's authors expected to be submitted, in each ten minutes of the month."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scheduler.simulation.errors import InputError

INTERVAL_SECONDS = 600
#: Intervals that are looked ahead, about an hour.
_AHEAD = 5


@dataclass(frozen=True, slots=True)
class Forecasts:
    """By interval from the workload's beginning: jobs that came, and jobs and GPUs that were expected."""

    submitted: Sequence[int]
    jobs: Sequence[float]
    gpus: Sequence[float]

    def jobs_ahead(self, now: int) -> float:
        """Return the mean of jobs expected in an interval of the next hour; 10 after the last."""
        return _mean(self.jobs, now, after=10.0)

    def gpus_ahead(self, now: int) -> float:
        """Return the mean of GPUs expected in an interval of the next hour; none after the last."""
        return _mean(self.gpus, now, after=-1.0)


def _mean(values: Sequence[float], now: int, after: float) -> float:
    ahead = values[now // INTERVAL_SECONDS + 1 :]
    ahead = ahead[:_AHEAD] if len(ahead) > _AHEAD else ahead
    return sum(ahead) / len(ahead) if ahead else after


def read_forecasts(path: Path) -> Forecasts:
    """Return what venus_throughput_pred.csv.gz has; raise InputError."""
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        return Forecasts(
            [int(row["submit_gpu_job"]) for row in rows],
            [float(row["pred_gpu_job"]) for row in rows],
            [float(row["pred_gpu_num"]) for row in rows],
        )
    except (OSError, KeyError, ValueError) as error:
        raise InputError(f"{path.name} is no forecast of Lucid's: {error}") from None
