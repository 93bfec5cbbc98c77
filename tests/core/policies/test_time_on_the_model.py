"""Policies that order by run time take the time on the GPU model that a job has, or could have."""

from __future__ import annotations

import pytest

from scheduler.core.building_blocks.run_time import seconds_to_run
from scheduler.core.model.plan import ActionKind
from scheduler.core.round.decide import decide
from scheduler.core.round.engine import RoundEngine
from tests.builders import NOW, make_cluster, make_job, make_running, make_snapshot, make_virtual_cluster

#: 100 s on an A100, which the cluster does not have: 1,000 s here.
SLOW_HERE = make_job(1, 1, estimate_seconds=100.0, throughput={"A100": 10.0, "V100": 1.0})
#: 500 s on any model.
OTHER = make_job(2, 1, estimate_seconds=500.0)


@pytest.mark.parametrize("policy", ["sjf", "qssf", "srtf", "lucid", "muri", "pai"])
def test_a_job_that_waits_is_as_long_as_on_the_best_model_that_there_is(policy: str) -> None:
    vc = make_virtual_cluster(guaranteed={"V100": 1}, policy=policy)
    facts = make_snapshot(nodes=make_cluster(1, gpus=1), jobs=[SLOW_HERE, OTHER], virtual_clusters=[vc])
    (action,) = decide(facts).actions
    assert (action.kind, action.jobs) == (ActionKind.START, (2,))


def test_a_job_that_runs_is_as_long_as_on_the_model_that_it_has() -> None:
    """2,000 s on a K80, 200 on a V100; after 1,000 there as many are left, which 500 precede."""
    job = make_job(1, 1, estimate_seconds=200.0, throughput={"V100": 10.0, "K80": 1.0})
    running = make_running(job, [[100]], gpu_model="K80", since=NOW - 1_000.0)
    vc = make_virtual_cluster(guaranteed={"K80": 1}, policy="srtf")
    facts = make_snapshot(
        nodes=make_cluster(1, gpus=1, gpu_model="K80"),
        jobs=[job, OTHER],
        running=[running],
        virtual_clusters=[vc],
    )
    (view,) = RoundEngine(facts).views().values()
    assert seconds_to_run(job, running, view) == 1_000.0
    assert {action.jobs: action.kind for action in decide(facts).actions} == {
        (1,): ActionKind.STOP,
        (2,): ActionKind.START,
    }
