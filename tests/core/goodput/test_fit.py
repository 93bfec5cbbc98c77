"""Fits: planted parameters come back, what was never seen is believed to be good, the published profiles."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from scheduler.core.goodput.fit import Measurement, fit, log_error, most_replicas
from scheduler.core.goodput.throughput import (
    LEAST_SECONDS,
    GoodputError,
    Parameters,
    gradient_seconds,
    iteration_seconds,
    synchronisation_seconds,
    throughput,
)
from tests.core.goodput import profiles
from tests.core.goodput.test_examples import ran

#: Every link with two replicas and with more.
WAYS = ((1, 1), (1, 2), (1, 3), (1, 4), (2, 2), (2, 3), (2, 8), (4, 16))
#: What an iteration is off by on average, as a logarithm, fitted to all that was published.
PUBLISHED = {
    "bert": 0.122,
    "cifar10": 0.106,
    "deepspeech2": 0.112,
    "imagenet": 0.113,
    "ncf": 0.148,
    "yolov3": 0.152,
}


@pytest.mark.parametrize(
    "planted",
    [
        Parameters(0.1, 0.01, 0.5, 0.02, 0.2, 0.01, 1.2),
        Parameters(0.02, 0.001, 0.05, 0.004, 0.03, 0.001, 1.0),
        Parameters(0.3, 0.05, 2.0, 0.1, 1.5, 0.1, 1.5),
        Parameters(0.008, 0.00002, 0.015, 0.0006, 0.004, 0.0005, 1.1),
    ],
)
def test_planted_parameters_come_back(planted: Parameters) -> None:
    assert fit(ran(planted, *WAYS)) == pytest.approx(planted, rel=0.05)


def test_accumulated_gradients_count() -> None:
    planted = Parameters(0.1, 0.01, 0.5, 0.02, 0.2, 0.01, 1.2)
    rows = [
        replace(
            row,
            accumulation=number % 4,
            iteration_seconds=float(
                iteration_seconds(planted, row.nodes, row.replicas, row.local_batch, number % 4)
            ),
        )
        for number, row in enumerate(ran(planted, *WAYS))
    ]
    assert fit(rows) == pytest.approx(planted, rel=0.05)
    assert log_error(fit(rows), rows) < 1e-3


def test_the_same_measurements_give_the_same_parameters() -> None:
    rng = np.random.default_rng(4)
    rows = [
        replace(row, iteration_seconds=row.iteration_seconds * float(rng.uniform(1.0, 1.3)))
        for row in ran(Parameters(0.1, 0.01, 0.5, 0.02, 0.2, 0.01, 2.0), *WAYS)
    ]
    assert fit(rows) == fit(rows)
    # Where it is computed makes no difference: what goes in and comes out can be handed over.
    assert pickle.loads(pickle.dumps(fit))(pickle.loads(pickle.dumps(rows))) == fit(rows)


#: On one node 0.2 s, over nodes 0.5 s, as much again for every fifth replica.
SEEN = Parameters(0.1, 0.01, 0.5, 0.1, 0.2, 0.04, 1.0)


def test_a_job_that_ran_on_one_gpu_is_believed_to_scale_perfectly() -> None:
    fitted = fit(ran(SEEN, (1, 1)))
    assert fitted[:2] == pytest.approx(SEEN[:2], rel=1e-3)
    assert max(fitted[2:6]) <= 1.1 * LEAST_SECONDS
    assert throughput(fitted, 4, 16, 16) == pytest.approx(16 * throughput(fitted, 1, 1, 16), rel=1e-6)


def test_with_one_batch_half_the_gradient_is_constant() -> None:
    fitted = fit(ran(SEEN, (1, 1), (1, 2), batches=(20,)))
    assert fitted.compute_seconds == pytest.approx(0.15)
    assert gradient_seconds(fitted, 20) == pytest.approx(0.3, rel=1e-3)


def test_two_replicas_on_a_node_tell_of_that_link_only() -> None:
    fitted = fit(ran(SEEN, (1, 1), (1, 2)))
    assert fitted.intranode_seconds == pytest.approx(0.2, rel=1e-3)
    assert fitted.intranode_seconds_per_replica == LEAST_SECONDS
    # Nobody tried several nodes: a tenth worse than one.
    assert fitted.internode_seconds == pytest.approx(1.1 * fitted.intranode_seconds)
    assert fitted.internode_seconds_per_replica == 1.1 * LEAST_SECONDS


def test_two_replicas_on_two_nodes_tell_nothing_of_one_node() -> None:
    fitted = fit(ran(SEEN, (1, 1), (2, 2)))
    assert fitted.internode_seconds == pytest.approx(0.5, rel=1e-3)
    assert fitted.internode_seconds_per_replica == LEAST_SECONDS
    assert fitted[4:6] == (LEAST_SECONDS, LEAST_SECONDS)


def test_a_third_replica_tells_what_each_costs_on_its_link_only() -> None:
    fitted = fit(ran(SEEN, (1, 1), (1, 2), (1, 4), (2, 2)))
    assert synchronisation_seconds(fitted, 1, 4) == pytest.approx(0.28, rel=0.02)
    assert fitted.intranode_seconds_per_replica == pytest.approx(0.04, rel=0.05)
    assert fitted.internode_seconds_per_replica == LEAST_SECONDS


def test_a_job_may_try_twice_as_many_as_it_had() -> None:
    assert most_replicas([]) == 1
    assert most_replicas(ran(SEEN, (1, 1), (2, 3), (1, 2))) == 6


GOOD = Measurement(1, 2, 8, 0, 0.1, 0.2)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"nodes": 3}, r"measurements\[1\].nodes: 3 with 2 replicas"),
        ({"nodes": 0}, r"measurements\[1\].nodes: 0"),
        ({"local_batch": 0}, r"measurements\[1\].local_batch: 0"),
        ({"accumulation": -1}, r"measurements\[1\].accumulation: -1"),
        ({"gradient_seconds": 0.0}, r"measurements\[1\].gradient_seconds: 0.0"),
        ({"iteration_seconds": float("nan")}, r"measurements\[1\].iteration_seconds: nan"),
        ({"iteration_seconds": float("inf")}, r"measurements\[1\].iteration_seconds: inf"),
    ],
)
def test_what_cannot_have_been_measured_is_refused(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(GoodputError, match=message):
        fit([GOOD, replace(GOOD, **wrong)])


def test_a_fit_needs_a_measurement() -> None:
    with pytest.raises(GoodputError, match="there are none"):
        fit([])


@profiles.are_here
@pytest.mark.parametrize("name", profiles.NAMES)
def test_published_profiles(name: str) -> None:
    """Every iteration that was measured, 278 to 1,004 an application, on up to 16 nodes."""
    rows, fitted = profiles.measurements(name), profiles.model(name).parameters
    assert log_error(fitted, rows) == pytest.approx(PUBLISHED[name], abs=0.002)
    off = [
        abs(
            float(throughput(fitted, row.nodes, row.replicas, row.local_batch))
            / (row.replicas * row.local_batch / row.iteration_seconds)
            - 1
        )
        for row in rows
    ]
    assert np.median(off) < 0.12
    assert np.quantile(off, 0.9) < 0.27
