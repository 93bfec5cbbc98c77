"""Aryl: bases first and the shortest ahead, and extra workers where they shorten jobs most."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.core.model.plan import ActionKind, Plan
from scheduler.core.model.snapshot import Job, Running, Snapshot
from scheduler.core.round.decide import decide
from tests.builders import NOW, make_job, make_running, make_snapshot, make_virtual_cluster


def elastic(number: int, seconds: float, *, least: int = 2, most: int = 8, **fields: object) -> Job:
    """An elastic job of `least` replicas of a GPU each, which would take it so many seconds."""
    return make_job(number, 1, replicas=least, elastic=(least, most), estimate_seconds=seconds, **fields)


def aryl(*jobs: Job, running: tuple[Running, ...] = (), epoch_ends: float = NOW) -> Snapshot:
    """One node of eight GPUs."""
    return make_snapshot(
        jobs=jobs,
        running=running,
        virtual_clusters=[make_virtual_cluster(policy="aryl")],
        memory={"research": {"epoch_ends": epoch_ends}},
    )


def sizes(plan: Plan) -> dict[int, int]:
    """GPUs of whoever starts or is resized."""
    placed = [action for action in plan.actions if action.placement is not None]
    return {action.jobs[0]: len(action.placement.gpus) for action in placed}


def test_extra_workers_go_where_they_shorten_jobs_most() -> None:
    """Four GPUs are left over. The long job with all of them ends 900 - 300 s sooner; a GPU less for it costs
    60 s, and a first one for the short job would gain it 20."""
    plan = decide(aryl(elastic(1, 900.0), elastic(2, 60.0)))
    assert sizes(plan) == {1: 6, 2: 2}


def test_an_even_split_where_jobs_are_alike() -> None:
    plan = decide(aryl(elastic(1, 900.0), elastic(2, 900.0)))
    assert sizes(plan) == {1: 4, 2: 4}


def test_bases_of_all_come_before_extra_workers_of_anyone() -> None:
    jobs = [elastic(number, 100.0 * number) for number in (1, 2, 3, 4)]
    assert sizes(decide(aryl(*jobs))) == {1: 2, 2: 2, 3: 2, 4: 2}


def test_the_shortest_bases_go_first_and_the_rest_waits() -> None:
    plan = decide(
        aryl(elastic(1, 900.0, least=6), elastic(2, 100.0, least=4), make_job(3, 3, estimate_seconds=200.0))
    )
    assert set(sizes(plan)) == {2, 3}
    assert plan.queues["research"] == (1,)
    assert plan.reasons[1][-1].code == "less_left_first"


@pytest.mark.parametrize("epoch_ends", [NOW, NOW + 100.0])
def test_a_base_takes_extra_workers_back_at_once_and_nobody_stops(epoch_ends: float) -> None:
    grown = elastic(1, 9_000.0)
    held = make_running(grown, [[100 + index] for index in range(8)])
    plan = decide(aryl(grown, make_job(2, 4, estimate_seconds=60.0), running=(held,), epoch_ends=epoch_ends))
    assert sizes(plan) == {1: 4, 2: 4}
    assert {action.kind for action in plan.actions} == {ActionKind.RESIZE, ActionKind.START}


def test_a_base_is_not_taken_by_a_shorter_job() -> None:
    small = elastic(1, 9_000.0, least=6)
    held = make_running(small, [[100 + index] for index in range(6)])
    plan = decide(aryl(small, make_job(2, 4, estimate_seconds=1.0), running=(held,)))
    assert [action for action in plan.actions if action.kind is not ActionKind.RESIZE] == []
    assert plan.queues["research"] == (2,)


def test_whoever_runs_grows_when_the_epoch_ends_and_not_before() -> None:
    small = elastic(1, 9_000.0)
    held = make_running(small, [[100], [101]])
    early = aryl(small, running=(held,), epoch_ends=NOW + 100.0)
    plan = decide(early)
    assert plan.actions == ()
    assert plan.wake_at == NOW + 100.0
    later = decide(replace(early, now=NOW + 100.0, memory=plan.memory))
    assert sizes(later) == {1: 8}
    assert later.memory["research"]["epoch_ends"] == NOW + 400.0


def test_extra_workers_leave_opportunistic_jobs_alone_and_bases_do_not() -> None:
    guest = make_job(9, 4, guaranteed=False, virtual_cluster="other")
    held = make_running(guest, range(100, 104), guaranteed=False)
    snapshot = replace(
        aryl(elastic(1, 900.0, least=6), running=(held,)),
        virtual_clusters=(make_virtual_cluster(policy="aryl"), make_virtual_cluster("other", {})),
    )
    snapshot = replace(snapshot, jobs=(*snapshot.jobs, guest))
    plan = decide(snapshot)
    assert sizes(plan) == {1: 6}
    small = replace(snapshot, jobs=(elastic(1, 900.0), guest))
    assert sizes(decide(small)) == {1: 4}


def test_a_gang_of_fixed_world_has_only_sizes_that_divide_it() -> None:
    fixed = make_job(1, 1, replicas=6, elastic=(1, 6), elastic_mode="fixed_world", estimate_seconds=900.0)
    other = make_job(2, 3, estimate_seconds=100.0)
    assert sizes(decide(aryl(fixed, other))) == {1: 3, 2: 3}


def test_remaining_time_is_that_of_the_model_in_question() -> None:
    """A job that is four times as slow here as elsewhere goes behind one of three times its estimate."""
    slow = make_job(1, 8, estimate_seconds=100.0, throughput={"V100": 1.0, "A100": 4.0})
    fast = make_job(2, 8, estimate_seconds=300.0)
    plan = decide(aryl(slow, fast))
    assert [action.jobs for action in plan.actions] == [(2,)]
