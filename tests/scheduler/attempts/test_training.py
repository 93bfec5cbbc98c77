"""What progress lines say of epochs and batch sizes becomes a fact of the next round."""

import pytest

from nodeagent.messages import PROTOCOL, PartReport, ProgressLine, Report
from scheduler.agents.services.reports import report_apply
from scheduler.core.model.training import Regime, Training
from scheduler.models import Attempt, Node, TrainingProgress
from scheduler.rounds.snapshot import read_snapshot
from scheduler.wiring.clock import database_now
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_node

pytestmark = pytest.mark.django_db

BEGAN = 1_700_000_000.0


def progress(node: Node, attempt: Attempt, *lines: tuple[float, dict[str, float]]) -> None:
    """Report lines: (seconds since the attempt's first, values)."""
    first = attempt.progress.count() + 1
    told = tuple(
        ProgressLine(sequence=first + place, at=BEGAN + at, step=first + place, values=values)
        for place, (at, values) in enumerate(lines)
    )
    part = PartReport(attempt=attempt.id, state="running", progress=told)
    report_apply(node, Report(protocol=PROTOCOL, boot=node.boot, generation=0, parts=(part,)))


def training(attempt: Attempt) -> Training | None:
    return next(job.training for job in read_snapshot(1).jobs if job.id == attempt.job_id)


@pytest.fixture
def hints(monkeypatch) -> list[str]:
    """One entry for each early round that is asked for because of a batch size."""
    asked: list[str] = []
    monkeypatch.setattr(
        "scheduler.jobs.attempts.services.progress.request_round_on_commit", lambda: asked.append("round")
    )
    return asked


@pytest.fixture
def node() -> Node:
    return make_node()


@pytest.fixture
def attempt(node: Node) -> Attempt:
    return make_attempt(make_job(), gpus_of(node)[:1])


def test_epochs_are_counted_and_timed_by_batch_size(node, attempt, hints) -> None:
    progress(node, attempt, (0, {"epoch": 0, "epochs": 30, "batch_size": 32}))
    assert training(attempt) is None
    progress(node, attempt, (100, {"epoch": 4, "batch_size": 32}))
    assert training(attempt) == Training(
        epochs=30.0, batch_size=32, regimes=(Regime(batch_size=32, epochs=4.0, epoch_seconds=25.0),)
    )
    assert hints == []
    progress(node, attempt, (125, {"epoch": 5, "batch_size": 64}), (165, {"epoch": 7, "batch_size": 64}))
    assert hints == ["round"]
    assert training(attempt) == Training(
        epochs=30.0,
        batch_size=64,
        regimes=(
            Regime(batch_size=32, epochs=5.0, epoch_seconds=25.0),
            Regime(batch_size=64, epochs=2.0, epoch_seconds=20.0),
        ),
    )


def test_a_repeated_report_changes_nothing(node, attempt) -> None:
    lines = tuple(
        ProgressLine(sequence=n, at=BEGAN + 10 * n, step=n, values={"epoch": n, "epochs": 9})
        for n in (1, 2, 3)
    )
    part = PartReport(attempt=attempt.id, state="running", progress=lines)
    for _ in range(2):
        report_apply(node, Report(protocol=PROTOCOL, boot=node.boot, generation=0, parts=(part,)))
    assert training(attempt) == Training(
        epochs=9.0, batch_size=0, regimes=(Regime(batch_size=0, epochs=3.0, epoch_seconds=10.0),)
    )


def test_who_goes_on_from_a_checkpoint_has_done_less(node, attempt) -> None:
    progress(node, attempt, (0, {"epoch": 0, "epochs": 9, "batch_size": 32}))
    progress(node, attempt, (60, {"epoch": 3, "batch_size": 64}), (80, {"epoch": 5, "batch_size": 64}))
    ended = {"state": "ended", "outcome": "preempted", "ended_at": database_now()}
    Attempt.objects.filter(id=attempt.id).update(**ended)
    again = make_attempt(attempt.job, gpus_of(node)[1:2])
    progress(node, again, (500, {"epoch": 2, "batch_size": 32}))
    found = training(again)
    assert found is not None
    # The two with 64 first, then one with 32; the time between the attempts counts for nothing.
    assert [(each.batch_size, each.epochs, each.epoch_seconds) for each in found.regimes] == [
        (32, 2.0, 20.0),
        (64, 0.0, 10.0),
    ]
    assert found.batch_size == 32


@pytest.mark.parametrize(
    "values",
    [
        {"epoch": -1},
        {"epoch": 1e12},
        {"epoch": 2, "epochs": 0, "batch_size": 0},
        {"epoch": 2, "epochs": -5, "batch_size": 1e20},
        {"loss": 0.1},
    ],
    ids=["negative", "absurd", "zeros", "wrong", "none"],
)
def test_values_that_make_no_sense_are_passed_over(node, attempt, values) -> None:
    progress(
        node, attempt, (0, {"epoch": 0, "epochs": 9, "batch_size": 32}), (10, {"epoch": 2}), (20, values)
    )
    assert training(attempt) == Training(
        epochs=9.0, batch_size=32, regimes=(Regime(batch_size=32, epochs=2.0, epoch_seconds=5.0),)
    )


def test_jobs_that_say_nothing_of_epochs_cost_no_row(node, attempt) -> None:
    progress(node, attempt, (0, {"loss": 2.0}), (10, {"loss": 1.0}))
    assert TrainingProgress.objects.count() == 0
