"""Least attained service first, and the quantum that keeps equals from changing places all the time."""

from __future__ import annotations

from scheduler.core.model.plan import ActionKind, Plan
from scheduler.core.model.snapshot import Job, Snapshot
from scheduler.core.round.decide import decide
from tests.builders import make_job, make_running, make_snapshot, make_virtual_cluster
from tests.core.policies.ideal_loop import IdealLoop
from tests.core.policies.tiresias_example import average_jct, play_example

#: A multiple of the quantum of 300 s.
NOW = 1_700_000_100.0


def las(*jobs: Job, holder: Job, since: float, now: float = NOW) -> Snapshot:
    """One node of eight GPUs; the holder runs on all of them."""
    return make_snapshot(
        now=now,
        jobs=[*jobs, holder],
        running=[make_running(holder, range(100, 108), since=since)],
        virtual_clusters=[make_virtual_cluster(policy="las", policy_parameters={"quantum_seconds": 300.0})],
    )


def kinds(plan: Plan) -> dict[int, ActionKind]:
    return {job: action.kind for action in plan.actions for job in action.jobs}


def served(number: int, gpu_seconds: float, gpus: int = 8) -> Job:
    return make_job(number, gpus, attained_service={"V100": gpu_seconds}, attempts=1)


def test_the_worked_example_of_tiresias() -> None:
    """2D-LAS with a quantum of one unit: 5, 14 and 16 units, 11.7 on average, as in the paper."""
    loop = play_example("las", quantum_seconds=1.0)
    assert loop.ended == {1: 5.0, 2: 14.0, 3: 16.0}
    assert average_jct(loop) == 11.7


def test_who_received_least_goes_first() -> None:
    vc = make_virtual_cluster(policy="las")
    jobs = [served(1, 300.0), served(2, 100.0), served(3, 200.0)]
    plan = decide(make_snapshot(jobs=jobs, virtual_clusters=[vc]))
    assert kinds(plan) == {2: ActionKind.START}
    assert plan.queues["research"] == (3, 1)
    assert plan.reasons[1][-1].code == "less_served_first"


def test_gpus_count_as_much_as_time() -> None:
    """Job 1 ran 100 s on eight GPUs, job 2 700 s on one."""
    vc = make_virtual_cluster(policy="las")
    plan = decide(make_snapshot(jobs=[served(1, 800.0), served(2, 700.0, gpus=1)], virtual_clusters=[vc]))
    assert kinds(plan) == {2: ActionKind.START}


def test_a_newcomer_preempts_at_once() -> None:
    plan = decide(las(make_job(1, 8), holder=served(9, 1_000.0), since=NOW - 10))
    assert kinds(plan) == {1: ActionKind.START, 9: ActionKind.STOP}


def test_equals_change_places_at_the_end_of_a_quantum_only() -> None:
    waiting, holder = served(1, 1_000.0), served(9, 1_000.0)
    early = decide(las(waiting, holder=holder, since=NOW, now=NOW + 299))
    assert early.actions == ()
    assert early.wake_at == NOW + 300
    assert kinds(decide(las(waiting, holder=holder, since=NOW, now=NOW + 300))) == {
        1: ActionKind.START,
        9: ActionKind.STOP,
    }


def test_who_started_in_the_middle_of_a_quantum_has_a_whole_one_before_it() -> None:
    waiting, holder = served(1, 1_000.0), served(9, 1_000.0)
    assert decide(las(waiting, holder=holder, since=NOW - 150, now=NOW + 1)).actions == ()


def test_nobody_waits_nobody_is_woken() -> None:
    assert decide(las(holder=served(9, 0.0), since=NOW - 1_000)).wake_at is None


def test_equals_share_the_time() -> None:
    """Three jobs of 100 s each, one at a time, in turns of 10 s: they end one turn apart."""
    vc = make_virtual_cluster(policy="las", policy_parameters={"quantum_seconds": 10.0})
    jobs = [make_job(number, 8, submitted_at=0.0) for number in (1, 2, 3)]
    loop = IdealLoop(
        make_snapshot(now=0.0, jobs=jobs, virtual_clusters=[vc]), dict.fromkeys((1, 2, 3), 100.0)
    )
    loop.run()
    assert loop.ended == {1: 280.0, 2: 290.0, 3: 300.0}
