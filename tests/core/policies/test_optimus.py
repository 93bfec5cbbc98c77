"""Optimus: the fewest for everyone, then one at a time where it saves the most time."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from scheduler.core.building_blocks.elastic.pools import pools_of
from scheduler.core.building_blocks.elastic.speedups import relative_goodput
from scheduler.core.building_blocks.policy import View
from scheduler.core.model.snapshot import Job, Snapshot
from scheduler.core.model.training import Goodput
from scheduler.core.policies.optimus import _work_done, most_gain, seconds_left
from scheduler.core.round.decide import decide
from scheduler.core.round.engine import RoundEngine
from tests.builders import NOW, make_cluster, make_job, make_running, make_snapshot, make_virtual_cluster

SCALES = Goodput(
    parameters={"V100": (0.05, 0.002, 0.02, 0.001, 0.01, 0.001, 1.5)},
    noise=(0.05, 1.0),
    initial_batch=64,
    max_batch=4096,
    max_local_batch=256,
    most_replicas=8,
)


def world(*jobs: Job, **fields: Any) -> Snapshot:
    vc = make_virtual_cluster(guaranteed={"V100": 8}, policy="optimus")
    return make_snapshot(nodes=make_cluster(2, gpus=4), jobs=jobs, virtual_clusters=[vc], **fields)


def elastic(number: int, **fields: Any) -> Job:
    return make_job(number, 1, elastic=(1, 8), goodput=SCALES, **fields)


def sizes(snapshot: Snapshot) -> dict[int, int]:
    plan = decide(snapshot)
    assert not plan.degraded
    return {int(a.jobs[0]): len(a.placement.gpus) for a in plan.actions if a.placement is not None}


def test_one_at_a_time_where_it_saves_the_most() -> None:
    """100 s / n and 60 s / n on five GPUs: 50 s are saved first, then 30 s, then 16.7 s."""
    seconds = [{n: work / n for n in range(1, 6)} for work in (100.0, 60.0)]
    assert most_gain(seconds, [1, 1], 3) == [2, 1]
    assert most_gain(seconds, [1, 1], 4) == [2, 2]
    assert most_gain(seconds, [1, 1], 5) == [3, 2]


def test_it_is_the_least_sum_of_remaining_times_where_gains_diminish() -> None:
    seconds = [{n: work / n for n in range(1, 9)} for work in (30.0, 7.0, 100.0)]
    best = min(
        sum(each[n] for each, n in zip(seconds, counts, strict=True))
        for counts in product(range(1, 9), repeat=3)
        if sum(counts) <= 10
    )
    found = most_gain(seconds, [1, 1, 1], 10)
    assert sum(each[n] for each, n in zip(seconds, found, strict=True)) == pytest.approx(best)


def test_a_replica_that_slows_a_job_down_is_not_given() -> None:
    assert most_gain([{1: 10.0, 2: 12.0}], [1], 4) == [1]


def test_the_longer_job_gets_more() -> None:
    found = sizes(world(elastic(1, estimate_seconds=20_000.0), elastic(2, estimate_seconds=2_000.0)))
    assert found[1] > found[2] >= 1
    assert sum(found.values()) == 8


def test_everyone_gets_the_fewest_before_anyone_gets_more() -> None:
    jobs = [elastic(number) for number in range(1, 8)]
    assert sorted(sizes(world(*jobs)).values()) == [1, 1, 1, 1, 1, 1, 2]


def test_a_job_between_intervals_starts_with_the_fewest() -> None:
    first = elastic(1)
    snapshot = world(
        first,
        elastic(2),
        running=(make_running(first, [[100], [101]]),),
        memory={"research": {"policy": "optimus", "at": NOW - 10}},
    )
    assert sizes(snapshot) == {2: 1}
    assert decide(snapshot).wake_at == NOW + 590


def test_a_job_whose_number_stays_keeps_its_nodes() -> None:
    jobs = [elastic(1, estimate_seconds=9_000.0), elastic(2, estimate_seconds=9_000.0)]
    held = (
        make_running(1, [[g] for g in (100, 101, 200, 201)]),
        make_running(2, [[g] for g in (102, 103, 202, 203)]),
    )
    assert decide(replace(world(*jobs), running=held)).actions == ()


def test_a_size_beyond_what_it_may_have_now_is_as_fast_as_it_was_measured() -> None:
    """Its own eight are more than twice what it ever had. It scales badly, so that eight are far from eight
    times as fast as one, and it has less left on few than it would in proportion."""
    badly = replace(SCALES, parameters={"V100": (0.05, 0.002, 0.5, 0.05, 0.5, 0.05, 1.5)}, most_replicas=1)
    job = make_job(1, 1, replicas=8, elastic=(1, 8), goodput=badly, estimate_seconds=1_000.0)
    snapshot = world(job)
    (pool,) = pools_of(views_of(snapshot)["research"], lambda job: job.id)
    assert pool.gangs[0].sizes == (1, 2)
    (left,) = seconds_left(views_of(snapshot)["research"], pool)
    speed = relative_goodput(job, "V100", 1, own_is_spread=True)
    assert speed is not None
    assert left[1] == pytest.approx(1_000.0 / speed)
    assert left[1] < 4_000.0


def test_remaining_time_is_that_of_the_model_in_question() -> None:
    """Of two jobs with as much work, one is four times as slow on this model as on another that it knows."""
    slow = make_job(1, 1, elastic=(1, 8), estimate_seconds=1_000.0, throughput={"V100": 1.0, "A100": 4.0})
    fast = make_job(2, 1, elastic=(1, 8), estimate_seconds=1_000.0)
    view = views_of(world(slow, fast))["research"]
    (pool,) = pools_of(view, lambda job: job.id)
    assert [left[1] for left in seconds_left(view, pool)] == [4_000.0, 1_000.0]


def views_of(snapshot: Snapshot) -> dict[str, View]:
    return RoundEngine(snapshot).views()


def test_work_of_an_earlier_attempt_counts_by_how_fast_it_was_at_its_size() -> None:
    """120 s on eight GPUs, about twice as fast as one: some 250 s of 1,000 are done, not 960."""
    badly = replace(SCALES, parameters={"V100": (0.05, 0.002, 0.5, 0.05, 0.5, 0.05, 1.5)})
    job = make_job(1, 1, elastic=(1, 8), goodput=badly, estimate_seconds=1_000.0)
    speed = relative_goodput(job, "V100", 8)
    assert speed is not None
    assert speed < 2.5
    held = make_running(job, [[gpu] for gpu in (*range(100, 104), *range(200, 204))], since=NOW - 120)
    memory = decide(world(job, running=(held,))).memory
    # A round in which it writes its checkpoint knows of no size.
    memory = decide(world(job, running=(replace(held, stopping=True),), memory=memory)).memory
    waits = replace(job, attained_service={"V100": 960.0}, attempts=1)
    later = world(waits, memory=memory)
    view = views_of(later)["research"]
    (pool,) = pools_of(view, lambda job: job.id)
    (left,) = seconds_left(view, pool, _work_done(view, memory["research"]))
    assert left[1] == pytest.approx(1_000.0 - 120.0 * speed)
    # It is remembered from then on.
    again = decide(later).memory["research"]
    assert _work_done(view, again) == _work_done(view, memory["research"])
