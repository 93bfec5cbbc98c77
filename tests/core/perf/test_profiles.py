"""Profiles: what progress lines and devices tell is believed only where it makes sense."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.model.training import Profile
from scheduler.core.perf.profiles import (
    Line,
    ProfileReport,
    blended,
    first_known,
    measured_profile,
)

SECONDS = {"storage_seconds": 0.4, "gpu_seconds": 0.2, "network_seconds": 0.0}


def line(sequence: int = 1, *, attempt: int = 1, is_alone: bool = True, **values: float) -> Line:
    return Line(attempt=attempt, sequence=sequence, is_alone=is_alone, values=values)


def test_stages_follow_what_lines_tell() -> None:
    known = ProfileReport().after(line(1, **SECONDS, amp=1))
    assert known.profile == Profile(stages=(0.4, 0.2, 0.0), amp=True)
    known = known.after(line(2, **{**SECONDS, "gpu_seconds": 1.2}))
    assert known.profile.stages == pytest.approx((0.4, 0.5, 0.0))
    assert known.profile.amp is True


def test_a_line_counts_once_and_only_if_its_job_was_alone() -> None:
    known = ProfileReport().after(line(5, **SECONDS))
    assert known.after(line(5, **SECONDS, amp=1)) is known
    assert known.after(line(9, attempt=0, **SECONDS)) is known
    assert known.after(line(6, is_alone=False, gpu_seconds=9, storage_seconds=9, network_seconds=9)) is known


@given(st.dictionaries(st.sampled_from([*SECONDS, "amp"]), st.floats()))
def test_no_number_of_a_program_breaks_anything(values: dict[str, float]) -> None:
    known = ProfileReport().after(line(1, **values)).profile
    if known.stages is not None:
        assert all(math.isfinite(seconds) and seconds >= 0 for seconds in known.stages)
        assert sum(known.stages) > 0


def test_a_stage_alone_or_times_of_nothing_say_nothing() -> None:
    start = ProfileReport()
    assert start.after(line(1, gpu_seconds=0.2)) is start
    assert start.after(line(1, **dict.fromkeys(SECONDS, 0.0))) is start
    assert start.after(line(1, **{**SECONDS, "gpu_seconds": -1.0})) is start


def test_minutes_count_once_and_memory_by_its_most() -> None:
    known = ProfileReport().after_minute(60.0, measured_profile(50.0, 20.0, 2.0**30))
    known = known.after_minute(120.0, measured_profile(100.0, None, 2.0**20))
    assert known.profile == Profile(
        utilisation=pytest.approx(0.65), memory_utilisation=0.2, memory_bytes=2**30
    )
    assert known.after_minute(120.0, measured_profile(0.0, 0.0, 1.0)) is known
    assert measured_profile(101.0, math.nan, -1.0) == Profile()


def test_what_a_job_does_not_know_its_like_do() -> None:
    own, like = Profile(utilisation=0.0), Profile(utilisation=0.9, amp=False)
    assert first_known([None, own, like]) == Profile(utilisation=0.0, amp=False)
    assert first_known([None, Profile()]) is None
    assert first_known([None, None]) is None
    assert blended(Profile(), like) == like
