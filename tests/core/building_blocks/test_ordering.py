"""Serving in an order: what must hold whatever the order is, and what all policies make of odd clusters."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.building_blocks.ordering import MANY, serve_in_order
from scheduler.core.building_blocks.policy import View
from scheduler.core.model.plan import ActionKind, Decision
from scheduler.core.model.snapshot import Job, JobId, Memory, Running, Snapshot
from scheduler.core.round.decide import decide
from scheduler.core.round.engine import RoundEngine
from scheduler.core.round.registry import POLICIES
from tests.builders import NOW, make_cluster, make_job, make_running, make_snapshot, make_virtual_cluster
from tests.core.worlds import snapshots
from tests.effort import examples, first_every_day


def rank(job: Job) -> tuple[int, JobId]:
    return -job.priority, job.id


def view_of(snapshot: Snapshot) -> View:
    return next(outcome.view for outcome in RoundEngine(snapshot).outcomes() if outcome.view.guaranteed)


def world(nodes: int, jobs: list[Job], running: list[Running]) -> Snapshot:
    vc = make_virtual_cluster(guaranteed={"V100": 8 * nodes})
    return make_snapshot(nodes=make_cluster(nodes), jobs=jobs, running=running, virtual_clusters=[vc])


@settings(max_examples=examples(100), derandomize=True)
@given(st.integers(0, 10_000), st.sampled_from((1, 2, 6)))
def test_where_nothing_fragments_the_first_who_fit_are_served(seed: int, nodes: int) -> None:
    """Gangs of single GPUs fit wherever as many are free: the outcome is that of counting."""
    dice = random.Random(seed)
    jobs = [
        make_job(number, 1, replicas=dice.choice((1, 1, 2, 3, 8)), priority=dice.choice((0, 1, 2)))
        for number in range(1, 10 * nodes)
    ]
    free = [100 * node + gpu for node in range(1, nodes + 1) for gpu in range(8)]
    running = []
    for job in dice.sample(jobs, len(jobs)):
        if job.gpus <= len(free):
            running.append(make_running(job, [[free.pop()] for _ in range(job.gpus)]))
    view = view_of(world(nodes, jobs, running))
    outcome = serve_in_order(view, rank)
    left, expected = 8 * nodes, set()
    for job in sorted(jobs, key=rank):
        if job.gpus <= left:
            left -= job.gpus
            expected.add(job.id)
    queue = sorted((job for job in jobs if job.id not in expected), key=rank)
    assert outcome.queue == tuple(job.id for job in queue)


def test_who_is_displaced_moves_to_what_is_idle_and_displaces_nobody() -> None:
    """Job 1 needs a whole node; one of the others has to leave it and finds room beside the third."""
    jobs = [make_job(1, 8, estimate_seconds=1.0), make_job(2, 2), make_job(3, 2)]
    running = [make_running(jobs[1], [100, 101]), make_running(jobs[2], [200, 201])]
    vc = make_virtual_cluster(guaranteed={"V100": 16}, policy="srtf")
    plan = decide(make_snapshot(nodes=make_cluster(2), jobs=jobs, running=running, virtual_clusters=[vc]))
    [start, move] = sorted(plan.actions, key=lambda action: action.jobs)
    assert (start.kind, start.jobs) == (ActionKind.START, (1,))
    assert (move.kind, move.preempted_by) == (ActionKind.MOVE, (1,))


def test_nothing_is_named_when_nobody_has_to_stop() -> None:
    jobs = [make_job(1, 6), make_job(2, 2), make_job(3, 8)]
    view = view_of(world(1, jobs, [make_running(jobs[0], range(100, 106))]))
    outcome = serve_in_order(view, rank)
    assert [grant.jobs for grant in outcome.grants] == [(2,)]
    assert (outcome.queue, outcome.stops) == ((3,), ())


def test_when_nearly_everyone_must_go_the_first_are_served_all_the_same() -> None:
    """More losers than are looked at one by one: 40 single GPUs give way to five gangs of eight."""
    old = [make_job(number, priority=0) for number in range(1, 41)]
    new = [make_job(number, 8, priority=1) for number in range(101, 105)]
    free = [100 * node + gpu for node in range(1, 6) for gpu in range(8)]
    running = [make_running(job, [gpu]) for job, gpu in zip(old, free, strict=True)]
    assert len(old) - 8 > MANY
    outcome = serve_in_order(view_of(world(5, [*old, *new], running)), rank)
    granted = [job for grant in outcome.grants for job in grant.jobs]
    assert granted == [101, 102, 103, 104]
    assert set(outcome.stops) == set(range(9, 41))


@settings(max_examples=examples(60), derandomize=True)
@given(snapshots(), st.sampled_from(sorted(POLICIES)))
def test_no_policy_fails_on_any_cluster(snapshot: Snapshot, policy: str) -> None:
    """decide() raises when a plan breaks an invariant, and notes it when a view was degraded."""
    clusters = tuple(replace(vc, policy=policy) for vc in snapshot.virtual_clusters)
    dice = random.Random(len(snapshot.jobs))
    jobs = tuple(
        replace(job, estimate_seconds=dice.choice((None, 10.0, 1e5)), skew=dice.choice((None, 0.1, 0.9)))
        for job in snapshot.jobs
    )
    varied = replace(snapshot, virtual_clusters=clusters, spare_policy=policy, jobs=jobs)
    plan = decide(varied)
    assert not plan.degraded
    again = decide(replace(varied, memory=plan.memory, now=NOW + 4_000))
    assert not again.degraded


@pytest.mark.parametrize("policy", first_every_day(sorted(POLICIES), 12))
def test_the_memory_of_another_policy_does_no_harm(policy: str) -> None:
    """A virtual cluster whose policy is changed hands its memory to the new one."""
    jobs = [make_job(number, 4, elastic=(4, 8)) for number in range(1, 5)]
    running = [make_running(jobs[0], range(100, 104))]
    for other in POLICIES:
        vc = make_virtual_cluster(policy=other)
        first = make_snapshot(jobs=jobs, running=running, virtual_clusters=[vc])
        memory = decide(first).memory
        second = replace(first, virtual_clusters=(replace(vc, policy=policy),), memory=memory)
        assert not decide(second).degraded


def test_a_group_that_shares_gpus_is_kept_or_stopped_whole() -> None:
    """Jobs 1 and 2 share; another policy than the one that packed them takes over, and job 3 is ahead."""
    jobs = [
        make_job(1, 4, estimate_seconds=900.0),
        make_job(2, 4, estimate_seconds=9_000.0),
        make_job(3, 8, estimate_seconds=1.0),
    ]
    group = replace(make_running(jobs[0], range(100, 104)), jobs=(JobId(1), JobId(2)))
    vc = make_virtual_cluster(policy="srtf")
    calm = make_snapshot(jobs=jobs[:2], running=[group], virtual_clusters=[vc])
    assert decide(calm).actions == ()
    crowded = decide(replace(calm, jobs=tuple(jobs)))
    assert [(action.kind, action.jobs) for action in crowded.actions] == [
        (ActionKind.START, (3,)),
        (ActionKind.STOP, (1, 2)),
    ]


def test_an_empty_decision_is_what_an_idle_view_gets() -> None:
    memory: Memory = {}
    snapshot = make_snapshot()
    for policy in POLICIES.values():
        decision = policy().allocate(view_of(snapshot), memory)
        assert isinstance(decision, Decision)
        assert decision.grants == ()
        assert decision.wake_at is None
