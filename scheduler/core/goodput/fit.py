"""Fit the seven parameters of a job to its measurements (Pollux, OSDI'21, section 4.1).

They minimise the root of the mean squared difference of logarithms (RMSLE) between predicted and measured
gradient times, plus the same for iterations, plus

    0.001·(γ-1)² + 0.01·((β_n/α_n)² + (β_r/α_r)²)

Where nothing was measured, the job is assumed to be as good as possible, so that it is tried:

- synchronising, over nodes or on one node, costs nothing until it was measured with two replicas, and nothing
  for each further replica until it was measured with three; until measured over nodes, it costs at least 1.1
  times there what it costs on one node;
- with a single per-GPU batch, half of the gradient's time counts as constant (α_c);
- therefore a job may have at most twice the replicas that it ever had (`most_replicas`).

The published code starts L-BFGS-B at one point in seconds, with the exact roots. These have no slope where
the fit is perfect, and neither has synchronising that computing hides, so the search stops early. Here the
search is in units of what was measured, starts where synchronising matters, and smooths the roots, less and
less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import NDArray

from scheduler.core.goodput.throughput import (
    FULL_OVERLAP,
    LEAST_SECONDS,
    NO_OVERLAP,
    Floats,
    GoodputError,
    Parameters,
    iteration_seconds,
)

Flags = NDArray[np.bool_]

#: The weights of the penalties on overlap and on a cost per further replica.
_OVERLAP_WEIGHT, _REPLICAS_WEIGHT = 1e-3, 1e-2
#: The assumed ratio of synchronising over several nodes to within one, until it is measured.
_OVER_NODES = 1.1
#: The bound of a term, as a multiple of the time that it is a part of, and of β, as a multiple of α.
_FAR = 100.0
#: How far the roots are smoothed, one search after the other.
_ROUNDINGS = (1e-1, 1e-3, 1e-5)


@dataclass(frozen=True, slots=True)
class Measurement:
    """The mean times of one way in which a job ran; each way counts once in a fit."""

    nodes: int
    replicas: int
    #: The samples of one gradient of one replica.
    local_batch: int
    #: The gradients added up before the one that synchronises.
    accumulation: int
    #: The seconds of one gradient, without synchronising.
    gradient_seconds: float
    #: The seconds of a whole iteration: gradients, synchronising, update.
    iteration_seconds: float


class _Columns:
    """Measurements as one array per field, and derived values that the search needs again and again."""

    def __init__(self, measurements: Sequence[Measurement]) -> None:
        columns: Floats = np.array([astuple(measured) for measured in measurements], dtype=np.float64).T
        self.nodes, self.replicas, self.local_batch, self.accumulation, self.gradient, self.iteration = (
            columns
        )
        self.over_nodes: Flags = (self.replicas > 1) & (self.nodes > 1)
        self.on_node: Flags = (self.replicas > 1) & (self.nodes == 1)
        self.further: Floats = np.maximum(self.replicas - 2, 0.0)
        self.log_gradient: Floats = np.log(self.gradient)
        self.log_iteration: Floats = np.log(self.iteration)


def fit(measurements: Sequence[Measurement]) -> Parameters:
    """Return the parameters that explain the measurements best; raise GoodputError for invalid measurements.

    The same measurements give the same parameters. A fit takes some hundredths of a second. Many fits at once
    should run in a process that can be ended (`building_blocks.computing`).
    """
    # SciPy takes a third of a second to load, and most processes that know this never compute with it.
    from scipy.optimize import minimize

    seen = _checked(measurements)
    units = np.array([seen.gradient.mean(), seen.gradient.mean() / seen.local_batch.mean()])
    point, free = _start(seen, units)
    least, most = _range(seen, units)
    bounds = list(zip(least[free], most[free], strict=True))
    for rounding in _ROUNDINGS:
        found = minimize(
            _objective,
            point[free],
            args=(point.copy(), free, units, rounding, seen),
            jac=True,
            bounds=bounds,
            method="L-BFGS-B",
            options={"maxiter": 1000, "maxcor": 20, "ftol": 1e-12, "gtol": 1e-9},
        )
        point[free] = found.x
    theta = np.maximum(_parameters(point, units), LEAST_SECONDS)
    if not seen.over_nodes.any():
        theta[2:4] = np.maximum(theta[2:4], _OVER_NODES * theta[4:6])
    return Parameters(*theta.tolist())


def log_error(parameters: Parameters, measurements: Sequence[Measurement]) -> float:
    """Return the RMSLE of predicted iterations; 0.1 means that they are typically a tenth off."""
    seen = _checked(measurements)
    predicted = iteration_seconds(parameters, seen.nodes, seen.replicas, seen.local_batch, seen.accumulation)
    return math.sqrt(((np.log(predicted) - np.log(seen.iteration)) ** 2).mean())


def most_replicas(measurements: Sequence[Measurement]) -> int:
    """Return how many replicas a job may have: twice the most that it had, or one if it never ran."""
    return 2 * max((measurement.replicas for measurement in measurements), default=0) or 1


def _checked(measurements: Sequence[Measurement]) -> _Columns:
    if not measurements:
        raise GoodputError("measurements: there are none, and a fit needs at least one")
    for number, measured in enumerate(measurements):
        wrong = _problem(measured)
        if wrong:
            raise GoodputError(f"measurements[{number}].{wrong}")
    return _Columns(measurements)


def _problem(measured: Measurement) -> str | None:
    """Return which field is wrong, how, and what would be right."""
    if not 1 <= measured.nodes <= measured.replicas:
        return f"nodes: {measured.nodes} with {measured.replicas} replicas; it must be from 1 to their number"
    if measured.local_batch < 1:
        return f"local_batch: {measured.local_batch}; it must be at least 1"
    if measured.accumulation < 0:
        return f"accumulation: {measured.accumulation}; it must not be negative"
    for field in ("gradient_seconds", "iteration_seconds"):
        seconds = getattr(measured, field)
        if not LEAST_SECONDS <= seconds < math.inf:
            return f"{field}: {seconds}; it must be a number of seconds, at least {LEAST_SECONDS:g}"
    return None


def _range(seen: _Columns, units: Floats) -> tuple[Floats, Floats]:
    """Return the least and the most values of a point.

    No term may take much longer than the time that it is a part of. So no absurd measurement leads the search
    beyond the range of numbers.
    """
    lowest, highest = math.log(LEAST_SECONDS), math.log(_FAR * seen.iteration.max())
    longest = np.array([seen.gradient.max(), (seen.gradient / seen.local_batch).max()])
    computing = _FAR * np.maximum(longest, LEAST_SECONDS)
    least = np.array([*LEAST_SECONDS / units, lowest, 0.0, lowest, 0.0, NO_OVERLAP])
    most = np.array([*computing / units, highest, _FAR, highest, _FAR, FULL_OVERLAP])
    return least, most


def _start(seen: _Columns, units: Floats) -> tuple[Floats, Flags]:
    """Return the point where the search starts, and which of the seven values it searches.

    A point has α_c and β_c in units, then ln α and β/α over nodes and on one node, then γ.
    """
    lowest = math.log(LEAST_SECONDS)
    point = np.array([0.5, 0.5, lowest, 0.0, lowest, 0.0, NO_OVERLAP])
    free = np.ones(7, dtype=np.bool_)
    free[0] = np.unique(seen.local_batch).size > 1
    for place, link in ((2, seen.over_nodes), (4, seen.on_node)):
        free[place], free[place + 1] = link.any(), (link & (seen.replicas > 2)).any()
        if free[place]:
            point[place] = math.log(0.5 * seen.iteration[link].mean())
        if free[place + 1]:
            point[place + 1] = 0.1
    free[6] = free[2] or free[4]
    return point, free


def _parameters(point: Floats, units: Floats) -> Floats:
    compute, each, over_nodes, over_nodes_each, on_node, on_node_each, overlap = point.tolist()
    over_nodes, on_node = math.exp(over_nodes), math.exp(on_node)
    return np.array(
        [
            compute * units[0],
            each * units[1],
            over_nodes,
            over_nodes * over_nodes_each,
            on_node,
            on_node * on_node_each,
            overlap,
        ]
    )


def _objective(
    values: Floats,
    point: Floats,
    free: Flags,
    units: Floats,
    rounding: float,
    seen: _Columns,
) -> tuple[float, Floats]:
    """Return the value that is minimised, and its slope in the values that are searched."""
    point[free] = values
    alpha, beta, over_nodes, over_nodes_each, on_node, on_node_each, overlap = _parameters(point, units)
    further = seen.further
    gradient = alpha + beta * seen.local_batch
    over, on = over_nodes + over_nodes_each * further, on_node + on_node_each * further
    synchronisation = np.where(seen.over_nodes, over, np.where(seen.on_node, on, LEAST_SECONDS))
    log_gradient, log_sync = np.log(gradient), np.log(synchronisation)
    # ln T_step, and the part of the gradient in it: its slope by ln T_grad.
    apart = log_gradient - log_sync
    shorter = np.exp(-overlap * np.abs(apart))
    log_step = np.maximum(log_gradient, log_sync) + np.log1p(shorter) / overlap
    part = np.where(apart >= 0, 1.0, shorter) / (1.0 + shorter)
    step = np.exp(log_step)
    iteration = seen.accumulation * gradient + step
    # The part of the last step in the iteration.
    last = step / iteration
    error, by_gradient = _rounded_root(log_gradient - seen.log_gradient, rounding)
    error_of_iterations, by_iteration = _rounded_root(np.log(iteration) - seen.log_iteration, rounding)
    by_last = by_iteration * last
    by_gradient = (by_gradient + by_iteration + by_last * (part - 1.0)) / gradient
    by_sync = by_last * (1.0 - part)
    by_overlap = by_last @ (log_sync + part * apart - log_step) / overlap
    over_by, on_by = by_sync * seen.over_nodes, by_sync * seen.on_node
    slope = np.array(
        [
            by_gradient.sum() * units[0],
            by_gradient @ seen.local_batch * units[1],
            over_by.sum(),
            over_by @ (further / (1.0 + point[3] * further)) + 2 * _REPLICAS_WEIGHT * point[3],
            on_by.sum(),
            on_by @ (further / (1.0 + point[5] * further)) + 2 * _REPLICAS_WEIGHT * point[5],
            by_overlap + 2 * _OVERLAP_WEIGHT * (overlap - 1),
        ]
    )
    penalty = _OVERLAP_WEIGHT * (overlap - 1) ** 2 + _REPLICAS_WEIGHT * (point[3] ** 2 + point[5] ** 2)
    return error + error_of_iterations + penalty, slope[free]


def _rounded_root(differences: Floats, rounding: float) -> tuple[float, Floats]:
    """Return the root of the mean square and its slope in each difference, smoothed at 0."""
    root = math.sqrt(differences @ differences / differences.size + rounding**2)
    return root, differences / (differences.size * root)
