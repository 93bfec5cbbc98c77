"""The curve of a loss: planted ones are found again, and what does not fall predicts nothing."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from scheduler.core.perf.convergence import fit_loss

FIRST_ORDER = (lambda k: 1.0 / (2e-7 * k * k + 1e-3 * k + 0.4) + 0.3, 0.3)
LINEAR = (lambda k: 0.997 ** (k - 300) + 0.1, 0.1)


@pytest.mark.parametrize(("curve", "limit"), [FIRST_ORDER, LINEAR], ids=["first order", "linear"])
def test_a_planted_curve_is_found_again(curve: Callable[[float], float], limit: float) -> None:
    fitted = fit_loss([(float(k), curve(k)) for k in range(0, 1_600, 100)])
    assert fitted is not None
    for ahead in (1_600, 2_000, 3_000):
        assert fitted.at(ahead) == pytest.approx(curve(ahead), rel=0.02)
    assert fitted.at(1e9) == pytest.approx(limit, abs=0.05)


def test_noise_changes_the_prediction_by_little() -> None:
    curve, dice = FIRST_ORDER[0], random.Random(3)
    fitted = fit_loss([(float(k), curve(k) * dice.uniform(0.98, 1.02)) for k in range(0, 3_200, 100)])
    assert fitted is not None
    fall = curve(3_100) - curve(6_000)
    assert fitted.at(3_100) - fitted.at(6_000) == pytest.approx(fall, rel=0.35)


def test_it_never_rises() -> None:
    fitted = fit_loss([(1, 3.0), (2, 1.0), (3, 1.4), (4, 1.2), (5, 1.1)])
    assert fitted is not None
    values = [fitted.at(step) for step in range(5, 500)]
    assert values == sorted(values, reverse=True)


@pytest.mark.parametrize(
    "points",
    [
        [],
        [(1, 2.0), (2, 1.5), (3, 1.2)],
        [(1, 1.0), (2, 1.0), (3, 1.0), (4, 1.0)],
        [(1, 1.0), (2, 1.1), (3, 1.2), (4, 1.3)],
        [(1, 4.0), (2, 3.0), (2, 2.0), (3, 1.0)],
        [(1, 4.0), (2, math.inf), (3, 2.0), (4, 1.0)],
        [(1, 4e-100), (2, 3e-100), (3, 2e-100), (4, 1e-100)],
        [(1, 4e200), (2, 3e200), (3, 2e200), (4, 1e200)],
    ],
    ids=["none", "too few", "flat", "rising", "a step twice", "not finite", "tiny", "huge"],
)
def test_what_tells_nothing_predicts_nothing(points: list[tuple[float, float]]) -> None:
    assert fit_loss(points) is None
