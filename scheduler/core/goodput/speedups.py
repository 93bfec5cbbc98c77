"""How many times as fast as on one GPU each of many jobs makes progress, computed once for each allocation.

A search asks about the same few allocations again and again, for thousands of candidates. Goodput depends
only on the number of GPUs and on whether they are on one node or several, so there is little to remember.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from scheduler.core.goodput.batch import GoodputModel, best_batches, efficiency
from scheduler.core.goodput.throughput import Floats, GoodputError, Ints, Numbers


class Speedups:
    """Speedups of jobs, by their place in `models`, where None is a job without measurements.

    `most_replicas` is the most replicas that a caller may ask about, by job. A job that cannot run on one GPU
    is compared with the fewest that it can run on, on one node, where its speedup is their number. A job
    without measurements counts as N times as fast on N GPUs.
    """

    def __init__(self, models: Sequence[GoodputModel | None], most_replicas: Sequence[int]) -> None:
        if len(models) != len(most_replicas) or min(most_replicas, default=1) < 1:
            raise GoodputError("most_replicas: it must be a number for each model, at least 1")
        known = [job for job, model in enumerate(models) if model is not None]
        self._models = [model for model in models if model is not None]
        #: The place of a job among those whose model is known.
        self._place = np.zeros(len(models), dtype=np.int64)
        self._place[known] = np.arange(len(known))
        self._most = np.array(most_replicas, dtype=np.int64)
        # Job after job, on one node and on several, by replicas; NaN where not computed yet.
        widths = 2 * (self._most + 1)
        self._begin = np.cumsum(widths) - widths
        self._memory = np.full(int(widths.sum()), np.nan)
        jobs = np.arange(len(models))
        for nodes in (1, 2):
            self._memory[self._at(jobs, nodes, 0)] = 0.0
        for job in set(range(len(models))).difference(known):
            most = int(self._most[job])
            for nodes in (1, 2):
                self._memory[self._at(job, nodes, np.arange(most + 1))] = np.arange(most + 1)
        self._goodput_of_one = np.ones(len(models))
        self._measure(np.array(known, dtype=np.int64))

    def __call__(self, job: Numbers, nodes: Numbers, replicas: Numbers) -> Floats:
        """Return speedups in the broadcast shape of the arguments; 0 for no replicas."""
        job, nodes, replicas = np.broadcast_arrays(job, nodes, replicas)
        if np.any((replicas < 0) | (replicas > self._most[job])):
            raise GoodputError("replicas: a job must have none, or as many as `most_replicas` allows")
        at = self._at(job, nodes, replicas)
        unknown = np.isnan(self._memory[at])
        if unknown.any():
            missing, first = np.unique(at[unknown], return_index=True)
            who, where, count = (each[unknown][first] for each in (job, nodes, replicas))
            self._memory[missing] = self._goodput(who, where, count) / self._goodput_of_one[who]
        found: Floats = self._memory[at]
        return found

    def _at(self, job: Numbers, nodes: Numbers, replicas: Numbers) -> Ints:
        """Return the place of an allocation in the memory."""
        at: Ints = self._begin[job] + np.where(np.greater(nodes, 1), self._most[job] + 1, 0) + replicas
        return at

    def _goodput(self, job: Ints, nodes: Ints, replicas: Ints) -> Floats:
        return best_batches(self._models, self._place[job], nodes, replicas).goodput

    def _measure(self, known: Ints) -> None:
        """Set the goodput of one GPU for each job with a known model, or its part of the fewest's."""
        self._goodput_of_one[known] = self._goodput(known, np.ones_like(known), np.ones_like(known))
        for job in known[self._goodput_of_one[known] == 0]:
            counts = np.arange(1, self._most[job] + 1)
            goodput = self._goodput(np.full_like(counts, job), np.ones_like(counts), counts)
            fewest = int((goodput > 0).argmax())
            # A job that runs on no number of GPUs has speedup 0, whatever it is compared with.
            self._goodput_of_one[job] = goodput[fewest] / counts[fewest] or 1.0


class CurvePoint(NamedTuple):
    """A job at its best with `replicas` replicas.

    The goodput is in samples per second at the initial batch, the speedup relative to one replica; the
    efficiency is the worth of a sample.
    """

    replicas: int
    nodes: int
    goodput: float
    speedup: float
    efficiency: float
    local_batch: int
    accumulation: int


def curve(model: GoodputModel, replicas: Sequence[int], *, of_a_node: int) -> list[CurvePoint]:
    """Return a point for each number of replicas that the job can run on, in their order.

    `of_a_node` is how many replicas a node holds; more replicas are on as few nodes as possible.
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
