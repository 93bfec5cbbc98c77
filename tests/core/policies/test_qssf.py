"""Quasi-shortest service first: run time times GPUs decides, and what `strict` changes."""

from __future__ import annotations

from scheduler.core.model.plan import ActionKind, Plan
from scheduler.core.model.snapshot import Job, Snapshot
from scheduler.core.round.decide import decide
from tests.builders import NOW, make_job, make_running, make_snapshot, make_virtual_cluster
from tests.core.policies.ideal_loop import IdealLoop


def qssf(*jobs: Job, running: Job | None = None, **parameters: object) -> Snapshot:
    """One node of eight GPUs; `running` holds six of them."""
    return make_snapshot(
        jobs=[*jobs, *([running] if running else [])],
        running=[make_running(running, range(100, 106))] if running else [],
        virtual_clusters=[make_virtual_cluster(policy="qssf", policy_parameters=parameters)],
    )


def started(plan: Plan) -> list[int]:
    return [job for action in plan.actions if action.kind is ActionKind.START for job in action.jobs]


def test_a_long_job_on_one_gpu_goes_before_a_short_one_on_eight() -> None:
    jobs = [make_job(1, 8, estimate_seconds=100.0), make_job(2, 1, estimate_seconds=700.0)]
    plan = decide(qssf(*jobs))
    assert started(plan) == [2]
    assert plan.reasons[1][-1].code == "less_service_first"


def test_of_as_much_gpu_time_fewer_gpus_go_first_and_priority_before_all() -> None:
    jobs = [
        make_job(1, 8, estimate_seconds=100.0, submitted_at=NOW - 9),
        make_job(2, 4, estimate_seconds=200.0),
        make_job(3, 8, estimate_seconds=900.0, priority=1),
    ]
    plan = decide(qssf(*jobs))
    assert started(plan) == [3]
    assert plan.queues["research"] == (2, 1)


def test_others_pass_the_first_that_does_not_fit_unless_it_is_strict() -> None:
    jobs = [make_job(1, 4, estimate_seconds=1.0), make_job(2, 2, estimate_seconds=1_000.0)]
    holder = make_job(9, 6)
    assert started(decide(qssf(*jobs, running=holder))) == [2]
    assert started(decide(qssf(*jobs, running=holder, strict=True))) == []


def test_four_jobs_by_hand() -> None:
    """Of 8 GPUs x 10 s, 8 x 4 s, 2 x 20 s and 4 x 6 s: 24, 32, 40 and 80 GPU-seconds.

    The first leaves room for the third from 0 to 20 s, as the second does not fit; so the second starts at
    20 s and the last at 24 s. Strictly, the second follows at 6 s, the third at 10 s, the last at 30 s.
    """
    gangs = {1: (8, 10.0), 2: (8, 4.0), 3: (2, 20.0), 4: (4, 6.0)}
    jobs = [
        make_job(number, gpus, submitted_at=NOW, estimate_seconds=seconds)
        for number, (gpus, seconds) in gangs.items()
    ]
    seconds = {number: length for number, (_, length) in gangs.items()}
    passing, strict = IdealLoop(qssf(*jobs), seconds), IdealLoop(qssf(*jobs, strict=True), seconds)
    passing.run()
    strict.run()
    assert passing.ended == {4: 6.0, 3: 20.0, 2: 24.0, 1: 34.0}
    assert strict.ended == {4: 6.0, 2: 10.0, 3: 30.0, 1: 40.0}
