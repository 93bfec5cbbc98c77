"""Find the centre of what max-min fairness leaves open, which is where an interior point method ends.

Max-min fairness only determines the shares of the worst-off job. The published code solves it with an
interior point method (ECOS), which ends near the analytic centre of all optima: the one with the largest
product of all shares and of all slacks of time, GPUs and levels. Here it is found by following the same path,
so that published completion times can be compared. Similar jobs have equal shares there, so a group counts
for as many factors as it has jobs.

This is only for comparisons: the centre gives a job time on models where it does little, and is not
Pareto-efficient. The path is that of S. Wright, "Primal-Dual Interior-Point Methods", SIAM 1997, chapter 5.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scheduler.core.solvers.errors import SolverError
from scheduler.core.solvers.instance import Floats
from scheduler.core.solvers.polytope import Polytope

#: The product of each slack and its price where the path ends; ECOS stops at about the same.
END = 1e-8
#: The factor by which each step aims nearer to the end, and the largest part of the way to the boundary.
NEARER, BOUNDARY = 0.2, 0.95
#: The largest relative error of the products at the end.
CENTRED = 1e-3
MOST_STEPS = 200
#: How many factors the level itself counts for: just enough to keep it from falling below zero.
HARDLY = 1e-6


@dataclass(slots=True)
class _Point:
    """A point of the path: variables and slacks, and their prices."""

    values: Floats
    slack: Floats
    row_price: Floats
    value_price: Floats


def central_shares(polytope: Polytope, weight: Floats) -> Floats:
    """Return the central shares by column, among those with the largest least progress ÷ weight.

    `weight` is by group and positive. Raises SolverError when the path does not reach the end.
    """
    rows, upper, row_count = _rows(polytope, weight)
    value_count = np.append(polytope.size[polytope.first], HARDLY)
    reward = np.zeros(len(value_count))
    reward[-1] = 1.0
    point = _begin(polytope, rows, upper, row_count, value_count)
    for _ in range(MOST_STEPS):
        products = [
            point.slack * point.row_price / row_count,
            point.values * point.value_price / value_count,
        ]
        aim = max(END, NEARER * float(np.concatenate(products).mean()))
        length = _step(point, rows, reward, aim * row_count, aim * value_count)
        off = np.abs(point.slack * point.row_price / (END * row_count) - 1).max()
        if length == 1.0 and off < CENTRED:
            return point.values[:-1]
    raise SolverError(f"no centre was found in {MOST_STEPS} steps")


def _rows(polytope: Polytope, weight: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the matrix of all rows (GPUs, time, levels), their bounds, and how many rows each represents."""
    # SciPy takes a third of a second to load, and most runs do not need it.
    from scipy.sparse import csr_array

    use, time, progress = (
        csr_array((terms.value, (terms.row, terms.column)), (terms.rows, polytope.columns)).toarray()
        for terms in (polytope.use, polytope.time, polytope.progress)
    )
    groups, models = polytope.groups, len(polytope.gpus)
    shares = np.concatenate([use, time, -progress / weight[:, None]])
    level = np.concatenate([np.zeros(models + groups), np.ones(groups)])
    upper = np.concatenate([polytope.gpus, polytope.size, np.zeros(groups)])
    # A model without a GPU would leave no interior.
    there = np.concatenate([polytope.gpus > 0, np.ones(2 * groups, dtype=np.bool_)])
    count = np.concatenate([np.ones(models), polytope.size, polytope.size])
    return np.column_stack([shares, level])[there], upper[there], count[there]


def _begin(polytope: Polytope, rows: Floats, upper: Floats, row_count: Floats, value_count: Floats) -> _Point:
    """Return an interior point: each job has a little of each model."""
    part = 0.5 * min(
        (polytope.gpus / np.maximum(polytope.use.of(value_count[:-1]), 1e-300))[polytope.gpus > 0].min(),
        (polytope.size / polytope.time.of(value_count[:-1])).min(),
    )
    values = np.append(part * value_count[:-1], 0.0)
    least = -(rows @ values)[-polytope.groups :]
    values[-1] = 0.5 * float(least.min())
    slack = upper - rows @ values
    return _Point(values, slack, row_count / slack, value_count / values)


def _step(point: _Point, rows: Floats, reward: Floats, row_aim: Floats, value_aim: Floats) -> float:
    """Take a step towards the target on the path; return which part of the whole step was taken."""
    missing = reward - rows.T @ point.row_price + point.value_price
    row_off = row_aim / point.slack - point.row_price
    value_off = value_aim / point.values - point.value_price
    right = missing - rows.T @ row_off + value_off
    inner = (rows.T * (point.row_price / point.slack)) @ rows
    inner[np.diag_indices_from(inner)] += point.value_price / point.values
    try:
        step = _solved(inner, right)
    except np.linalg.LinAlgError as error:
        raise SolverError(f"the path to the centre was lost: {error}") from error
    slack_step = -(rows @ step)
    row_step = row_off - point.row_price / point.slack * slack_step
    value_step = value_off - point.value_price / point.values * step
    first = min(_room(point.values, step), _room(point.slack, slack_step))
    second = min(_room(point.row_price, row_step), _room(point.value_price, value_step))
    point.values = point.values + first * step
    point.slack = point.slack + first * slack_step
    point.row_price = point.row_price + second * row_step
    point.value_price = point.value_price + second * value_step
    return min(first, second)


def _solved(inner: Floats, right: Floats) -> Floats:
    """Return the step; near the end, where models are alike and rounding leaves many steps, the shortest."""
    try:
        return np.asarray(np.linalg.solve(inner, right), dtype=np.float64)
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.lstsq(inner, right)[0], dtype=np.float64)


def _room(values: Floats, step: Floats) -> float:
    """Return the largest part of a step, at most 1, that brings no value too near to zero."""
    falling = step < 0
    if not falling.any():
        return 1.0
    return float(min(1.0, BOUNDARY * (-values[falling] / step[falling]).min()))
