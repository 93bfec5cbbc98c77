"""Whose word stands, and how sure it is."""

import math

import pytest

from scheduler.core.perf.throughput import (
    Entry,
    MovingAverage,
    Source,
    job_class_of,
    problem_with,
    too_far_apart,
)


def test_a_running_average_counts_the_newest_window_half() -> None:
    measured = MovingAverage(100.0).then(200.0)
    assert (measured.average, measured.variance, measured.samples) == (150.0, 2_500.0, 2)
    measured = measured.then(150.0)
    assert (measured.average, measured.variance, measured.samples) == (150.0, 1_250.0, 3)


def test_the_average_of_equal_windows_is_that() -> None:
    measured = MovingAverage(80.0)
    for _ in range(16):
        measured = measured.then(80.0)
    assert (measured.average, measured.deviation, measured.samples) == (80.0, 0.0, 17)


@pytest.mark.parametrize(
    ("measured", "confidence"),
    [
        (MovingAverage(100.0), 1 / 3),
        (MovingAverage(100.0, 0.0, 3), 0.6),
        (MovingAverage(100.0, 0.0, 18), 0.9),
        # It varies by a quarter of itself.
        (MovingAverage(100.0, 625.0, 3), 0.6 / 1.25),
    ],
)
def test_confidence_grows_with_windows_and_falls_with_what_they_differ_by(
    measured: MovingAverage, confidence: float
) -> None:
    assert measured.confidence == pytest.approx(confidence)


def test_who_is_believed_first() -> None:
    few, enough = MovingAverage(8.0, 0.0, 2), MovingAverage(8.0, 0.0, 3)

    def said(entry: Entry, declared: float | None) -> tuple[float, Source] | None:
        best = entry.best(declared)
        return best and (best.value, best.source)

    assert said(Entry(corrected=5.0, measured=enough), 10.0) == (5.0, Source.CORRECTED)
    assert said(Entry(measured=enough), 10.0) == (8.0, Source.MEASURED)
    assert said(Entry(measured=few), 10.0) == (10.0, Source.DECLARED)
    assert said(Entry(measured=few), None) == (8.0, Source.MEASURED)
    assert said(Entry(), None) is None
    # That it does not run there is something that one can know.
    assert said(Entry(corrected=0.0, measured=enough), 10.0) == (0.0, Source.CORRECTED)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (-1.0, "-1 is negative"),
        (math.nan, "nan is not a finite number"),
        (math.inf, "inf is not a finite number"),
        (2e12, "2e+12 is more than 1e+12 samples a second"),
        (1e-300, "1e-300 is less than 1e-09; where a gang does not run, it is 0"),
    ],
)
def test_absurd_speeds_are_named(value: float, words: str) -> None:
    assert problem_with(value) == words


def test_what_a_speed_can_be() -> None:
    assert problem_with(0.0) is problem_with(1e12) is problem_with(1.0, beside_partner=True) is None
    assert "not faster than alone" in (problem_with(1.01, beside_partner=True) or "")
    assert too_far_apart([1.0, 2e6, 0.0])
    assert not too_far_apart([1.0, 1e6, 0.0])
    assert not too_far_apart([0.0, 0.0])


def test_a_job_without_application_is_of_the_kind_of_its_name() -> None:
    assert job_class_of("vision", "bert", "nightly") == ("vision", "bert")
    assert job_class_of("vision", "", "nightly") == ("vision", "name:nightly")
