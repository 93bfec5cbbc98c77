"""What preemptions cost, by the attempts that were preempted; and who may not borrow for a while."""

from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from scheduler.jobs.attempts.services.lifecycle import part_exited
from scheduler.jobs.attempts.services.preemption_cost import (
    preemptions_of_job,
    preemptions_of_virtual_cluster,
    settle_preemption_cost,
)
from scheduler.models import Attempt, Job, PreemptionLimits
from scheduler.models.attempts import StopCause
from scheduler.rounds.snapshot import read_snapshot
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_node

pytestmark = pytest.mark.django_db

NOW = timezone.now()


def at(seconds: float) -> datetime:
    return NOW - timedelta(seconds=1_000 - seconds)


def ran(job: Job, number: int, *, starts: float, stops: float | None, lost: float | None = None) -> Attempt:
    """An attempt on two GPUs that needed 3 s to start and, if it was preempted, 2 s to leave."""
    ended = (
        {} if stops is None else {"stopping_at": at(stops), "ended_at": at(stops + 2), "outcome": "preempted"}
    )
    attempt = make_attempt(
        job,
        gpus_of(make_node(gpus=2)),
        state="running" if stops is None else "ended",
        starting_at=at(starts),
        running_at=at(starts + 3),
        lost_seconds=lost,
        **ended,
    )
    Attempt.objects.filter(id=attempt.id).update(number=number)
    return attempt


def test_it_is_leaving_and_starting_and_work_done_again_but_not_waiting() -> None:
    job = make_job(gpus=2)
    ran(job, 1, starts=0, stops=100, lost=7.0)
    settle_preemption_cost(job.id)
    job.refresh_from_db()
    assert job.preemption_cost_seconds is None  # Nobody knows yet how long it takes to start again.
    ran(job, 2, starts=500, stops=600, lost=1.0)
    ran(job, 3, starts=700, stops=None)
    settle_preemption_cost(job.id)
    job.refresh_from_db()
    assert job.preemption_cost_seconds == pytest.approx((2 + 3 + 7 + 2 + 3 + 1) / 2)
    assert preemptions_of_job(job.id) == {"times": 2, "lost_seconds": 8.0, "overhead_seconds": 10.0}
    assert preemptions_of_virtual_cluster(job.virtual_cluster_id, 10) == {
        "hours": 10,
        "preemptions": 2,
        "jobs": 1,
        "preemptions_per_hour": 0.2,
        "lost_gpu_hours": round(2 * 8 / 3_600, 3),
        "overhead_gpu_hours": round(2 * 10 / 3_600, 3),
    }
    # A job of the same virtual cluster that was never preempted is taken to be like it.
    other = make_job(tenant=job.tenant, virtual_cluster=job.virtual_cluster)
    costs = {each.id: each.preemption_cost_seconds for each in read_snapshot(1).jobs}
    assert costs[other.id] == costs[job.id] == pytest.approx(9.0)


@pytest.mark.parametrize(
    ("cause", "least", "runs"),
    [
        (StopCause.PREEMPTED, 300.0, 3),
        (StopCause.PREEMPTED, 100.0, 0),
        # Nobody was too quick for a job that was moved by its operator.
        (StopCause.DRAINED, 300.0, 2),
    ],
)
def test_a_run_that_was_too_short_keeps_a_job_from_borrowing(
    cause: StopCause, least: float, runs: int
) -> None:
    job = make_job(guaranteed=False, columns={"short_runs": 2})
    PreemptionLimits.objects.create(virtual_cluster=job.virtual_cluster, min_run_seconds=least)
    attempt = make_attempt(
        job,
        gpus_of(make_node(gpus=1)),
        state="stopping",
        starting_at=at(0),
        running_at=at(1),
        stopping_at=at(200),
        stop_cause=cause,
    )
    part_exited(attempt.parts.get(), exit_code=143, category="stopped", message="", at=NOW, actor="test")
    job.refresh_from_db()
    assert (job.state, job.short_runs) == ("queued", runs)
    expected = NOW + timedelta(seconds=30 * 2**2) if runs == 3 else None
    assert job.may_borrow_at == expected
