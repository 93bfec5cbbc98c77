"""Shortest remaining time, or service, first: who is preempted, and when that does not pay."""

from __future__ import annotations

import pytest

from scheduler.core.model.plan import ActionKind, Plan
from scheduler.core.model.snapshot import Job, Snapshot
from scheduler.core.round.decide import decide
from tests.builders import NOW, make_job, make_running, make_snapshot, make_virtual_cluster
from tests.core.policies.ideal_loop import IdealLoop
from tests.core.policies.tiresias_example import average_jct, play_example


def srtf(*jobs: Job, holder: Job, **parameters: object) -> Snapshot:
    """One node of eight GPUs; the holder has run on six of them for ten minutes."""
    return make_snapshot(
        jobs=[*jobs, holder],
        running=[make_running(holder, range(100, 106), since=NOW - 600)],
        virtual_clusters=[make_virtual_cluster(policy="srtf", policy_parameters=parameters)],
    )


def kinds(plan: Plan) -> dict[int, ActionKind]:
    return {job: action.kind for action in plan.actions for job in action.jobs}


def test_the_worked_example_of_tiresias_with_perfect_knowledge() -> None:
    """SRSF: 2, 10 and 16 units, 9.3 on average, as in the paper."""
    loop = play_example("srtf", by_service=True)
    assert loop.ended == {1: 2.0, 2: 10.0, 3: 16.0}
    assert average_jct(loop) == 9.3


def test_by_time_alone_the_same_example_is_another_one() -> None:
    assert play_example("srtf").ended == {1: 2.0, 3: 8.0, 2: 16.0}


def test_a_shorter_job_preempts() -> None:
    plan = decide(
        srtf(make_job(1, 8, estimate_seconds=100.0), holder=make_job(9, 6, estimate_seconds=1_000.0))
    )
    assert kinds(plan) == {1: ActionKind.START, 9: ActionKind.STOP}
    assert [reason.code for reason in plan.reasons[9]][-1] == "less_left_first"


def test_what_is_nearly_done_goes_on() -> None:
    plan = decide(srtf(make_job(1, 8, estimate_seconds=100.0), holder=make_job(9, 6, estimate_seconds=650.0)))
    assert plan.actions == ()
    assert plan.queues["research"] == (1,)


@pytest.mark.parametrize(("hysteresis", "preempted"), [(0.0, True), (0.5, True), (1.0, False)])
def test_preemption_must_gain_more_than_it_costs(hysteresis: float, preempted: bool) -> None:
    """400 s remain to the holder and 100 s to the newcomer; preemption costs 350 s and gains 300."""
    holder = make_job(9, 6, estimate_seconds=1_000.0, preemption_cost_seconds=350.0)
    plan = decide(srtf(make_job(1, 8, estimate_seconds=100.0), holder=holder, hysteresis=hysteresis))
    assert (9 in kinds(plan)) is preempted


def test_a_job_that_fits_beside_the_others_disturbs_nobody() -> None:
    plan = decide(srtf(make_job(1, 2, estimate_seconds=1.0), holder=make_job(9, 6, estimate_seconds=1e6)))
    assert kinds(plan) == {1: ActionKind.START}


def test_a_higher_priority_preempts_something_shorter() -> None:
    plan = decide(
        srtf(make_job(1, 8, estimate_seconds=1e6, priority=1), holder=make_job(9, 6, estimate_seconds=700.0))
    )
    assert kinds(plan) == {1: ActionKind.START, 9: ActionKind.STOP}


def test_only_the_longest_is_preempted() -> None:
    """Job 1 needs four GPUs: those of job 3, which has most left, and not those of job 2."""
    jobs = [
        make_job(1, 4, estimate_seconds=10.0),
        make_job(2, 4, estimate_seconds=2_000.0),
        make_job(3, 4, estimate_seconds=3_000.0),
    ]
    plan = decide(
        make_snapshot(
            jobs=jobs,
            running=[make_running(jobs[1], range(100, 104)), make_running(jobs[2], range(104, 108))],
            virtual_clusters=[make_virtual_cluster(policy="srtf")],
        )
    )
    assert kinds(plan) == {1: ActionKind.START, 3: ActionKind.STOP}


def test_a_small_trace_by_hand() -> None:
    """Jobs of 10, 6 and 3 s arrive at 0, 1 and 2 s: 1 runs 0-1 and 10-19, 2 runs 1-2 and 5-10, 3 runs 2-5."""
    jobs = [
        make_job(number, 8, submitted_at=NOW, estimate_seconds=seconds)
        for number, seconds in ((1, 10.0), (2, 6.0), (3, 3.0))
    ]
    vc = make_virtual_cluster(policy="srtf")
    loop = IdealLoop(
        make_snapshot(jobs=jobs, virtual_clusters=[vc]), {1: 10.0, 2: 6.0, 3: 3.0}, arrivals={2: 1.0, 3: 2.0}
    )
    loop.run()
    assert loop.ended == pytest.approx({3: 5.0, 2: 10.0, 1: 19.0})
