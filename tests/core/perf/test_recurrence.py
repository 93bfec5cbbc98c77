"""Run times by recurrence: with whom a job is compared, and how far off that was."""

from __future__ import annotations

import pytest

from scheduler.core.perf.recurrence import APPLICATION, LATEST, LEVELS, SIZE, USER, Like, Recurrence

ADA = Like("vision", "ada", "resnet", 1)


def known(*ended: tuple[Like, float], levels: tuple[str, ...] = LEVELS) -> Recurrence:
    made = Recurrence(levels)
    for like, seconds in ended:
        made.ended(like, seconds)
    return made


def test_the_likest_of_which_two_ended_say_how_long_a_job_runs() -> None:
    two, other = ADA._replace(gpus=2), ADA._replace(application="bert")
    ended = [(ADA, 100.0), (two, 60.0), (other, 1_000.0)]
    usual = known(*ended).usual(ADA)
    assert usual is not None
    assert (usual.seconds, usual.by, usual.jobs) == (80.0, APPLICATION, 2)
    usual = known(*ended, (ADA, 140.0)).usual(ADA)
    assert usual is not None
    assert (usual.seconds, usual.by, usual.jobs) == (120.0, SIZE, 2)
    usual = known(*ended).usual(ADA._replace(application="new"))
    assert usual is not None
    assert (usual.seconds, usual.by) == (pytest.approx(1_160 / 3), USER)


def test_one_that_ended_says_nothing_nor_do_the_jobs_of_others() -> None:
    assert known((ADA, 100.0)).usual(ADA) is None
    others = [ADA._replace(user="bob"), ADA._replace(tenant="speech")]
    assert known(*[(like, 100.0) for like in others * 3]).usual(ADA) is None


def test_the_error_is_of_what_was_foretold_before_each_end() -> None:
    usual = known((ADA, 100.0), (ADA, 100.0)).usual(ADA)
    assert usual is not None
    assert usual.error is None
    # 100 foretold, 200 came; then (100 + 100 + 200) / 3 foretold, and 100 came.
    usual = known((ADA, 100.0), (ADA, 100.0), (ADA, 200.0)).usual(ADA)
    assert usual is not None
    assert usual.error == pytest.approx(0.5)
    usual = known((ADA, 100.0), (ADA, 100.0), (ADA, 200.0), (ADA, 100.0)).usual(ADA)
    assert usual is not None
    assert usual.error == pytest.approx((0.5 + 1 / 3) / 2)


def test_only_the_latest_count_and_no_number_that_makes_no_sense() -> None:
    made = known(*[(ADA, 1.0)] * 5, *[(ADA, 100.0)] * LATEST)
    for seconds in (0.0, -1.0, float("inf"), float("nan")):
        made.ended(ADA, seconds)
    usual = made.usual(ADA)
    assert usual is not None
    assert (usual.seconds, usual.jobs) == (100.0, LATEST)


def test_levels_are_chosen() -> None:
    ended = [(ADA, 100.0), (ADA, 100.0), (ADA._replace(application="bert"), 400.0)]
    usual = known(*ended, levels=(USER,)).usual(ADA)
    assert usual is not None
    assert (usual.seconds, usual.by) == (200.0, USER)
