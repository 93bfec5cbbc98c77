"""Elastic gangs grow into idle GPUs, and nobody is disturbed by it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduler.core.building_blocks.growing import SETTLED_SECONDS
from scheduler.core.model.plan import ActionKind, Plan
from scheduler.core.model.snapshot import Job, Snapshot
from scheduler.core.round.decide import decide
from scheduler.core.round.registry import PLACERS
from tests.builders import (
    NOW,
    make_cluster,
    make_job,
    make_running,
    make_snapshot,
    make_virtual_cluster,
)

#: Eight replicas of one GPU if it can, at least two.
ELASTIC = make_job(1, 1, replicas=8, elastic=(2, 8))


def facts(*others: Any, held: int = 2, since: float = NOW - SETTLED_SECONDS, **fields: Any) -> Snapshot:
    running = [make_running(ELASTIC, [[100 + gpu] for gpu in range(held)], since=since)]
    for number, job in enumerate(others):
        if job.attempts:
            first = 104 + 2 * number
            running.append(make_running(job, [first, first + 1], guaranteed=job.guaranteed))
    vc = make_virtual_cluster(guaranteed={"V100": 8})
    fields = {"nodes": make_cluster(1), "virtual_clusters": [vc], **fields}
    return make_snapshot(jobs=[ELASTIC, *others], running=running, **fields)


def sizes(plan: Plan) -> list[tuple[ActionKind, int]]:
    return [(action.kind, len(action.placement.gpus) if action.placement else 0) for action in plan.actions]


def test_it_starts_as_large_as_it_can() -> None:
    other = make_job(2, 4, attempts=1)
    start = make_snapshot(jobs=[ELASTIC, other], running=[make_running(other, [100, 101, 102, 103])])
    assert sizes(decide(start)) == [(ActionKind.START, 4)]


def test_it_grows_when_nobody_waits() -> None:
    assert sizes(decide(facts())) == [(ActionKind.RESIZE, 8)]
    assert sizes(decide(facts(make_job(2, 2, attempts=1)))) == [(ActionKind.RESIZE, 6)]


def test_it_grows_beyond_its_own_number_as_far_as_it_can_use() -> None:
    job = make_job(1, 2, replicas=2, elastic=(2, 6))
    vc = make_virtual_cluster(guaranteed={"V100": 8})
    own = make_running(job, [[100, 101], [102, 103]], since=NOW - SETTLED_SECONDS)
    world = {"jobs": [job], "nodes": make_cluster(1), "virtual_clusters": [vc]}
    assert sizes(decide(make_snapshot(running=[own], **world))) == [(ActionKind.RESIZE, 6)]
    most = make_running(job, [[100, 101], [102, 103], [104, 105]], since=NOW - SETTLED_SECONDS)
    assert sizes(decide(make_snapshot(running=[most], **world))) == []


def test_nobody_gives_way_for_that() -> None:
    opportunistic = make_job(2, 2, guaranteed=False, attempts=1)
    assert sizes(decide(facts(opportunistic))) == [(ActionKind.RESIZE, 6)]


def test_who_waits_comes_first() -> None:
    waiting = make_job(2, 4)
    assert sizes(decide(facts(waiting))) == [(ActionKind.START, 4)]


def test_it_is_left_alone_for_a_while_and_grows_then() -> None:
    young = facts(since=NOW - 10)
    plan = decide(young)
    assert (plan.actions, plan.wake_at) == ((), NOW - 10 + SETTLED_SECONDS)
    assert sizes(decide(replace(young, now=plan.wake_at))) == [(ActionKind.RESIZE, 8)]


def test_one_that_has_all_it_asks_for_stays() -> None:
    assert decide(facts(held=8)).actions == ()


def grown(*waiting: Any, held: int = 8, own: int = 2) -> Snapshot:
    """A gang of `own` GPUs that has grown to `held` of eight, and jobs that wait."""
    job = make_job(1, 1, replicas=own, elastic=(1, 8))
    running = make_running(job, [[100 + gpu] for gpu in range(held)], since=NOW)
    vc = make_virtual_cluster(guaranteed={"V100": 8})
    return make_snapshot(
        jobs=[job, *waiting], running=[running], nodes=make_cluster(1), virtual_clusters=[vc]
    )


def test_it_goes_back_to_its_own_size_when_one_that_waits_then_fits() -> None:
    plan = decide(grown(make_job(2, 4)))
    assert sizes(plan) == [(ActionKind.RESIZE, 2)]
    assert plan.queues["research"] == (2,)


def test_it_keeps_what_would_help_nobody() -> None:
    assert sizes(decide(grown(make_job(2, 7)))) == []
    assert sizes(decide(grown(make_job(2, 2), held=2))) == [(ActionKind.START, 2)]


def test_of_several_only_as_many_go_back_as_it_takes_the_latest_first() -> None:
    early, late = [make_job(number, 1, replicas=1, elastic=(1, 4)) for number in (1, 2)]
    running = [
        make_running(job, [[first + gpu] for gpu in range(4)], since=NOW)
        for job, first in ((early, 100), (late, 104))
    ]
    vc = make_virtual_cluster(guaranteed={"V100": 8})
    snapshot = make_snapshot(
        jobs=[early, late, make_job(3, 3)], running=running, nodes=make_cluster(1), virtual_clusters=[vc]
    )
    (action,) = decide(snapshot).actions
    assert (action.kind, action.jobs) == (ActionKind.RESIZE, (2,))


#: Two GPUs of its own, four at most.
SPARE = make_job(1, 1, replicas=2, elastic=(1, 4), guaranteed=False)
#: It would need more than there is as long as job 3 runs.
HOPELESS, STAYING = make_job(2, 8, guaranteed=False), make_job(3, 2)


def spare(*jobs: Job, held: int = 0, since: float = NOW - SETTLED_SECONDS, **fields: Any) -> Snapshot:
    """Eight GPUs, two of them guaranteed to one who stays; SPARE has so many of the others."""
    running = [make_running(STAYING, [[106, 107]])]
    if held:
        replicas = [[100 + gpu] for gpu in range(held)]
        running.append(make_running(SPARE, replicas, since=since, guaranteed=False))
    vc = make_virtual_cluster(guaranteed={"V100": 2})
    fields = {"nodes": make_cluster(1), "virtual_clusters": [vc], **fields}
    return make_snapshot(jobs=[SPARE, STAYING, *jobs], running=running, **fields)


def test_an_opportunistic_gang_starts_on_all_that_is_idle() -> None:
    assert sizes(decide(spare())) == [(ActionKind.START, 4)]
    # What others start on is theirs.
    assert sizes(decide(spare(make_job(4, 3, guaranteed=False)))) == [
        (ActionKind.START, 3),
        (ActionKind.START, 3),
    ]


@pytest.mark.parametrize("placer", PLACERS)
def test_no_placer_lets_it_wait_for_that(placer: str) -> None:
    others = [make_job(number, 1, guaranteed=False) for number in (4, 5, 6)]
    facts = spare(*others, nodes=make_cluster(5, gpus=2), spare_placer=placer)
    facts = replace(facts, running=(make_running(STAYING, [[100, 101]]),))
    rigid = replace(facts, jobs=(replace(SPARE, elastic=None), *facts.jobs[1:]))
    starts = [{job for action in decide(each).actions for job in action.jobs} for each in (facts, rigid)]
    assert starts[0] == starts[1]


def test_it_grows_within_a_minute_of_its_start() -> None:
    assert sizes(decide(spare(held=2, since=NOW - 60.0))) == [(ActionKind.RESIZE, 4)]


def test_who_could_not_start_anyway_keeps_nobody_from_growing() -> None:
    assert sizes(decide(spare(HOPELESS, held=2))) == [(ActionKind.RESIZE, 4)]
    # One that fits, and has to wait for its turn, does.
    behind = make_job(4, 1, guaranteed=False)
    assert sizes(decide(spare(HOPELESS, behind, held=2, spare_policy_parameters={"backfill": False}))) == []


def test_while_somebody_waits_it_grows_beyond_its_own_size_only() -> None:
    assert sizes(decide(spare(HOPELESS, held=1))) == []
