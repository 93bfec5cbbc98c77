"""Trials of CPUs: which are tried, what is measured, and the curve that comes of it."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.model.auxiliary import Sensitivity
from scheduler.core.perf.cpu_trials import (
    MOST_SECONDS,
    NEAR,
    NOISE,
    SETTLING_SECONDS,
    TRIALS_MOST,
    WINDOW_SECONDS,
    CpuTrials,
)


def tried(
    speed: Callable[[float], float], *, share: float = 3.0, most: float = 24.0, room: float = 1e9
) -> CpuTrials:
    """Run the trials of a job that writes a line a second, on a node that has so much `room` for it."""
    trials, at, done, has = CpuTrials(share=share, most=most), 0.0, 0.0, share
    while not trials.is_over(at):
        at += 1.0
        done += speed(has)
        trials = trials.after(
            [(at, done)] if not trials.since else lines_since(trials, at, done, speed(has)), has
        )
        if trials.next is not None:
            # The next round, and the agent.
            has = min(trials.next, room)
        assert at < MOST_SECONDS + 2
    return trials


def lines_since(trials: CpuTrials, at: float, done: float, rate: float) -> list[tuple[float, float]]:
    instants = [second for second in range(int(trials.since), int(at) + 1) if second >= trials.since]
    return [(second, done - rate * (at - second)) for second in instants] or [(at, done)]


def test_a_job_that_needs_nine_cpus_is_found_to_need_nine() -> None:
    """The curve of the paper's example: three CPUs are its share, and it gains up to nine."""
    trials = tried(lambda cpus: min(cpus, 9.0) / 9.0)
    assert len(trials.rates) <= TRIALS_MOST
    best, _ = Sensitivity(by_cpus=trials.curve()).best()
    assert best == pytest.approx(9.0, rel=0.25)
    known = Sensitivity(by_cpus=trials.curve())
    assert known.speed(9.0, 0) / known.speed(3.0, 0) == pytest.approx(3.0, rel=0.1)


def test_a_job_that_needs_next_to_none_has_three_trials() -> None:
    trials = tried(lambda cpus: 1.0)
    assert [cpus for cpus, _ in trials.rates] == [0.75, 3.0, 24.0]
    assert trials.curve() == ((0.75, 1.0),)


def test_where_its_share_is_all_of_the_node_two_trials_make_a_curve() -> None:
    trials = tried(lambda cpus: 1.0, share=4.0, most=4.0)
    assert [cpus for cpus, _ in trials.rates] == [1.0, 4.0]
    assert trials.curve() == ((1.0, 1.0),)


def test_a_node_without_room_bounds_what_is_tried() -> None:
    trials = tried(lambda cpus: cpus, room=4.0)
    assert max(cpus for cpus, _ in trials.rates) == 4.0
    best, _ = Sensitivity(by_cpus=trials.curve()).best()
    assert best == 4.0


def test_lines_of_the_first_seconds_after_a_change_do_not_count() -> None:
    trials = CpuTrials(share=1.0, most=8.0).after([(100.0, 0.0)], 1.0)
    assert trials.since == 100.0 + SETTLING_SECONDS
    early = trials.after([(100.0, 0.0), (102.0, 50.0)], 1.0)
    assert early.rates == ()
    lines = [(104.0, 60.0), (106.0, 80.0), (104.0 + WINDOW_SECONDS, 110.0)]
    assert trials.after(lines, 1.0).rates == ((1.0, 10.0),)
    # Another share in between begins the trial again.
    assert trials.after(lines, 2.0).rates == ()


def test_a_job_that_tells_too_little_is_left_alone() -> None:
    trials = CpuTrials(share=1.0, most=8.0).after([(100.0, 0.0)], 1.0)
    assert not trials.is_over(100.0 + MOST_SECONDS)
    assert trials.is_over(101.0 + MOST_SECONDS)
    assert trials.curve() == ()


@given(
    need=st.floats(0.2, 60.0),
    share=st.floats(0.5, 8.0),
    noise=st.floats(0.0, 0.02),
    seed=st.integers(0, 2**16),
)
def test_the_curve_never_falls_and_no_job_is_slower_with_what_it_is_given(
    need: float, share: float, noise: float, seed: int
) -> None:
    dice = random.Random(seed)

    def speed(cpus: float) -> float:
        return min(cpus, need) * (1 + noise * dice.uniform(-1, 1))

    trials = tried(speed, share=share, most=8 * share)
    curve = trials.curve()
    assert [point for point, _ in curve] == sorted({point for point, _ in curve})
    assert [rate for _, rate in curve] == sorted(rate for _, rate in curve)
    assert curve[-1][1] == 1.0
    best = curve[-1][0]
    reachable = min(need, 8 * share)
    assert min(best, need) >= reachable * (1 - NOISE - 3 * noise)
    assert best <= max(reachable, share / 4) * NEAR * (1 + 3 * noise)
