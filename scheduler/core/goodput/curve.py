"""How fast a job is predicted to be on each number of replicas, for people to look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from scheduler.core.goodput.batch import GoodputModel, efficiency
from scheduler.core.goodput.speedups import Speedups


class CurvePoint(NamedTuple):
    """A job at its best with so many replicas: samples per second at the initial batch, how many times those
    with one replica, what a sample is worth, and the batch."""

    replicas: int
    nodes: int
    goodput: float
    speedup: float
    efficiency: float
    local_batch: int
    accumulation: int


def curve(model: GoodputModel, replicas: Sequence[int], *, of_a_node: int) -> list[CurvePoint]:
    """Return a point for each number of replicas that the job can run on, in their order.

    `of_a_node`: how many replicas a node holds; more are on as few nodes as hold them.
    """
    if not replicas:
        return []
    count = np.array(replicas, dtype=np.int64)
    nodes = -(-count // max(of_a_node, 1))
    best = model.best(nodes, count)
    speedups = Speedups([model], [max(replicas)])(0, nodes, count)
    batch = count * best.local_batch * (best.accumulation + 1)
    initial = model.limits.initial_batch
    worth = efficiency(model.noise, initial, np.maximum(batch, initial))
    columns = (count, nodes, best.goodput, speedups, worth, best.local_batch, best.accumulation)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [point for point in (CurvePoint(*row) for row in rows) if point.goodput > 0]
