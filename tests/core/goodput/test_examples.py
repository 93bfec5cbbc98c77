"""Goodput by hand: the paper's formulas with small numbers, and what is impossible."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from scheduler.core.goodput.batch import GoodputModel, Limits, Noise, efficiency
from scheduler.core.goodput.fit import Measurement
from scheduler.core.goodput.gpu_models import fit_gpu_models
from scheduler.core.goodput.speedups import Speedups
from scheduler.core.goodput.throughput import (
    GoodputError,
    Parameters,
    gradient_seconds,
    iteration_seconds,
    step_seconds,
    synchronisation_seconds,
    throughput,
)

#: A gradient of 20 samples takes 0.3 s; without overlap.
PARAMETERS = Parameters(
    compute_seconds=0.1,
    compute_seconds_per_sample=0.01,
    internode_seconds=0.4,
    internode_seconds_per_replica=0.05,
    intranode_seconds=0.2,
    intranode_seconds_per_replica=0.02,
    overlap=1.0,
)
#: The noise scale is three initial batches of 20: 60 samples.
NOISE = Noise(squared_norm=1.0, variance=3.0)
LIMITS = Limits(initial_batch=20, max_batch=320, min_local_batch=5, max_local_batch=40)
MODEL = GoodputModel(PARAMETERS, NOISE, LIMITS)


def fixed(batch: int, *, largest: int) -> GoodputModel:
    """A job whose batch may not change."""
    limits = Limits(initial_batch=batch, max_batch=batch, max_local_batch=largest)
    return GoodputModel(PARAMETERS, NOISE, limits)


@pytest.mark.parametrize(
    ("nodes", "replicas", "seconds"),
    [(1, 1, 0.0), (1, 2, 0.2), (1, 4, 0.24), (2, 2, 0.4), (2, 4, 0.5), (4, 4, 0.5)],
)
def test_synchronising(nodes: int, replicas: int, seconds: float) -> None:
    assert synchronisation_seconds(PARAMETERS, nodes, replicas) == pytest.approx(seconds)


def test_an_iteration_is_its_gradients_and_one_synchronisation() -> None:
    assert gradient_seconds(PARAMETERS, 20) == pytest.approx(0.3)
    assert iteration_seconds(PARAMETERS, 1, 4, 20) == pytest.approx(0.3 + 0.24)
    assert iteration_seconds(PARAMETERS, 1, 4, 20, 2) == pytest.approx(3 * 0.3 + 0.24)
    assert throughput(PARAMETERS, 1, 4, 20, 2) == pytest.approx(4 * 20 * 3 / 1.14)


def test_overlap_hides_the_shorter_part() -> None:
    assert step_seconds(0.3, 0.4, 1.0) == pytest.approx(0.7)
    assert step_seconds(0.3, 0.4, 2.0) == pytest.approx(0.5)
    assert step_seconds(0.3, 0.4, 10.0) == pytest.approx(0.4, rel=6e-3)
    # Neither does a time that is nearly nothing vanish into an error.
    assert step_seconds(1e-200, 0.4, 10.0) == step_seconds(0.4, 0.0, 10.0) == 0.4


def test_a_sample_is_worth_less_in_a_larger_batch() -> None:
    assert efficiency(NOISE, 20, 20) == 1.0
    assert efficiency(NOISE, 20, 60) == pytest.approx((60 + 20) / (60 + 60))
    assert efficiency(NOISE, 20, 320) == pytest.approx(80 / 380)


@pytest.mark.parametrize(
    ("noise", "worth"),
    [
        (Noise(0.0, 3.0), 1.0),
        (Noise(-0.1, 3.0), 1.0),
        (Noise(1.0, 0.0), 0.25),
        (Noise(1.0, -2.0), 0.25),
        (Noise(0.0, 0.0), 0.25),
    ],
    ids=["all noise", "estimated below 0", "no noise", "noise estimated below 0", "nothing to be seen"],
)
def test_gradients_at_the_edge(noise: Noise, worth: float) -> None:
    assert efficiency(noise, 20, 80) == worth


def test_goodput_is_their_product() -> None:
    goodput = MODEL.goodput(1, 4, 20, 2)
    assert goodput == pytest.approx(240 / 1.14 * 80 / (60 + 240))


def test_the_best_batch_is_the_best_of_all_by_hand() -> None:
    """On one node with two GPUs every batch that is allowed is looked at."""
    every = [
        (float(MODEL.goodput(1, 2, local, gradients - 1)), local, gradients - 1)
        for gradients in range(1, 33)
        for local in range(5, 41)
        if 20 <= 2 * local * gradients <= 320
    ]
    best = MODEL.best(1, 2)
    assert float(best.goodput) == pytest.approx(max(every)[0], rel=2e-3)
    assert (best.accumulation, best.local_batch) == (0, pytest.approx(max(every)[1], abs=2))


def test_a_larger_batch_on_one_gpu_takes_two_gradients() -> None:
    """One alone does not tell how noisy it is."""
    best = replace(MODEL, noise=Noise(1e-9, 1.0)).best(1, 1)
    assert int(best.local_batch * (best.accumulation + 1)) > 20
    assert best.accumulation >= 1
    assert replace(MODEL, noise=Noise(1.0, 0.0)).best(1, 1) == (pytest.approx(20 / 0.3), 20, 0)


def test_a_batch_that_must_stay_needs_gpus_that_divide_it() -> None:
    best = fixed(128, largest=128).best(1, [1, 2, 3, 4, 5, 8])
    assert best.local_batch.tolist() == [128, 64, 0, 32, 0, 16]
    assert (best.goodput > 0).tolist() == [True, True, False, True, False, True]


def test_a_batch_that_must_stay_is_divided_as_it_can_be() -> None:
    """100 samples on two GPUs of 20 at most: not in three gradients, but in five of ten."""
    best = fixed(100, largest=20).best(1, 2)
    assert (best.local_batch, best.accumulation) == (10, 4)


def test_a_gpu_too_many_for_the_smallest_gradients_is_impossible() -> None:
    assert MODEL.best(8, [64, 65]).goodput.tolist() == [pytest.approx(MODEL.goodput(8, 64, 5, 0)), 0.0]


def test_speedups() -> None:
    speedups = Speedups([MODEL, None], [8, 4])
    one, two, spread = (float(MODEL.best(*where).goodput) for where in ((1, 1), (1, 2), (2, 2)))
    assert speedups(0, [0, 1, 1, 2], [0, 1, 2, 2]).tolist() == [0.0, 1.0, two / one, spread / one]
    assert speedups(1, [0, 1, 1, 2], [0, 1, 4, 4]).tolist() == [0.0, 1.0, 4.0, 4.0]
    # Of any shape, and the same when it is remembered.
    job, nodes = np.array([[0], [1]]), np.array([1, 1, 2])
    first = speedups(job, nodes, np.array([1, 4, 4]))
    assert first.shape == (2, 3)
    assert first.tobytes() == speedups(job, nodes, np.array([1, 4, 4])).tobytes()


def test_the_speedup_of_the_fewest_gpus_is_their_number() -> None:
    """1,000 samples in equal gradients of at most three are 500 of two: too many for one GPU, and for two."""
    speedups = Speedups([fixed(1000, largest=3)], [8])
    assert speedups(0, 1, [1, 2, 3, 4, 6]).tolist() == [0.0, 0.0, 0.0, 4.0, 0.0]
    assert not Speedups([fixed(127, largest=126)], [4])(0, 1, [2, 3, 4]).any()
    limits = Limits(initial_batch=5, max_batch=9, min_local_batch=10, max_local_batch=12)
    assert not Speedups([replace(MODEL, limits=limits)], [4])(0, 1, [1, 2, 3, 4]).any()


def ran(
    parameters: Parameters, *ways: tuple[int, int], batches: tuple[int, ...] = (8, 16, 32)
) -> list[Measurement]:
    """What is measured, without noise, of a job with such parameters."""
    return [
        Measurement(
            nodes,
            replicas,
            batch,
            0,
            float(gradient_seconds(parameters, batch)),
            float(iteration_seconds(parameters, nodes, replicas, batch)),
        )
        for nodes, replicas in ways
        for batch in batches
    ]


def test_a_gpu_model_that_was_tried_on_one_gpu_scales_like_the_one_that_is_known() -> None:
    """Sia: throughput of N on A = throughput of N on B x (of 1 on A / of 1 on B)."""
    slow, fast = PARAMETERS, PARAMETERS.times(0.4)
    found = fit_gpu_models(
        {"K80": ran(slow, (1, 1), (1, 2), (1, 4), (2, 4), (2, 8)), "A100": ran(fast, (1, 1))}
    )
    assert [found[model].projected_from for model in ("K80", "A100")] == ["", "K80"]
    for nodes, replicas in ((1, 1), (1, 2), (1, 4), (2, 8)):
        on_slow = throughput(found["K80"].parameters, nodes, replicas, 16)
        ratio = throughput(fast, 1, 1, 16) / throughput(slow, 1, 1, 16)
        assert throughput(found["A100"].parameters, nodes, replicas, 16) == pytest.approx(
            ratio * on_slow, rel=1e-2
        )


def test_a_gpu_model_never_tried_is_told_by_a_known_ratio_or_not_at_all() -> None:
    rows = {"K80": ran(PARAMETERS, (1, 1), (1, 2)), "V100": []}
    found = fit_gpu_models(rows, {"K80": 100.0, "A100": 250.0})
    assert sorted(found) == ["A100", "K80"]
    assert found["A100"].projected_from == "K80"
    assert throughput(found["A100"].parameters, 1, 2, 16) == pytest.approx(
        2.5 * throughput(found["K80"].parameters, 1, 2, 16)
    )
    # A ratio to what was not measured says nothing.
    assert sorted(fit_gpu_models(rows, {"V100": 1.0, "A100": 2.0})) == ["K80"]
    assert fit_gpu_models({}, {"V100": 1.0}) == {}


def test_before_anybody_ran_on_several_gpus_each_is_believed_to_scale() -> None:
    found = fit_gpu_models({"K80": ran(PARAMETERS, (1, 1)), "A100": ran(PARAMETERS.times(0.4), (1, 1))})
    for on_model in found.values():
        assert on_model.projected_from == ""
        one, many = (throughput(on_model.parameters, 1, count, 16) for count in (1, 8))
        assert many == pytest.approx(8 * one, rel=1e-3)


def test_a_gpu_model_with_gangs_of_its_own_is_fitted() -> None:
    rows = {"K80": ran(PARAMETERS, (1, 1), (1, 8)), "A100": ran(PARAMETERS.times(0.4), (1, 1), (1, 2))}
    assert [each.projected_from for each in fit_gpu_models(rows).values()] == ["", ""]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Limits(initial_batch=8, max_batch=4, max_local_batch=4), "max_batch: 4 with an initial"),
        (
            lambda: Limits(initial_batch=8, max_batch=8, max_local_batch=0),
            "max_local_batch: 0 with at least 1",
        ),
        (lambda: replace(MODEL, noise=Noise(math.nan, 1.0)), "noise: .* finite"),
        (lambda: MODEL.best(2, 1), "nodes: each allocation"),
        (lambda: Speedups([MODEL], [0]), "most_replicas: .* at least 1"),
        (lambda: Speedups([MODEL], [4])(0, 1, 5), "replicas: a job must have none"),
        (lambda: fit_gpu_models({}, {"V100": 0.0}), r"relative_speed\[V100\]: 0.0; it must be"),
    ],
)
def test_what_cannot_be_is_refused_with_what_would_be_right(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(GoodputError, match=message):
        make()
