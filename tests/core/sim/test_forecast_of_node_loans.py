"""Forecasts and what-if questions know when nodes of serving pools come and go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from scheduler.core.model.snapshot import LENT, RETURNING, SERVING, Job, JobId, NodeId, NodeLoan, Snapshot
from scheduler.core.serving_pools.load_curve import DAY_SECONDS, curve_of
from scheduler.core.serving_pools.steering import ServingPool
from scheduler.core.sim.forecast import Bounds, Prediction, forecast
from scheduler.core.sim.what_if import NewJob, what_if
from tests.builders import make_job, make_node, make_running, make_snapshot, make_virtual_cluster

MIDNIGHT = 20_000.0 * DAY_SECONDS
HOUR = 3_600.0
MINUTE = 60.0
BY_NIGHT = ServingPool(name="chat", return_seconds=600.0, curve=curve_of({"08:00": 2, "20:00": 0}))
BOUNDS = Bounds(rounds_to_double=None)


def world(
    *jobs: Job, hour: float, state: str, running: Sequence[int] = (), policy: str = "aryl", **loan: float
) -> Snapshot:
    """Four GPUs of the cluster's own and twice four of the pool; jobs whose number is in `running` run on as
    many as they have, from the first on."""
    nodes = [
        make_node(1, gpus=4),
        *(make_node(number, gpus=4, loan=NodeLoan(pool="chat", state=state, **loan)) for number in (2, 3)),
    ]
    now = MIDNIGHT + hour * HOUR
    free = [gpu.id for node in nodes for gpu in node.gpus]
    held = []
    for job in jobs:
        if job.id in running:
            gpus = [
                [free.pop(0) for _ in range(task.gpus)] for task in job.tasks for _ in range(task.replicas)
            ]
            held.append(make_running(job, gpus, since=now))
    return make_snapshot(
        nodes=nodes,
        jobs=[replace(job, submitted_at=now) for job in jobs],
        running=held,
        virtual_clusters=[make_virtual_cluster(guaranteed={"V100": 12}, policy=policy)],
        now=now,
        round_seconds=MINUTE,
    )


def start_of(facts: Snapshot, job: int, *pools: ServingPool) -> float:
    """Return the hours after midnight at which a job is to start."""
    at = predicted(facts, job, *pools).starts_at
    assert at is not None
    return (at - MIDNIGHT) / HOUR


def predicted(facts: Snapshot, job: int, *pools: ServingPool) -> Prediction:
    return forecast(facts, bounds=BOUNDS, pools=pools).predictions[JobId(job)]


def test_a_job_that_needs_lent_nodes_starts_in_the_evening() -> None:
    facts = world(make_job(1, 4, replicas=2, estimate_seconds=HOUR), hour=10.0, state=SERVING)
    assert start_of(facts, 1, BY_NIGHT) == pytest.approx(20.0, abs=0.02)
    assert predicted(facts, 1).starts_at is None


def test_a_gang_that_shrinks_in_the_morning_ends_later() -> None:
    """Twelve GPUs until ten minutes before eight, four from then on: of 24 hours on four are 1.5 left."""
    gang = make_job(1, 1, replicas=12, elastic=(4, 12), estimate_seconds=8 * HOUR)
    waiting = make_job(2, 4, estimate_seconds=HOUR)
    facts = world(gang, waiting, hour=0.0, state=LENT, running=[1], policy="fifo")
    assert start_of(facts, 2, BY_NIGHT) == pytest.approx(8.33, abs=0.05)
    assert start_of(facts, 2) == pytest.approx(8.0, abs=0.02)


def test_a_node_that_is_lent_by_name_goes_when_its_time_is_over() -> None:
    """The gang is stopped at five, when its nodes have to be there, and never goes on: who waits starts."""
    gang = make_job(1, 4, replicas=3, estimate_seconds=40 * HOUR)
    waiting = make_job(2, 4, estimate_seconds=HOUR)
    facts = world(gang, waiting, hour=0.0, state=LENT, running=[1], policy="fifo")
    five = MIDNIGHT + 5 * HOUR
    by_name = ServingPool(name="chat", return_seconds=600.0, lent_until={NodeId(2): five, NodeId(3): five})
    assert start_of(facts, 2, by_name) == pytest.approx(5.0, abs=0.02)
    assert start_of(facts, 2) > 10.0


def test_a_node_that_was_asked_back_already_goes_when_it_was_told() -> None:
    gang = make_job(1, 4, replicas=3, estimate_seconds=40 * HOUR)
    waiting = make_job(2, 4, estimate_seconds=HOUR)
    instants = {"stops_at": MIDNIGHT + 3 * HOUR, "return_by": MIDNIGHT + 3.1 * HOUR}
    facts = world(gang, waiting, hour=2.5, state=RETURNING, running=[1], policy="fifo", **instants)
    assert start_of(facts, 2, replace(BY_NIGHT, curve=None)) == pytest.approx(3.0, abs=0.02)


def test_what_if_a_job_came_is_answered_by_the_curve() -> None:
    facts = world(hour=10.0, state=SERVING)
    new = NewJob(job=make_job(1, 4, replicas=2, estimate_seconds=HOUR))
    (effect,) = what_if(facts, [new], bounds=BOUNDS, pools=[BY_NIGHT]).subjects
    assert effect.after is not None
    assert effect.after.starts_at == pytest.approx(MIDNIGHT + 20 * HOUR, abs=2 * MINUTE)
    (effect,) = what_if(facts, [new], bounds=BOUNDS).subjects
    assert effect.after is not None
    assert effect.after.starts_at is None


def test_a_job_that_waits_in_vain_ends_no_later_because_curves_go_on() -> None:
    facts = world(make_job(1, 4, replicas=4, estimate_seconds=HOUR), hour=10.0, state=SERVING)
    made = forecast(facts, bounds=BOUNDS, pools=[BY_NIGHT])
    assert made.predictions[JobId(1)].starts_at is None
    assert made.rounds < 30
