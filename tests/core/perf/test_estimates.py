"""Estimates against Gavel's own table: nearer to the truth than what one would assume without them."""

import random
from pathlib import Path
from statistics import median

import pytest

from scheduler.core.perf.knowledge import Knowledge
from scheduler.core.perf.speed import Entry, Kind, Setting
from scheduler.core.perf.tables import read_table

TABLE = Path(__file__).parents[4] / "shared/data/gavel/simulation_throughputs.json"


def test_four_in_five_cells_are_guessed_better_than_by_assuming_equal_models() -> None:
    """The same as benchmarks/bench_estimates.py, with fewer draws."""
    if not TABLE.exists():
        pytest.skip(f"the public data are not here: {TABLE}")
    entries: dict[Kind, dict[Setting, Entry]] = {}
    for (application, setting), speed in read_table(TABLE.read_text()).speeds.items():
        if speed > 0 and not (setting.spread or setting.partner):
            entries.setdefault(Kind("", application), {})[setting] = Entry(corrected=speed)
    assert len(entries) == 26
    rng, estimated, assumed = random.Random(0), [], []
    for kind, truth in entries.items():
        kept = rng.sample(sorted(truth), max(1, len(truth) // 5))
        knowledge = Knowledge({**entries, kind: {setting: truth[setting] for setting in kept}})
        known = [truth[setting].corrected / setting.gpus for setting in kept]
        for setting in truth.keys() - set(kept):
            real = truth[setting].corrected
            guess = knowledge.speeds(kind, setting.gpus, [setting.gpu_model])[setting.gpu_model].value
            estimated.append(abs(guess / real - 1))
            assumed.append(abs(sum(known) / len(known) * setting.gpus / real - 1))
    assert median(estimated) < 0.35
    assert median(estimated) < 0.7 * median(assumed)
