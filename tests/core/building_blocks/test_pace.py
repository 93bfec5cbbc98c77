"""How long a job runs by its own steps: what is timed, what is believed, and what is left."""

from __future__ import annotations

import math
from typing import Any

import pytest

from scheduler.core.building_blocks.pace import Line, Pace, measured_seconds
from scheduler.core.building_blocks.run_time import (
    LONGEST_SECONDS,
    left_seconds,
    remaining_seconds,
    start_seconds,
)
from scheduler.core.sim.run_times import Assumption, RunTimes, Source
from tests.builders import NOW, make_job, make_running

DAY = 86_400.0


def told(*lines: tuple[Any, ...]) -> Pace:
    """Return what is known after lines (at, step, fields), by default of one attempt on one V100.

    It is to do 1,000 steps, and what it has had so far is the time of the line.
    """
    pace = Pace()
    for number, (at, step, *fields) in enumerate(lines, start=1):
        values = {
            "attempt": 1,
            "total_steps": 1_000,
            "gpu_model": "V100",
            "gpus": 1,
            "is_alone": True,
            "service": {"V100": at},
            **(fields[0] if fields else {}),
        }
        pace = pace.after(Line(sequence=number, at=at, step=step, **values))
    return pace


def measured(*lines: tuple[Any, ...], throughput: dict[str, float] | None = None) -> float | None:
    return measured_seconds(told(*lines), 1, throughput or {})


def test_the_rest_takes_as_long_a_step_as_what_was_timed() -> None:
    """It began after 30 s, does a step in 2 s, and has 900 to do."""
    assert measured((30, 0), (230, 100)) == 230 + 900 * 2


@pytest.mark.parametrize(
    "lines",
    [
        [(0, 0)],
        # For too short a time, and too few of all steps.
        [(0, 0), (59, 500)],
        [(0, 0), (500, 9)],
        # Beside another job all the time.
        [(0, 0), (100, 100, {"is_alone": False})],
        # Each in an attempt of its own.
        [(0, 0), (100, 100, {"attempt": 2})],
        # No step at all.
        [(0, 0), (1_000, 0)],
        # A counter of another kind: it began anew by itself, whatever comes then.
        [(0, 0), (100, 900), (110, 0), (210, 900), (900, 10, {"attempt": 2}), (999, 900, {"attempt": 2})],
        # What says nothing.
        [(0, 0), (100, math.nan)],
        [(0, 0), (100, 100, {"total_steps": 0})],
        [(0, 0), (100, 100, {"total_steps": math.inf})],
    ],
)
def test_until_enough_was_seen_nothing_is_believed(lines: list[tuple[Any, ...]]) -> None:
    assert measured(*lines) is None


def test_a_job_that_begins_in_the_middle_is_not_taken_for_quick() -> None:
    assert measured((10, 800), (110, 850)) == 110 + 150 * 2


def test_what_was_lost_is_done_again() -> None:
    """It came to step 400 and begins again at 300, after 20 s of starting: 700 are left at 1 s each."""
    second = {"attempt": 2}
    assert measured((0, 0), (400, 400), (420, 300, second)) == 420 + 700
    assert measured((0, 0), (400, 400), (420, 300, second), (520, 400, second)) == 520 + 600


def test_time_beside_other_jobs_brings_it_on_and_says_nothing_of_its_pace() -> None:
    assert measured((0, 0), (100, 100), (300, 150, {"is_alone": False})) == 300 + 850
    assert measured((0, 0), (100, 100), (300, 150, {"is_alone": False}), (400, 250)) == 400 + 750


def test_the_newest_total_holds() -> None:
    assert measured((0, 0), (100, 100, {"total_steps": 200})) == 200
    assert measured((0, 0), (100, 100), (200, 200, {"total_steps": 5_000})) == 5_000


def test_lines_told_twice_count_once() -> None:
    once = told((0, 0), (100, 100))
    again = Line(
        attempt=1, sequence=2, at=100.0, step=100.0, total_steps=1_000, gpu_model="V100", gpus=1,
        is_alone=True, service={"V100": 100.0},
    )  # fmt: skip
    assert once.after(again) is once


def test_work_counts_by_the_speed_of_its_model() -> None:
    """100 steps took 400 s on a K80, four times slower than a V100: 100 s of work, and 900 are left."""
    on_k80 = {"gpu_model": "K80", "service": {"K80": 0.0}}
    lines = (0, 0, on_k80), (400, 100, {**on_k80, "service": {"K80": 400.0}})
    known = {"V100": 4.0, "K80": 1.0}
    assert measured(*lines, throughput=known) == 1_000
    assert measured(*lines) == 4_000
    # Whoever says that it does not run where it did is taken at the other speed.
    assert measured(*lines, throughput={"V100": 4.0, "K80": 0.0}) == 900 * 4


def test_an_absurd_run_time_is_still_a_number() -> None:
    assert measured((0, 0), (1e9, 1e-300, {"total_steps": 1e-300}), (2e9, 1, {"total_steps": 2})) == 4e9
    assert measured((0, 0), (9e9, 1, {"total_steps": 99})) == LONGEST_SECONDS


def test_what_is_measured_holds_on_the_fastest_model_whatever_the_reference() -> None:
    """Half of 1,000 s on an A100 is done, by 4 GPUs on K80s that are ten times slower."""
    job = make_job(
        1, 4, throughput={"A100": 10.0, "K80": 1.0}, estimate_seconds=1_000.0, measured=True,
        attained_service={"K80": 4 * 5_000.0},
    )  # fmt: skip
    for reference in ("", "A100", "K80"):
        assert start_seconds(job, ["A100", "K80"], DAY, reference) == {"A100": 500, "K80": 5_000}
    running = make_running(job, range(4), gpu_model="K80", since=NOW - 1_000)
    assert left_seconds(job, running, NOW, DAY) == pytest.approx(4_000)
    # To whom all models are alike, too; and in a forecast, which goes on where the job is.
    assert remaining_seconds(job, running, NOW, DAY) == pytest.approx(400)
    assert RunTimes().left_seconds(job, running, NOW, DAY, Assumption.EXPECTED) == pytest.approx(4_000)
    assert RunTimes().source(job) is Source.STEPS
