"""First in, first out, and EASY backfilling with its one promise: the head is never delayed."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scheduler.core.building_blocks.backfill import BackfillReservation
from scheduler.core.model.plan import ActionKind, Plan
from scheduler.core.model.snapshot import Job, JobId, Snapshot
from scheduler.core.policies import fifo
from scheduler.core.round.decide import decide
from scheduler.core.round.rounds import Rounds, first_difference
from tests.builders import (
    NOW,
    make_cluster,
    make_job,
    make_node,
    make_part,
    make_running,
    make_snapshot,
    make_virtual_cluster,
)
from tests.core.virtual_loop import VirtualLoop
from tests.effort import examples

HOUR = 3_600.0


def started(plan: Plan) -> list[int]:
    return [job for action in plan.actions if action.kind is ActionKind.START for job in action.jobs]


def queue_of(*jobs: Job, **fields: object) -> Snapshot:
    """One node of eight GPUs; job 1 holds six of them for one more hour."""
    holder = make_job(1, 6, time_limit_seconds=2 * HOUR)
    running = make_running(holder, range(100, 106), since=NOW - HOUR)
    return make_snapshot(jobs=[holder, *jobs], running=[running], **fields)  # type: ignore[arg-type]


def test_older_jobs_go_first_and_higher_priority_before_that() -> None:
    jobs = [make_job(1, 4), make_job(2, 4, priority=1), make_job(3, 4), make_job(4, 4, priority=1)]
    plan = decide(make_snapshot(jobs=jobs))
    assert started(plan) == [2, 4]
    assert plan.queues["research"] == (1, 3)


def test_a_short_job_passes_the_head() -> None:
    plan = decide(queue_of(make_job(2, 8), make_job(3, 2, time_limit_seconds=HOUR)))
    assert started(plan) == [3]


def test_a_long_job_that_would_delay_the_head_waits_behind_it() -> None:
    plan = decide(queue_of(make_job(2, 8), make_job(3, 2, time_limit_seconds=HOUR + 1)))
    assert started(plan) == []
    assert plan.reasons[3][0].code == "behind_head"
    assert plan.reasons[3][0].blocking == {"jobs": [2]}
    first = next(reason for reason in plan.reasons[2] if reason.code == "first_in_line")
    assert first.blocking == {"starts_by": NOW + HOUR}


def test_a_long_job_may_use_gpus_that_the_head_will_not_need() -> None:
    plan = decide(queue_of(make_job(2, 7), make_job(3, 1), make_job(4, 1)))
    assert started(plan) == [3]


def test_the_head_is_fitted_by_nodes_not_by_counts() -> None:
    """When job 1 ends, twelve GPUs are free and the head needs eight: those of node 1 and no others."""
    holder = make_job(1, 4, time_limit_seconds=HOUR)
    plan = decide(
        make_snapshot(
            nodes=[make_node(1), make_node(2, gpus=2), make_node(3, gpus=2)],
            jobs=[holder, make_job(2, 8), make_job(3, 4), make_job(4, 2)],
            running=[make_running(holder, range(100, 104), since=NOW)],
            virtual_clusters=[make_virtual_cluster(guaranteed={"V100": 12})],
        )
    )
    assert started(plan) == [4]
    assert plan.reasons[3][0].code == "behind_head"


def test_without_backfill_nothing_passes_the_head() -> None:
    vc = make_virtual_cluster(policy_parameters={"backfill": False})
    plan = decide(queue_of(make_job(2, 8), make_job(3, 1, time_limit_seconds=60.0), virtual_clusters=[vc]))
    assert started(plan) == []


def test_only_so_many_jobs_are_tried_behind_the_head() -> None:
    vc = make_virtual_cluster(policy_parameters={"backfill_depth": 2})
    jobs = [make_job(2, 8), make_job(3, 3), make_job(4, 4), make_job(5, 1, time_limit_seconds=60.0)]
    plan = decide(queue_of(*jobs, virtual_clusters=[vc]))
    assert started(plan) == []
    assert plan.reasons[5][0].code == "not_chosen"


def test_a_job_without_a_limit_counts_with_the_default_of_its_virtual_cluster() -> None:
    short = make_virtual_cluster(default_time_limit_seconds=HOUR)
    assert started(decide(queue_of(make_job(2, 8), make_job(3, 2), virtual_clusters=[short]))) == [3]
    assert started(decide(queue_of(make_job(2, 8), make_job(3, 2)))) == []


def test_an_elastic_gang_starts_at_the_largest_size_that_fits() -> None:
    plan = decide(queue_of(make_job(2, 1, replicas=4, elastic=(1, 8))))
    [action] = [action for action in plan.actions if action.kind is ActionKind.START]
    assert action.placement is not None
    assert len(action.placement.gpus) == 2


limits = st.sampled_from((5.0, 10.0, 20.0, 40.0, 80.0))
shapes = st.tuples(st.sampled_from((1, 1, 2, 3, 4)), st.sampled_from((1, 1, 2)), limits)


@settings(max_examples=examples(60), derandomize=True)
@given(st.lists(shapes, min_size=4, max_size=14), st.integers(1, 3))
def test_backfilling_never_delays_the_head(queue: list[tuple[int, int, float]], nodes: int) -> None:
    """When every job runs exactly to its limit, the head starts when it would have without backfilling."""
    jobs = [
        make_job(number, gpus, replicas=replicas, time_limit_seconds=limit)
        for number, (gpus, replicas, limit) in enumerate(queue, start=1)
    ]
    snapshot = make_snapshot(
        nodes=make_cluster(nodes, gpus=4),
        jobs=jobs,
        virtual_clusters=[make_virtual_cluster(guaranteed={"V100": 4 * nodes})],
    )
    plan = decide(snapshot)
    heads = [job for job in plan.queues["research"] if plan.reasons[job][-1].code == "first_in_line"]
    if not heads:
        return
    starts = [start_of(snapshot, heads[0], backfill) for backfill in (False, True)]
    assert starts[0] == starts[1]


def start_of(snapshot: Snapshot, job: int, backfill: bool) -> float:
    """Return when the job starts, every job running exactly to its limit."""
    [vc] = snapshot.virtual_clusters
    vc = replace(vc, policy_parameters={"backfill": backfill})
    seconds = {job.id: job.time_limit_seconds or 0.0 for job in snapshot.jobs}
    loop = VirtualLoop(replace(snapshot, virtual_clusters=(vc,)), seconds)
    while job not in loop.started:
        loop.step()
    return loop.started[job]


def test_what_else_comes_free_when_the_head_starts_is_there_for_others() -> None:
    """Two GPUs and one come free together, the head takes three of four: the fourth is free now and then."""
    first, second = make_job(1, 2, time_limit_seconds=100.0), make_job(2, 1, time_limit_seconds=100.0)
    plan = decide(
        make_snapshot(
            nodes=[make_node(1, gpus=4)],
            jobs=[first, second, make_job(3, 3), make_job(4, 1, time_limit_seconds=1_000.0)],
            running=[
                make_running(first, [100, 101], since=NOW - 20),
                make_running(second, [102], since=NOW - 20),
            ],
        )
    )
    assert started(plan) == [4]


def test_what_delayed_the_head_where_it_would_have_been_put_may_start_elsewhere_later_on() -> None:
    """Job 3 would fill node 1, which the head needs, until job 4 is there; then it is put on node 2."""
    first, second = make_job(1, 4, time_limit_seconds=HOUR), make_job(2, 2, time_limit_seconds=9 * HOUR)
    plan = decide(
        make_snapshot(
            nodes=make_cluster(2),
            jobs=[
                *(first, second, make_job(10, 8)),
                *(make_job(11, 4), make_job(12, 3, time_limit_seconds=HOUR / 2)),
            ],
            running=[
                make_running(first, range(100, 104), since=NOW),
                make_running(second, range(200, 202), since=NOW),
            ],
            virtual_clusters=[make_virtual_cluster(guaranteed={"V100": 16})],
        )
    )
    assert sorted(started(plan)) == [11, 12]


gangs = st.tuples(st.sampled_from((2, 3, 4, 6, 8)), st.sampled_from((50.0, 60.0, 70.0, 500.0)))


@settings(max_examples=examples(300), derandomize=True)
@given(st.lists(gangs, min_size=3, max_size=8), st.lists(gangs, min_size=4, max_size=8), st.floats(1.0, 49.0))
@example([(8, 500.0), (3, 70.0), (2, 90.0)], [(6, 500.0), (2, 500.0)], 40.0)
@example([(5, 70.0), (4, 500.0)], [(8, 500.0), (3, 500.0), (2, 60.0)], 1.0)
def test_a_round_in_which_only_time_has_passed_starts_nobody(
    running: list[tuple[int, float]], waiting: list[tuple[int, float]], later: float
) -> None:
    """Nobody has ended, so that rounds which other virtual clusters cause change nothing (decision 0082)."""
    jobs = [
        make_job(number, gpus, time_limit_seconds=limit) for number, (gpus, limit) in enumerate(running, 1)
    ]
    facts = make_snapshot(
        nodes=make_cluster(2),
        jobs=jobs,
        round_seconds=60.0,
        virtual_clusters=[make_virtual_cluster(guaranteed={"V100": 16})],
    )
    facts = after(facts, decide(facts))
    held = {job for on in facts.running for job in on.jobs}
    queue = [
        make_job(number, gpus, time_limit_seconds=limit) for number, (gpus, limit) in enumerate(waiting, 11)
    ]
    facts = replace(facts, jobs=(*[job for job in facts.jobs if job.id in held], *queue))
    facts = after(facts, decide(facts))
    assert started(decide(replace(facts, now=facts.now + later))) == []


def test_all_that_have_outlived_their_limits_count_as_free_for_the_head() -> None:
    """The head needs two GPUs of one of them; what the others hold is not in its way."""
    late = [make_job(number, 2) for number in (1, 2, 3)]
    vc = make_virtual_cluster(guaranteed={"V100": 8}, default_time_limit_seconds=60.0)
    plan = decide(
        make_snapshot(
            virtual_clusters=[vc],
            jobs=[*late, make_job(10, 4), make_job(11, 2, time_limit_seconds=HOUR)],
            running=[
                make_running(job, [100 + 2 * place, 101 + 2 * place], since=NOW - 90)
                for place, job in enumerate(late)
            ],
        )
    )
    assert started(plan) == [11]


def test_it_asks_for_a_round_when_the_next_job_outlives_its_limit_and_somebody_waits() -> None:
    """So every cluster has a round then, whoever else causes rounds there (decision 0082)."""
    soon, late = make_job(1, 4, time_limit_seconds=90.0), make_job(2, 2, time_limit_seconds=20.0)
    running = [
        make_running(soon, range(100, 104), since=NOW - 30),
        make_running(late, [104, 105], since=NOW - 30),
    ]
    head = make_job(3, 6)
    assert decide(make_snapshot(jobs=[soon, late, head], running=running)).wake_at == NOW + 60
    assert decide(make_snapshot(jobs=[soon, late], running=running)).wake_at is None


def after(facts: Snapshot, plan: Plan) -> Snapshot:
    """Return the facts in which those that start run."""
    jobs = {job.id: job for job in facts.jobs}
    starts = [
        make_running(jobs[action.jobs[0]], action.placement.gpus, since=facts.now)
        for action in plan.actions
        if action.placement is not None
    ]
    return replace(facts, running=(*facts.running, *starts))


#: GPUs and seconds that are left: of those that run, then of those that wait.
seconds_left = st.sampled_from((10.0, 20.0, 30.0, 40.0))
rectangles = st.tuples(st.integers(1, 6), seconds_left)


@settings(max_examples=examples(2_000), derandomize=True)
@given(st.integers(3, 12), st.lists(rectangles, max_size=6), st.lists(rectangles, min_size=1, max_size=10))
def test_it_starts_what_the_textbook_starts(
    gpus: int, running: list[tuple[int, float]], waiting: list[tuple[int, float]]
) -> None:
    held, snapshot_jobs, allocations = 0, [], []
    there: list[tuple[int, float]] = []
    for number, (need, left) in enumerate(running, start=1):
        if held + need > gpus:
            continue
        job = make_job(number, need, time_limit_seconds=left + 5.0)
        snapshot_jobs.append(job)
        allocations.append(make_running(job, range(100 + held, 100 + held + need), since=NOW - 5.0))
        there.append((need, left))
        held += need
    queue = {number: each for number, each in enumerate(waiting, start=11) if each[0] <= gpus}
    snapshot_jobs += [make_job(job, need, time_limit_seconds=limit) for job, (need, limit) in queue.items()]
    snapshot = make_snapshot(
        nodes=[make_node(1, gpus=gpus)],
        jobs=snapshot_jobs,
        running=allocations,
        virtual_clusters=[make_virtual_cluster(guaranteed={"V100": gpus})],
        round_seconds=0.0,
    )
    assert started(decide(snapshot)) == easy(gpus, there, queue)


@settings(max_examples=examples(20), derandomize=True)
@given(st.integers(0, 2**16))
def test_later_jobs_alone_are_tried_where_the_last_round_could_start_none(seed: int) -> None:
    """Jobs of all sizes join two queues, and some change or go: engines kept and new agree."""
    dice, number = Random(seed), count(2)
    facts, kept = queue_of(make_job(2, 8)), Rounds(compared_every=1_000)
    reservations, stalled, joined = [0], 0, False

    def joins() -> Job:
        job = JobId(100 * next(number))
        fields: dict[str, Any] = {
            "time_limit_seconds": dice.choice((None, 600.0, HOUR, 5 * HOUR)),
            "guaranteed": dice.random() < 0.4,
        }
        if dice.random() < 0.4:
            return make_part(job, dice.choice((0.3, 0.6)), submitted_at=facts.now, **fields)
        return make_job(job, dice.choice((1, 2, 3, 8)), submitted_at=facts.now, **fields)

    class Counted(BackfillReservation):
        def __init__(self, *arguments: Any, **keywords: Any) -> None:
            reservations[0] += 1
            super().__init__(*arguments, **keywords)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fifo, "BackfillReservation", Counted)
        patch.setattr(fifo, "LONG_QUEUE", 0)
        loop = VirtualLoop(facts, {1: 60.0, 2: 40.0}, by=lambda each: decided(each))

        def decided(snapshot: Snapshot) -> Plan:
            nonlocal stalled
            before = reservations[0]
            plan = kept.decide(snapshot)
            stalled += joined and reservations[0] == before
            assert first_difference(plan, decide(snapshot)) == kept.difference == ""
            return plan

        for _ in range(25):
            loop.step()
            facts = loop.snapshot
            has = {job for running in facts.running for job in running.jobs}
            others, some = list(facts.jobs), [joins() for _ in range(dice.choice((0, 1, 1, 2)))]
            waiting = [place for place, job in enumerate(others) if job.id not in has]
            if waiting and dice.random() < 0.2:
                place = dice.choice(waiting)
                news = dice.choice(({"priority": 1}, {"time_limit_seconds": 60.0}, {"cancelling": True}))
                others[place] = replace(others[place], **news)
            loop.remaining.update({job.id: dice.choice((30.0, 400.0)) for job in some})
            loop.snapshot, joined = replace(facts, jobs=(*others, *some)), bool(some)
    assert stalled > 0


def test_a_round_that_goes_on_tries_no_more_kinds_than_one_that_begins_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fifo, "LONG_QUEUE", 0)
    clusters = [make_virtual_cluster(policy_parameters={"backfill_depth": 1})]
    facts, kept = queue_of(make_job(2, 8), make_job(3, 3), virtual_clusters=clusters), Rounds(1_000)
    assert started(kept.decide(facts)) == []
    short = make_job(4, 1, time_limit_seconds=600.0)
    facts = replace(facts, jobs=(*facts.jobs, short))
    assert started(kept.decide(facts)) == started(decide(facts)) == []


def easy(gpus: int, running: list[tuple[int, float]], queue: dict[int, tuple[int, float]]) -> list[int]:
    """EASY as it is in Mu'alem and Feitelson, by counts: what starts now, in order of arrival."""
    free = gpus - sum(need for need, _ in running)
    ends = [(left, need) for need, left in running]
    line, starts = list(queue.items()), []
    while line and line[0][1][0] <= free:
        job, (need, limit) = line.pop(0)
        free -= need
        ends.append((limit, need))
        starts.append(job)
    if not line:
        return starts
    head = line.pop(0)[1][0]
    then, shadow_time = free, 0.0
    for end in sorted({end for end, _ in ends}):
        then += sum(need for left, need in ends if left == end)
        if then >= head:
            shadow_time = end
            break
    extra = then - head
    for job, (need, limit) in line:
        if need > free or (limit > shadow_time and need > extra):
            continue
        free -= need
        extra -= need if limit > shadow_time else 0
        starts.append(job)
    return starts
