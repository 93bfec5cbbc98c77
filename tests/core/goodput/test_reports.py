"""What progress lines of an adaptive job say becomes measurements, noise and limits."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.goodput.batch import Limits, Noise
from scheduler.core.goodput.fit import Measurement
from scheduler.core.goodput.reports import (
    WAYS_MOST,
    WEIGHT_MOST,
    Batch,
    GoodputReport,
    Line,
    Times,
    Way,
)

VALUES = {
    "initial_batch": 64,
    "max_batch": 1024,
    "min_local_batch": 8,
    "max_local_batch": 128,
    "batch_size": 128,
    "local_batch": 32,
    "accumulation": 1,
    "gradient_seconds": 0.1,
    "iteration_seconds": 0.25,
    "timed_iterations": 100,
    "grad_sqr": 1.0,
    "grad_var": 4.0,
    "lr_factor": 1.5,
}
FIRST = Line(attempt=1, sequence=1, gpu_model="V100", nodes=1, replicas=2, values=VALUES)
WAY = Way("V100", 1, 2, 32, 1)
KNOWN = GoodputReport().after(FIRST)


def later(sequence: int = 2, **values: float) -> Line:
    return replace(FIRST, sequence=sequence, values=VALUES | values)


def test_a_line_says_limits_batch_noise_and_times() -> None:
    assert KNOWN.limits == Limits(initial_batch=64, max_batch=1024, min_local_batch=8, max_local_batch=128)
    assert KNOWN.batch == Batch(size=128, local_batch=32, accumulation=1, lr_factor=1.5)
    assert KNOWN.noise == Noise(1.0, 4.0)
    assert KNOWN.times == {WAY: Times(0.1, 0.25, 100.0)}
    assert KNOWN.most_replicas == 2
    assert KNOWN.measurements() == {
        "V100": [Measurement(1, 2, 32, 1, gradient_seconds=0.1, iteration_seconds=0.25)]
    }


def test_what_measuring_costs_is_kept_until_it_is_told_again() -> None:
    known = KNOWN.after(later(overhead=0.004))
    assert known.batch == Batch(128, 32, 1, 1.5, overhead=0.004)
    known = known.after(later(3))
    assert known.batch == Batch(128, 32, 1, 1.5, overhead=0.004)
    known = known.after(later(4, overhead=0.002))
    assert known.batch == Batch(128, 32, 1, 1.5, overhead=0.002)


def test_means_are_over_iterations_and_noise_is_smoothed() -> None:
    known = KNOWN.after(
        later(timed_iterations=300, gradient_seconds=0.2, iteration_seconds=0.45, grad_sqr=2.0)
    )
    gradient, iteration, iterations = known.times[WAY]
    assert (gradient, iteration, iterations) == (pytest.approx(0.175), pytest.approx(0.4), 400.0)
    assert known.noise == Noise(pytest.approx(1.3), 4.0)


def test_a_mean_follows_what_is_measured_now() -> None:
    known = KNOWN.after(later(timed_iterations=10**9, gradient_seconds=0.1))
    known = known.after(later(3, timed_iterations=WEIGHT_MOST, gradient_seconds=0.3))
    assert known.times[WAY].gradient_seconds == pytest.approx(0.2)


def test_who_was_counted_is_not_counted_again() -> None:
    assert KNOWN.after(FIRST) is KNOWN
    assert KNOWN.after(replace(later(9), attempt=0)) is KNOWN


def test_each_way_of_running_has_its_own_mean_and_the_oldest_is_forgotten() -> None:
    known = KNOWN
    for number in range(WAYS_MOST):
        known = known.after(later(2 + number, local_batch=33 + number))
    assert len(known.times) == WAYS_MOST
    assert WAY not in known.times
    assert known.most_replicas == 2
    other = known.after(replace(later(1), attempt=2, gpu_model="K80", nodes=2, replicas=8))
    assert other.most_replicas == 8
    assert set(other.measurements()) == {"K80", "V100"}


def test_times_beside_another_job_are_not_its_own() -> None:
    shared = GoodputReport().after(replace(FIRST, is_alone=False))
    assert (shared.times, shared.most_replicas, shared.noise) == ({}, 0, Noise(1.0, 4.0))


def test_times_and_noise_may_come_later_than_limits() -> None:
    names = ("gradient_seconds", "iteration_seconds", "timed_iterations", "grad_sqr", "grad_var")
    quiet = GoodputReport().after(
        replace(FIRST, values={name: value for name, value in VALUES.items() if name not in names})
    )
    assert (quiet.limits, quiet.noise, quiet.times) == (KNOWN.limits, None, {})
    assert quiet.after(later()) == replace(KNOWN, sequence=2)


def test_noise_at_another_initial_batch_is_forgotten() -> None:
    assert KNOWN.after(later(initial_batch=32, grad_sqr=9.0, grad_var=1.0)).noise == Noise(9.0, 1.0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"initial_batch": 0},
        {"initial_batch": 64.5},
        {"initial_batch": 2048},
        {"max_batch": math.inf},
        {"min_local_batch": 256},
        {"batch_size": -1},
        {"local_batch": 0},
        {"local_batch": 2.0**40},
        {"accumulation": -1},
        {"accumulation": 1e9},
        {"gradient_seconds": 0.0},
        {"gradient_seconds": math.nan},
        {"iteration_seconds": -1.0},
        {"iteration_seconds": 1e9},
        {"timed_iterations": 0},
        {"grad_sqr": math.inf},
        {"grad_var": -1.0},
        {"grad_var": 1e300},
        {"lr_factor": math.nan},
        {"lr_factor": -1.0},
        {"overhead": -0.1},
        {"overhead": 1.5},
        {"overhead": math.nan},
    ],
    ids=str,
)
def test_a_line_with_a_number_that_makes_no_sense_is_passed_over(wrong: dict[str, float]) -> None:
    assert KNOWN.after(later(**wrong)) is KNOWN


@pytest.mark.parametrize("missing", ["max_batch", "local_batch", "gradient_seconds", "grad_var"])
def test_a_line_that_says_half_of_something_is_passed_over(missing: str) -> None:
    half = {name: value for name, value in VALUES.items() if name != missing}
    assert KNOWN.after(replace(later(), values=half)) is KNOWN


def test_a_line_of_a_job_that_is_not_adaptive_says_nothing() -> None:
    assert KNOWN.after(replace(later(), values={"loss": 0.1, "batch_size": 64, "epoch": 3})) is KNOWN


@given(st.dictionaries(st.sampled_from(sorted(VALUES)), st.floats() | st.integers(-(2**70), 2**70)))
def test_no_line_leads_out_of_range(values: dict[str, float]) -> None:
    known = KNOWN.after(later(**values))
    for times in known.times.values():
        assert all(0 < each < math.inf for each in times)
    assert known.noise is not None
    assert all(0 <= each < math.inf for each in known.noise)


def test_a_fit_is_due_when_there_is_a_new_way_or_a_mean_moved() -> None:
    assert KNOWN.has_news({})
    assert not KNOWN.has_news(KNOWN.times)
    assert not KNOWN.after(later(gradient_seconds=0.104)).has_news(KNOWN.times)
    assert KNOWN.after(later(gradient_seconds=0.2)).has_news(KNOWN.times)
    assert KNOWN.after(later(accumulation=0)).has_news(KNOWN.times)
