"""What elasticity saves, of workloads so small that both runs are done by hand."""

from __future__ import annotations

import pytest

from scheduler.core.model.snapshot import ADAPTIVE
from scheduler.core.model.training import Goodput
from scheduler.core.sim.elasticity import GoodputSpeeds, TooLongError, savings
from scheduler.core.sim.speeds import Speeds
from tests.builders import make_job
from tests.core.sim.worlds import arrival, cluster

SCALES = Goodput(
    parameters={"V100": (0.05, 0.002, 0.02, 0.001, 0.01, 0.001, 1.5)},
    noise=(0.05, 1.0),
    initial_batch=64,
    max_batch=4096,
    max_local_batch=256,
    most_replicas=4,
)


def test_a_job_that_shrinks_does_not_wait() -> None:
    facts = cluster(4, policy="optimus", round_seconds=10.0)
    first = arrival(1, 0.0, 1_000.0, replicas=2)
    elastic = arrival(2, 0.0, 1_000.0, replicas=4, elastic=(2, 4))
    found = savings(facts, [first, elastic], Speeds(), restart_seconds=30.0)
    assert (found.jobs, found.elastic_jobs, found.left_out) == (2, 1, 0)
    assert found.rigid is not None
    assert found.elastic is not None
    # Rigid: the gang of four has to wait for the gang of two.
    assert found.rigid.mean_wait_seconds == 500.0
    assert found.rigid.mean_completion_seconds == 1_500.0
    assert found.rigid.resizes == 0
    assert found.rigid.gpu_hours == pytest.approx((2 * 1_000 + 4 * 1_000) / 3_600)
    # Elastic: it begins with two, half as fast. Optimus divides anew every ten minutes: from 1,200 on it has
    # all four, and after its restart 400 seconds of work to do.
    assert found.elastic.mean_wait_seconds == 0.0
    assert found.elastic.resizes == 1
    assert found.elastic.mean_completion_seconds == pytest.approx((1_000 + 1_630) / 2)
    assert found.elastic.gpu_hours == pytest.approx((2 * 1_000 + 2 * 1_200 + 4 * 430) / 3_600)


def test_without_elastic_jobs_nothing_is_simulated() -> None:
    found = savings(cluster(4), [arrival(1, 0.0, 10.0)], Speeds(), is_over=lambda: True)
    assert (found.jobs, found.elastic_jobs, found.elastic, found.rigid) == (1, 0, None, None)


def test_what_the_cluster_can_never_run_is_left_out() -> None:
    jobs = [arrival(1, 0.0, 10.0, elastic=(1, 1)), arrival(2, 0.0, 10.0, replicas=8)]
    found = savings(cluster(4, round_seconds=10.0), jobs, Speeds())
    assert (found.jobs, found.elastic_jobs, found.left_out) == (1, 1, 1)


def test_it_is_given_up_in_time() -> None:
    with pytest.raises(TooLongError):
        savings(cluster(4), [arrival(1, 0.0, 10.0, elastic=(1, 1))], Speeds(), is_over=lambda: True)


def test_a_measured_job_is_as_fast_as_its_goodput_says() -> None:
    speeds = GoodputSpeeds(gpus_per_node=8)
    job = make_job(1, 1, replicas=2, elastic=(1, 8), elastic_mode=ADAPTIVE, goodput=SCALES)
    assert speeds.alone(job, "V100", 2, 1) == 1.0
    assert 0.5 < speeds.alone(job, "V100", 1, 1) < 1.0
    assert 1.0 < speeds.alone(job, "V100", 4, 1) < 2.0
    assert speeds.alone(job, "V100", 4, 2) < speeds.alone(job, "V100", 4, 1)
    # Of another model nothing is known: in proportion.
    assert speeds.alone(job, "P100", 4, 1) == 2.0
