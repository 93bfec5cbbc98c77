"""Priority: who takes whose GPUs, and who never does."""

from __future__ import annotations

from scheduler.core.model.plan import ActionKind, Plan
from scheduler.core.model.snapshot import Job, Snapshot
from scheduler.core.round.decide import decide
from tests.builders import NOW, make_job, make_running, make_snapshot, make_virtual_cluster
from tests.core.policies.ideal_loop import IdealLoop


def priority(*jobs: Job, running: tuple[Job, ...] = (), **parameters: object) -> Snapshot:
    """One node of eight GPUs; each job that runs has its GPUs in turn, since ten minutes."""
    held, first = [], 100
    for job in running:
        held.append(make_running(job, range(first, first + job.gpus), since=NOW - 600))
        first += job.gpus
    return make_snapshot(
        jobs=[*jobs, *running],
        running=held,
        virtual_clusters=[make_virtual_cluster(policy="priority", policy_parameters=parameters)],
    )


def kinds(plan: Plan) -> dict[int, ActionKind]:
    return {job: action.kind for action in plan.actions for job in action.jobs}


def test_a_higher_priority_takes_the_gpus_of_the_lowest() -> None:
    low, high = make_job(8, 4, priority=1), make_job(9, 4, priority=2)
    plan = decide(priority(make_job(1, 4, priority=3), running=(high, low)))
    assert kinds(plan) == {1: ActionKind.START, 8: ActionKind.STOP}
    assert plan.reasons[8][-1].code == "higher_priority_first"


def test_equals_never_preempt_one_another() -> None:
    """Not even one that was submitted earlier, and had to wait for room."""
    plan = decide(priority(make_job(1, 8, submitted_at=NOW - 9_000), running=(make_job(9, 2),)))
    assert plan.actions == ()


def test_equals_start_in_the_order_of_submission() -> None:
    plan = decide(
        priority(make_job(1, 5, submitted_at=NOW - 10), make_job(2, 5, submitted_at=NOW - 20)),
    )
    assert kinds(plan) == {2: ActionKind.START}


def test_who_was_preempted_keeps_its_place() -> None:
    """Job 1 is preempted by job 3 at 10, and goes on before job 2, which came after it."""
    jobs = [make_job(1, 8, submitted_at=NOW), make_job(2, 8, submitted_at=NOW + 5)]
    urgent = make_job(3, 8, priority=1, submitted_at=NOW + 10)
    loop = IdealLoop(
        make_snapshot(
            jobs=[*jobs, urgent], virtual_clusters=[make_virtual_cluster(policy="priority")], now=NOW
        ),
        {1: 20.0, 2: 20.0, 3: 20.0},
        arrivals={2: 5.0, 3: 10.0},
    )
    loop.run()
    assert [(job, end - start) for job, start, end in loop.stays] == [
        (1, 10.0),
        (3, 20.0),
        (1, 10.0),
        (2, 20.0),
    ]


def test_a_gang_that_does_not_fit_is_passed_unless_it_is_strict() -> None:
    jobs = [make_job(1, 8, submitted_at=NOW - 20), make_job(2, 2, submitted_at=NOW - 10)]
    holder = make_job(9, 4)
    assert kinds(decide(priority(*jobs, running=(holder,)))) == {2: ActionKind.START}
    strict = decide(priority(*jobs, running=(holder,), strict=True))
    assert strict.actions == ()
    assert strict.queues["research"] == (1, 2)


def test_strict_still_lets_a_higher_priority_preempt() -> None:
    jobs = [make_job(1, 8, priority=1, submitted_at=NOW - 20), make_job(2, 2, submitted_at=NOW - 10)]
    plan = decide(priority(*jobs, running=(make_job(9, 4),), strict=True))
    assert kinds(plan) == {1: ActionKind.START, 9: ActionKind.STOP}
