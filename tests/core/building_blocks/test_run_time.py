"""How long a job runs on each model: what is stated, and what is assumed where nothing is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduler.core.building_blocks.run_time import (
    LONGEST_SECONDS,
    left_seconds,
    relative_speeds,
    start_seconds,
    work_left_seconds,
)
from scheduler.core.model.snapshot import FIXED_WORLD
from scheduler.core.model.training import Goodput
from tests.builders import NOW, make_job, make_running

MODELS = ("A100", "V100", "K80")
DAY = 86_400.0


def test_the_estimate_holds_on_the_fastest_model_or_the_reference() -> None:
    job = make_job(1, throughput={"A100": 8.0, "V100": 4.0, "K80": 1.0}, estimate_seconds=100.0)
    assert start_seconds(job, MODELS, DAY) == {"A100": 100.0, "V100": 200.0, "K80": 800.0}
    assert start_seconds(job, MODELS, DAY, "V100") == {"A100": 50.0, "V100": 100.0, "K80": 400.0}
    assert start_seconds(job, MODELS, DAY, "H100") == start_seconds(job, MODELS, DAY)


def test_only_models_that_it_accepts_and_runs_on() -> None:
    job = make_job(1, throughput={"V100": 2.0, "K80": 0.0}, gpu_models=("V100", "K80"), estimate_seconds=9.0)
    assert start_seconds(job, MODELS, DAY) == {"V100": 9.0}


def test_what_nobody_knows_is_as_slow_as_the_slowest_known() -> None:
    assert relative_speeds(make_job(1, throughput={"A100": 8.0, "K80": 2.0}), MODELS) == {
        "A100": 1.0,
        "V100": 0.25,
        "K80": 0.25,
    }
    assert relative_speeds(make_job(1), MODELS) == dict.fromkeys(MODELS, 1.0)


def test_a_limit_stands_in_for_an_estimate_and_bounds_every_model() -> None:
    job = make_job(1, throughput={"A100": 2.0, "K80": 1.0}, time_limit_seconds=60.0)
    assert start_seconds(job, MODELS, DAY)["K80"] == 60.0
    assert start_seconds(make_job(1), MODELS, DAY) == dict.fromkeys(MODELS, DAY)


def test_work_counts_by_the_speed_of_where_it_was_done() -> None:
    """Of 100 s on an A100, four GPUs did 20 s on K80s, ten times slower there: 98 s are left."""
    job = make_job(
        1, 4, throughput={"A100": 10.0, "K80": 1.0}, estimate_seconds=100.0, attained_service={"K80": 80.0}
    )
    assert start_seconds(job, MODELS, DAY)["A100"] == pytest.approx(98.0)
    running = make_running(job, range(4), gpu_model="K80", since=NOW - 300)
    assert left_seconds(job, running, NOW, DAY) == pytest.approx(980 - 300)


@pytest.mark.parametrize(
    ("seconds_run", "left"),
    [(99, 1), (100, 60), (130, 30), (159, 1), (160, 60), (219, 1), (220, 120), (339, 1)],
)
def test_what_outlives_its_estimate_ends_within_one_minute_then_two_then_four(
    seconds_run: float, left: float
) -> None:
    job = make_job(1, estimate_seconds=100.0)
    assert left_seconds(job, make_running(job, [1], since=NOW - seconds_run), NOW, DAY) == pytest.approx(left)


def test_a_limit_ends_what_outlives_its_estimate() -> None:
    limited = make_job(1, estimate_seconds=100.0, time_limit_seconds=140.0)
    assert left_seconds(limited, make_running(limited, [1], since=NOW - 130), NOW, DAY) == pytest.approx(10)
    assert left_seconds(limited, make_running(limited, [1], since=NOW - 150), NOW, DAY) == 0.0


def test_a_job_that_holds_half_of_its_gang_takes_twice_as_long() -> None:
    job = make_job(1, replicas=4, elastic=(1, 4), estimate_seconds=100.0)
    assert left_seconds(job, make_running(job, [[1], [2]], since=NOW), NOW, DAY) == 200.0


#: Its batch stays. One replica: 64 samples in 0.178 s. Four: 16 each in 0.082 s, and 0.02 s to synchronise.
SCALES = Goodput(
    parameters={"V100": (0.05, 0.002, 0.02, 0.0, 0.02, 0.0, 1.0)},
    noise=(0.05, 1.0),
    initial_batch=64,
    max_batch=64,
    max_local_batch=64,
    most_replicas=4,
)


def test_more_gpus_shorten_a_job_as_its_goodput_says() -> None:
    """And what it did on four GPUs counts as much as it was: 1,000 s there are 1,745 s of its own one."""
    speedup = 0.178 / 0.102
    job = make_job(1, elastic=(1, 4), goodput=SCALES, estimate_seconds=3_600.0)
    begun = make_running(job, [[1], [2], [3], [4]], since=NOW)
    assert left_seconds(job, begun, NOW, DAY) == pytest.approx(3_600 / speedup)
    assert left_seconds(job, begun, NOW + 1_000, DAY) == pytest.approx(3_600 / speedup - 1_000)
    assert work_left_seconds(job, begun, NOW + 1_000, DAY) == pytest.approx(3_600 - 1_000 * speedup)
    alone = make_running(job, [[1]], since=NOW - 600)
    assert left_seconds(job, alone, NOW, DAY) == 3_000.0


@pytest.mark.parametrize(
    "fields",
    [
        {"goodput": None},
        {"measured": True},
        {"elastic_mode": FIXED_WORLD, "tasks": make_job(1, replicas=4).tasks, "estimate_seconds": 900.0},
        {"goodput": replace(SCALES, parameters={"P100": SCALES.parameters["V100"]})},
        {"goodput": replace(SCALES, max_batch=1)},
    ],
    ids=["nothing measured", "by its steps", "fixed world", "another model", "no sense"],
)
def test_else_in_proportion_to_the_gpus(fields: dict[str, Any]) -> None:
    values = {"elastic": (1, 4), "goodput": SCALES, "estimate_seconds": 3_600.0} | fields
    job = make_job(1, **values)
    running = make_running(job, [[1], [2], [3], [4]], since=NOW - 100)
    assert left_seconds(job, running, NOW, DAY) == pytest.approx(800.0)


@pytest.mark.parametrize("rate", [5e-324, 1e308, float("inf"), float("nan"), -3.0])
def test_every_time_is_finite(rate: float) -> None:
    job = make_job(1, throughput={"A100": rate, "V100": 1.0}, estimate_seconds=1e300)
    assert all(0 <= seconds <= LONGEST_SECONDS for seconds in start_seconds(job, MODELS, DAY).values())
