"""How long an iteration of data-parallel training takes: seven parameters (Pollux, OSDI'21, section 3.2).

A job has K replicas, one per GPU, on N nodes. Each computes the gradient of m samples, s times to accumulate
and once more before all synchronise, so that the whole batch has M = K·m·(s+1) samples:

    T_grad = α_c + β_c·m
    T_sync = 0 for K = 1;  α_r + β_r·(K-2) on one node;  α_n + β_n·(K-2) on several
    T_step = (T_grad^γ + T_sync^γ)^(1/γ)
    T_iter = s·T_grad + T_step
    throughput = M / T_iter

Arguments are numbers, or arrays that broadcast by NumPy's rules. The parameters of several jobs are an array
with the seven parameters along its first axis, followed by axes like those of the other arguments.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.core.model.errors import SchedulingError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
#: A number, or an array of numbers.
Numbers = Any

#: The least parameter in seconds, above zero because times are compared by their logarithms.
LEAST_SECONDS = 1e-8
#: The overlap where synchronising follows computing, and where the longer of the two hides the shorter.
NO_OVERLAP, FULL_OVERLAP = 1.0, 10.0


class GoodputError(SchedulingError):
    """Measurements, limits or allocations from which no goodput can be computed."""


class Parameters(NamedTuple):
    """The parameters of the time of an iteration, in the order of the paper.

    They are α and β of computing, of synchronising over nodes, and of synchronising on one node, then γ. The
    β of synchronising are for each replica beyond the second.
    """

    compute_seconds: float
    compute_seconds_per_sample: float
    internode_seconds: float
    internode_seconds_per_replica: float
    intranode_seconds: float
    intranode_seconds_per_replica: float
    #: From 1 (synchronising follows computing) to 10 (the longer hides the shorter).
    overlap: float

    def times(self, factor: float) -> Parameters:
        """Return the parameters of a job whose every iteration takes this many times as long."""
        return Parameters._make([*(factor * seconds for seconds in self[:-1]), self.overlap])


def gradient_seconds(parameters: Parameters | Floats, local_batch: Numbers) -> Numbers:
    """Return T_grad: the time in which one replica computes the gradient of `local_batch` samples."""
    return parameters[0] + parameters[1] * local_batch


def synchronisation_seconds(parameters: Parameters | Floats, nodes: Numbers, replicas: Numbers) -> Numbers:
    """Return T_sync: the time until all replicas have the mean of their gradients."""
    _, _, over_nodes, over_nodes_each, on_node, on_node_each, _ = parameters
    further = np.maximum(np.asarray(replicas) - 2, 0)
    over_nodes, on_node = over_nodes + over_nodes_each * further, on_node + on_node_each * further
    return np.where(np.equal(replicas, 1), 0.0, np.where(np.greater(nodes, 1), over_nodes, on_node))


def step_seconds(gradient: Numbers, synchronisation: Numbers, overlap: Numbers) -> Numbers:
    """Return T_step: the last gradient of an iteration, and what it does not hide of synchronising."""
    longer = np.maximum(gradient, synchronisation)
    # Computed from their ratio, because the tenth power of a short time underflows.
    ratio = np.minimum(gradient, synchronisation) / longer
    return longer * (1.0 + ratio**overlap) ** (1.0 / overlap)


def iteration_seconds(
    parameters: Parameters | Floats,
    nodes: Numbers,
    replicas: Numbers,
    local_batch: Numbers,
    accumulation: Numbers = 0,
) -> Numbers:
    """Return T_iter. `accumulation`: gradients that each replica adds up before the one that synchronises."""
    gradient = gradient_seconds(parameters, local_batch)
    synchronisation = synchronisation_seconds(parameters, nodes, replicas)
    return accumulation * gradient + step_seconds(gradient, synchronisation, parameters[6])


def throughput(
    parameters: Parameters | Floats,
    nodes: Numbers,
    replicas: Numbers,
    local_batch: Numbers,
    accumulation: Numbers = 0,
) -> Numbers:
    """Return samples per second of the whole job."""
    batch = np.asarray(replicas) * local_batch * (np.asarray(accumulation) + 1)
    return batch / iteration_seconds(parameters, nodes, replicas, local_batch, accumulation)
