"""Simulated jobs that tell of their steps: rounds know how long they run, whatever was declared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from scheduler.core.model.plan import Plan
from scheduler.core.model.snapshot import JobId
from scheduler.core.round.run_view import ViewOutcome
from scheduler.core.sim.costs import Costs
from scheduler.core.sim.engine import Engine
from scheduler.core.sim.rules import Rules
from scheduler.core.sim.workload import Arrival
from tests.core.sim.worlds import arrival, cluster, ends, simulate, two_models, workloads
from tests.effort import examples


def seen(facts: Any, arrivals: Sequence[Arrival], **rules: Any) -> dict[float, tuple[bool, float | None]]:
    """Return what rounds knew of job 1's run time, by instant: whether it was measured, and what it is."""
    found = {}

    def look(engine: Engine, outcomes: Sequence[ViewOutcome], plan: Plan) -> None:
        job = engine.round_engine.facts.jobs.get(JobId(1))
        if job is not None:
            found[engine.now] = job.measured, job.estimate_seconds

    assert Engine(facts, arrivals, Rules(tells_steps=True, **rules), on_round=look).run() == ""
    return found


def test_a_round_is_held_as_soon_as_a_job_was_looked_at_for_long_enough() -> None:
    """For a minute, and for a hundredth of what it has to do."""
    short = arrival(1, 0.0, 1_000.0, estimate_seconds=50.0)
    assert seen(cluster(1), [short]) == {0.0: (False, 50.0), 60.0: (True, 1_000.0)}
    long = arrival(1, 0.0, 10_000.0, estimate_seconds=50.0)
    assert seen(cluster(1), [long]) == {0.0: (False, 50.0), 100.0: (True, 10_000.0)}


def test_starting_and_what_a_failed_node_loses_make_it_longer() -> None:
    """It starts in 20 s and restores in 10; the loss of its node at 500 s throws it back to 400 s of work."""
    costs = Costs(start_seconds=20, restore_seconds=10, interval_seconds=100)
    found = seen(cluster(1), [arrival(1, 0.0, 1_000.0)], costs=costs)
    assert found[80.0] == (True, pytest.approx(1_020.0))


def test_the_shortest_job_is_who_is_the_shortest() -> None:
    """With srtf, a job that was declared to be short gives way once its steps tell otherwise."""
    lying = arrival(1, 0.0, 1_000.0, estimate_seconds=10.0)
    facts, jobs = cluster(1, policy="srtf", parameters={"hysteresis": 0.0}), [lying, arrival(2, 1.0, 300.0)]
    assert ends(simulate(facts, jobs)) == {1: 1_000.0, 2: 1_300.0}
    assert ends(simulate(facts, jobs, tells_steps=True)) == {1: 1_300.0, 2: 360.0}


@settings(max_examples=examples(25))
@given(arrivals=workloads())
def test_where_nothing_is_lost_what_is_measured_is_the_truth(arrivals: list[Arrival]) -> None:
    """However often a job is stopped, moved or made to share its GPUs, and whatever was declared."""
    truths = {one.job.id: one.truth.work_seconds for one in arrivals}
    lying = [replace(one, job=replace(one.job, estimate_seconds=7.0)) for one in arrivals]
    alone = set(truths)

    def look(engine: Engine, outcomes: Sequence[ViewOutcome], plan: Plan) -> None:
        facts = engine.round_engine.facts
        for running in facts.running.values():
            if len(running.jobs) > 1:
                alone.difference_update(running.jobs)
        for job in facts.jobs.values():
            if job.measured and job.id in alone:
                assert job.estimate_seconds == pytest.approx(truths[job.id])
            assert job.measured or job.estimate_seconds == 7.0

    engine = Engine(two_models("gandiva"), lying, Rules(tells_steps=True), on_round=look)
    engine.run()
    assert not engine.degraded
