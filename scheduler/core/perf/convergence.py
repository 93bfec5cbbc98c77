"""Predict how the loss of a training job will fall from how it fell so far (SLAQ, SoCC'17, section 3.2).

H. Zhang et al., "SLAQ: Quality-Driven Scheduling for Distributed Machine Learning". There are two families of
curves over the step k; the curve nearest to the losses wins:

    1 / (a·k² + b·k + c) + d      first-order methods, which converge sublinearly
    μ^(k-b) + d                   methods that converge linearly or faster, 0 < μ < 1

Later losses weigh more than earlier ones. The paper searches all parameters. Here only the limit d is
searched, on a grid below the least loss so far: with d given, 1 / (loss - d) is a polynomial in k and
log(loss - d) a line, both of which weighted least squares solve directly. So fitting a job takes half a
millisecond, and the same losses always give the same curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Family = Literal["polynomial", "exponential"]

#: The fewest losses that make a prediction.
LEAST_POINTS = 4
#: A fall beyond these is no training, and its powers leave the range of numbers.
_LEAST_FALL, _MOST_FALL = 1e-30, 1e30
#: How far below the least loss the limit may be, in units of how much the loss has fallen so far.
_BELOW = np.geomspace(1e-3, 10.0, 25)
#: The weight of a loss relative to the next one.
_RECENCY = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class LossCurve:
    """A loss that falls with the step towards `limit`; steps count in `unit`s."""

    family: Family
    limit: float
    unit: float
    #: The coefficients of the polynomial 1 / (loss - limit), or of the line log(loss - limit), the constant
    #: first.
    coefficients: tuple[float, ...]

    def at(self, step: float) -> float:
        """Return the loss at a step that is not before the first one of the fit."""
        x = step / self.unit
        value = sum([each * x**power for power, each in enumerate(self.coefficients)])
        return self.limit + (1.0 / value if self.family == "polynomial" else float(np.exp(value)))


def fit_loss(points: Sequence[tuple[float, float]]) -> LossCurve | None:
    """Return the curve nearest to the losses (step, loss), which are in the order of their steps.

    None where there are too few losses, or they do not fall, or by no plausible amount.
    """
    steps, losses = np.array(points, dtype=np.float64).reshape(-1, 2).T
    if len(points) < LEAST_POINTS or not np.isfinite([steps, losses]).all():
        return None
    if not (np.diff(steps) > 0).all() or steps[0] < 0 or losses[0] <= losses[-1]:
        return None
    fallen = losses.max() - losses.min()
    if not _LEAST_FALL <= fallen <= _MOST_FALL:
        return None
    # First find the limit on the grid, then between its two neighbours there.
    coarse = _nearest(steps, losses, losses.min() - fallen * _BELOW)
    if coarse is None:
        return None
    below = (losses.min() - coarse[1].limit) * np.geomspace(_BELOW[0] / _BELOW[1], _BELOW[1] / _BELOW[0], 15)
    fine = _nearest(steps, losses, losses.min() - below)
    return coarse[1] if fine is None or coarse[0] <= fine[0] else fine[1]


def _nearest(steps: Floats, losses: Floats, limits: Floats) -> tuple[float, LossCurve] | None:
    """Return the error and the curve, with one of these limits, that is nearest to the losses."""
    unit = float(steps[-1])
    x, above = steps / unit, losses - limits[:, None]
    weights = _RECENCY ** np.arange(len(losses) - 1, -1, -1.0)
    # These weights undo how the reciprocal, or the logarithm, magnifies an error of the loss.
    polynomial = _least_squares(x, 1.0 / above, weights * above**4, degree=2)
    # A polynomial that turns somewhere ahead predicts nothing; then a line is tried.
    line = _least_squares(x, 1.0 / above, weights * above**4, degree=1)
    turns = (polynomial[:, 1:] < 0).any(axis=1)
    polynomial[turns] = np.pad(line, ((0, 0), (0, 1)))[turns]
    exponential = _least_squares(x, np.log(above), weights * above**2, degree=1)
    values = _values(polynomial, x)
    candidates: tuple[tuple[Family, Floats, Floats, Flags], ...] = (
        (
            "polynomial",
            polynomial,
            1.0 / np.where(values > 0, values, np.inf),
            (polynomial[:, 1:] >= 0).all(axis=1) & (values[:, 0] > 0),
        ),
        ("exponential", exponential, np.exp(_values(exponential, x)), exponential[:, 1] < 0),
    )
    found = []
    for family, coefficients, predicted, falls in candidates:
        errors = np.where(falls, (weights * (predicted - above) ** 2).sum(axis=1), np.inf)
        row = int(errors.argmin())
        if np.isfinite(errors[row]):
            fitted = tuple(map(float, coefficients[row]))
            curve = LossCurve(family=family, limit=float(limits[row]), unit=unit, coefficients=fitted)
            found.append((float(errors[row]), curve))
    return min(found, key=lambda pair: pair[0], default=None)


def _values(coefficients: Floats, x: Floats) -> Floats:
    values: Floats = coefficients @ x[None, :] ** np.arange(coefficients.shape[1])[:, None]
    return values


def _least_squares(x: Floats, values: Floats, weights: Floats, *, degree: int) -> Floats:
    """Return the coefficients of a polynomial for each row of values, the constant first."""
    powers = x[None, :] ** np.arange(degree + 1)[:, None]
    normal = np.einsum("pi,ri,qi->rpq", powers, weights, powers)
    # Rows differ widely in scale; a little on the diagonal keeps the smallest from being singular.
    normal += 1e-12 * np.einsum("rpp->r", normal)[:, None, None] * np.eye(degree + 1)
    target = np.einsum("pi,ri->rp", powers, weights * values)
    solution: Floats = np.linalg.solve(normal, target[:, :, None])[:, :, 0]
    return solution
