"""Predictors of peaks: what each says, and what every prediction keeps to."""

from __future__ import annotations

from math import sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.perf.peaks import (
    HISTORY,
    WARM_UP,
    JobUse,
    Predictor,
    largest_of,
    n_sigma,
    predicted_peak,
    rc_like,
)
from tests.core.perf.peak_measures import borg_default, oracle_peak
from tests.effort import examples

PREDICTORS = {"borg": borg_default, "rc": rc_like, "sigma": n_sigma, "max": largest_of(rc_like, n_sigma)}

uses = st.builds(
    lambda request, parts: JobUse(request=request, samples=tuple(request * part for part in parts)),
    st.floats(0.25, 64).map(lambda value: round(value, 3)),
    st.lists(st.floats(0, 1.5).map(lambda value: round(value, 3)), max_size=HISTORY + 10),
)


@pytest.mark.parametrize("predict", PREDICTORS.values(), ids=PREDICTORS)
@settings(max_examples=examples(200))
@given(jobs=st.lists(uses, max_size=6))
def test_a_prediction_is_at_least_what_is_used_and_at_most_what_is_asked_for(
    predict: Predictor, jobs: list[JobUse]
) -> None:
    peak = predicted_peak(jobs, predict)
    now = sum(min(job.samples[-1], job.request) for job in jobs if job.samples)
    assert now - 1e-9 <= peak <= sum(job.request for job in jobs) + 1e-9


@settings(max_examples=examples(100))
@given(jobs=st.lists(uses, min_size=1, max_size=6))
def test_the_largest_of_two_is_no_lower_than_either(jobs: list[JobUse]) -> None:
    both = predicted_peak(jobs)
    assert both == max(predicted_peak(jobs, rc_like), predicted_peak(jobs, n_sigma))


def test_a_new_job_counts_with_all_it_asks_for_until_it_is_warm() -> None:
    old = JobUse(request=8.0, samples=(2.0,) * HISTORY)
    assert predicted_peak([old]) == pytest.approx(2.0)
    for count in (0, 1, WARM_UP - 1):
        assert predicted_peak([old, JobUse(request=4.0, samples=(1.0,) * count)]) == pytest.approx(6.0)
    assert predicted_peak([old, JobUse(request=4.0, samples=(1.0,) * WARM_UP)]) == pytest.approx(3.0)


def test_n_sigma_is_the_mean_of_the_sum_and_five_deviations_of_it() -> None:
    """Two jobs whose use cancels out: the sum never changes, and each alone does."""
    up = JobUse(request=10.0, samples=(2.0, 4.0) * 10)
    down = JobUse(request=10.0, samples=(4.0, 2.0) * 10)
    assert n_sigma([up, down]) == pytest.approx(6.0)
    assert n_sigma([up]) == pytest.approx(3.0 + 5 * sqrt(20 / 19))
    assert rc_like([up, down]) == pytest.approx(8.0)


def test_n_sigma_looks_at_parts_of_what_was_asked_for_so_that_arrivals_are_no_rise() -> None:
    old = JobUse(request=8.0, samples=(2.0,) * 40)
    newer = JobUse(request=8.0, samples=(2.0,) * 20)
    assert n_sigma([old, newer]) == pytest.approx(4.0)


def test_rc_like_is_the_sum_of_percentiles_and_borg_default_a_part_of_the_requests() -> None:
    ramp = JobUse(request=100.0, samples=tuple(float(value) for value in range(1, 51)))
    flat = JobUse(request=10.0, samples=(3.0,) * 50)
    # The 99th percentile of 1 ... 50 is 49.51.
    assert rc_like([ramp, flat]) == pytest.approx(52.51)
    assert borg_default([ramp, flat]) == pytest.approx(99.0)


def test_only_the_history_counts() -> None:
    once_busy = JobUse(request=8.0, samples=(8.0,) * 30 + (1.0,) * HISTORY)
    assert predicted_peak([once_busy]) == pytest.approx(1.0)


def test_the_oracle_is_the_largest_sum_at_one_instant() -> None:
    assert oracle_peak([(1.0, 5.0, 1.0), (4.0, 1.0)]) == 6.0
    assert oracle_peak([]) == 0.0
