"""How long the epochs of a job take, by what its progress lines say."""

from __future__ import annotations

import pytest

from scheduler.core.perf.training_reports import LONGEST_EPOCH_SECONDS, Line, TrainingReport


def reported(*epochs: float, seconds: float = 60.0) -> TrainingReport:
    """Return what is known after lines that are so many seconds apart."""
    report = TrainingReport()
    for place, epoch in enumerate(epochs):
        values = {"epoch": epoch, "epochs": 9.0, "batch_size": 32.0}
        at = 1_000.0 + place * seconds
        report = report.after(Line(attempt=1, sequence=place + 1, at=at, gpu_model="V100", values=values))
    return report


@pytest.mark.parametrize("epoch", [5e-324, 1e-310, 1e-10])
def test_a_part_of_an_epoch_that_tells_nothing_is_not_timed(epoch: float) -> None:
    assert reported(0.0, epoch).training({}) is None
    training = reported(0.0, epoch, 2.0).training({})
    assert training is not None
    assert training.regimes[0].epoch_seconds == pytest.approx(60.0), "two epochs in two minutes"


def test_an_epoch_takes_no_longer_than_any_does() -> None:
    training = reported(0.0, 1e-8, seconds=1e6).training({})
    assert training is not None
    assert training.regimes[0].epoch_seconds == LONGEST_EPOCH_SECONDS
