"""What an interruption costs: known to the last progress line, and for certain once the job goes on."""

from datetime import timedelta

import pytest
from django.utils import timezone

from nodeagent.messages import PROTOCOL, PartReport, ProgressLine, Report
from scheduler.agents.services.reports import report_apply
from scheduler.jobs.attempts import representations as attempt_representations
from scheduler.jobs.attempts.services.lifecycle import attempt_stop
from scheduler.models import Attempt, Event, Node
from scheduler.models.attempts import StopCause
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_node

pytestmark = pytest.mark.django_db

NOW = timezone.now()


def ago(seconds: float) -> float:
    return (NOW - timedelta(seconds=seconds)).timestamp()


def report(attempt: Attempt, *lines: tuple[int, float], state: str = "running", **values: float) -> None:
    """Let the attempt's node report progress: (step, seconds ago) a line, and values that all lines have."""
    progress = tuple(
        ProgressLine(sequence=number, at=ago(seconds), step=step, values=values)
        for number, (step, seconds) in enumerate(lines)
    )
    ended = {"exit_code": 0, "category": "stopped"} if state == "exited" else {}
    part = PartReport(attempt=attempt.id, state=state, progress=progress, **ended)
    node = Node.objects.get(parts__attempt=attempt)
    report_apply(node, Report(protocol=PROTOCOL, boot=node.boot, generation=0, parts=(part,)))


def interrupted(*lines: tuple[int, float], cause: StopCause = StopCause.PREEMPTED) -> Attempt:
    """An attempt that ran for 100 seconds, wrote these lines, was told to stop 10 seconds ago, and did."""
    attempt = make_attempt(make_job(), gpus_of(make_node(gpus=1)), running_at=NOW - timedelta(seconds=110))
    if lines:
        report(attempt, *lines)
    attempt.refresh_from_db()
    stopped_at = NOW - timedelta(seconds=10)
    attempt_stop(attempt, cause=cause, actor="round 9", preempted_by=[77], at=stopped_at)
    report(attempt, state="exited")
    attempt.refresh_from_db()
    assert attempt.state == "ended"
    return attempt


def gone_on(attempt: Attempt, *lines: tuple[int, float], **values: float) -> float | None:
    """Return what the attempt lost, now that the next one says where it goes on."""
    job = attempt.job
    job.refresh_from_db()
    report(make_attempt(job, gpus_of(make_node(gpus=1))), *lines, **values)
    attempt.refresh_from_db()
    return attempt.lost_seconds


def test_what_came_after_the_last_line_is_lost_as_far_as_is_known():
    attempt = interrupted((1, 60), (2, 35))
    assert attempt.lost_seconds == pytest.approx(25)
    event = Event.objects.get(subject="attempt", subject_id=attempt.id, kind="attempt.ended")
    assert event.data["lost_seconds"] == attempt.lost_seconds
    assert event.data["preempted_by"] == [77]
    (told,) = attempt_representations.attempts([attempt.id])
    assert told["lost_seconds"] == attempt.lost_seconds


def test_a_job_that_says_nothing_may_have_lost_everything():
    assert interrupted().lost_seconds == pytest.approx(100)


def test_a_node_whose_clock_is_a_day_behind_makes_nobody_lose_more_than_he_did():
    assert interrupted((1, 86_400)).lost_seconds == pytest.approx(100)


@pytest.mark.parametrize(
    ("first_step", "lost"),
    [(31, 5), (21, 25), (15, 45), (1, 100)],
    ids=["saved when told to stop", "saved a while ago", "between two lines", "never saved"],
)
def test_where_the_job_goes_on_says_what_was_lost(first_step: int, lost: float):
    attempt = interrupted((10, 55), (20, 35), (30, 15))
    assert gone_on(attempt, (first_step, 2)) == pytest.approx(lost)


def test_a_job_may_say_itself_from_which_step_it_goes_on():
    attempt = interrupted((10, 55), (20, 35), (30, 15))
    assert gone_on(attempt, (20, 3), restored_step=20.0) == pytest.approx(25)


def test_only_the_first_line_counts():
    attempt = interrupted((10, 55), (20, 35))
    assert gone_on(attempt, (21, 3), (11, 2)) == pytest.approx(25)


def test_an_end_of_ones_own_loses_nothing():
    assert interrupted((1, 60), cause=StopCause.CANCELLED).lost_seconds is None
