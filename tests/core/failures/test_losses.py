"""What becomes of jobs that lose their nodes."""

from __future__ import annotations

from scheduler.core.failures.losses import HELD_AFTER, RAN_WELL_SECONDS, AfterLoss, after_loss


def test_a_job_waits_longer_after_each_loss_in_a_row_and_is_held_in_the_end() -> None:
    after = [after_loss([10.0] * losses) for losses in range(1, HELD_AFTER + 1)]
    assert [one.wait_seconds for one in after[:6]] == [0, 5, 20, 60, 180, 600]
    assert sum(one.wait_seconds for one in after[:-1]) > 20 * 60
    assert [one.is_held for one in after] == [False] * (HELD_AFTER - 1) + [True]


def test_an_attempt_that_ran_well_begins_a_row() -> None:
    assert after_loss([RAN_WELL_SECONDS] + [10.0] * 20) == AfterLoss(1, 0.0, is_held=False)
    assert after_loss([10.0, RAN_WELL_SECONDS, 10.0]).in_a_row == 2
