"""Estimates against Gavel's own table: nearer to the truth than what one would assume without them."""

import random
from pathlib import Path
from statistics import median

import pytest

from scheduler.core.perf.estimator import ThroughputEstimator
from scheduler.core.perf.tables import read_table
from scheduler.core.perf.throughput import Entry, JobClass, Setting

TABLE = Path(__file__).parents[4] / "shared/data/gavel/simulation_throughputs.json"


def test_four_in_five_cells_are_guessed_better_than_by_assuming_equal_models() -> None:
    """The same as benchmarks/bench_estimates.py, with fewer draws."""
    if not TABLE.exists():
        pytest.skip(f"the public data are not here: {TABLE}")
    entries: dict[JobClass, dict[Setting, Entry]] = {}
    for (application, setting), throughput in read_table(TABLE.read_text()).throughputs.items():
        if throughput > 0 and not (setting.spread or setting.partner):
            entries.setdefault(JobClass("", application), {})[setting] = Entry(corrected=throughput)
    assert len(entries) == 26
    rng, estimated, assumed = random.Random(0), [], []
    for job_class, truth in entries.items():
        kept = rng.sample(sorted(truth), max(1, len(truth) // 5))
        estimator = ThroughputEstimator({**entries, job_class: {setting: truth[setting] for setting in kept}})
        known = [truth[setting].corrected / setting.gpus for setting in kept]
        for setting in truth.keys() - set(kept):
            real = truth[setting].corrected
            guess = estimator.throughputs(job_class, setting.gpus, [setting.gpu_model])[
                setting.gpu_model
            ].value
            estimated.append(abs(guess / real - 1))
            assumed.append(abs(sum(known) / len(known) * setting.gpus / real - 1))
    assert median(estimated) < 0.35
    assert median(estimated) < 0.7 * median(assumed)
