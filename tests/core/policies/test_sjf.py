"""Shortest job first: the order, what `aging` and `strict` change, and that whatever runs goes on."""

from __future__ import annotations

import pytest

from scheduler.core.model.plan import ActionKind, Plan
from scheduler.core.model.snapshot import Job, Snapshot
from scheduler.core.round.decide import decide
from tests.builders import NOW, make_job, make_running, make_snapshot, make_virtual_cluster
from tests.core.policies.ideal_loop import IdealLoop


def sjf(*jobs: Job, running: Job | None = None, **parameters: object) -> Snapshot:
    """One node of eight GPUs; `running` holds six of them."""
    return make_snapshot(
        jobs=[*jobs, *([running] if running else [])],
        running=[make_running(running, range(100, 106))] if running else [],
        virtual_clusters=[make_virtual_cluster(policy="sjf", policy_parameters=parameters)],
    )


def started(plan: Plan) -> list[int]:
    return [job for action in plan.actions if action.kind is ActionKind.START for job in action.jobs]


def test_the_shortest_goes_first_and_higher_priority_before_that() -> None:
    jobs = [
        make_job(1, 4, estimate_seconds=300.0),
        make_job(2, 4, estimate_seconds=100.0),
        make_job(3, 4, estimate_seconds=200.0),
        make_job(4, 4, estimate_seconds=900.0, priority=1),
    ]
    plan = decide(sjf(*jobs))
    assert started(plan) == [4, 2]
    assert plan.queues["research"] == (3, 1)
    assert plan.reasons[3][-1].code == "shorter_first"


def test_a_limit_stands_in_for_an_estimate_and_the_default_of_the_view_for_a_limit() -> None:
    jobs = [
        make_job(1, 8),
        make_job(2, 8, time_limit_seconds=80_000.0),
        make_job(3, 8, estimate_seconds=70_000.0, time_limit_seconds=90_000.0),
    ]
    plan = decide(sjf(*jobs))
    assert started(plan) == [3]
    assert plan.queues["research"] == (2, 1)


def test_what_a_job_executed_before_it_was_stopped_counts() -> None:
    half_done = make_job(1, 8, estimate_seconds=1_000.0, attained_service={"V100": 8 * 900.0})
    assert started(decide(sjf(half_done, make_job(2, 8, estimate_seconds=200.0)))) == [1]


def test_nothing_that_runs_is_disturbed() -> None:
    plan = decide(
        sjf(make_job(1, 8, estimate_seconds=1.0), running=make_job(9, 6, estimate_seconds=1_000_000.0))
    )
    assert plan.actions == ()


def test_longer_jobs_that_fit_pass_one_that_does_not_unless_it_is_strict() -> None:
    jobs = [make_job(1, 4, estimate_seconds=1.0), make_job(2, 2, estimate_seconds=1_000.0)]
    holder = make_job(9, 6)
    assert started(decide(sjf(*jobs, running=holder))) == [2]
    assert started(decide(sjf(*jobs, running=holder, strict=True))) == []


@pytest.mark.parametrize(("aging", "first"), [(0.0, 2), (0.5, 2), (2.0, 1)])
def test_with_aging_waiting_counts(aging: float, first: int) -> None:
    """Job 1 is 1,000 s longer and 600 s older."""
    old = make_job(1, 8, estimate_seconds=1_100.0, submitted_at=NOW - 600)
    young = make_job(2, 8, estimate_seconds=100.0, submitted_at=NOW)
    assert started(decide(sjf(old, young, aging=aging))) == [first]


def test_a_small_trace_by_hand() -> None:
    """Jobs of 10, 6 and 3 s arrive at 0, 1 and 2 s: 0-10, 13-19 and 10-13."""
    jobs = [
        make_job(number, 8, submitted_at=NOW, estimate_seconds=seconds)
        for number, seconds in ((1, 10.0), (2, 6.0), (3, 3.0))
    ]
    loop = IdealLoop(sjf(*jobs), {1: 10.0, 2: 6.0, 3: 3.0}, arrivals={2: 1.0, 3: 2.0})
    loop.run()
    assert loop.ended == {1: 10.0, 3: 13.0, 2: 19.0}
