"""Compute the worth of a batch, and the best batch for an allocation (Pollux, OSDI'21, section 3).

The larger the batch, the less each sample in it advances training. With the squared norm sqr of the gradient
and its variance var at the initial batch M0, φ = M0·var/sqr is the gradient noise scale, and

    efficiency(M) = (φ + M0) / (φ + M)      1 at M0, then falling
    goodput = throughput · efficiency       samples per second, in samples at the initial batch

For an allocation, 50 batches are tried, from the smallest allowed to the largest, each larger than the one
before by the same factor. Each is divided into as few gradients as fit. One rule is stricter than in the
published code: where equal parts have to be rounded up, the batch still stays within the allowed size. If
none of the 50 is possible, as when the batch must not change, the smallest batch is divided into more and
more gradients, 64 ways. If none of these is possible either, the goodput is 0: a batch of 128 on three GPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from scheduler.core.goodput.throughput import (
    Floats,
    GoodputError,
    Ints,
    Numbers,
    Parameters,
    iteration_seconds,
    throughput,
)

#: The number of batches that are tried for an allocation.
_BATCHES = 50
#: The number of ways that are tried to divide a batch that must hardly change.
_DIVISIONS = 64
#: A value less than this above a whole number counts as that number.
_ROUNDING = 1e-8
#: How many allocations are computed together; this many fit into the processor's cache.
_TOGETHER = 1024


class Noise(NamedTuple):
    """Squared norm and variance of the gradient at the initial batch, in one unit; negative counts as 0."""

    squared_norm: float
    variance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The bounds of a job's whole batch, which is at least the initial one, and of one gradient on a GPU."""

    initial_batch: int
    max_batch: int
    min_local_batch: int = 1
    max_local_batch: int

    def __post_init__(self) -> None:
        if not 1 <= self.initial_batch <= self.max_batch:
            raise GoodputError(
                f"max_batch: {self.max_batch} with an initial batch of {self.initial_batch}; "
                "it must be at least that, and that at least 1"
            )
        if not 1 <= self.min_local_batch <= self.max_local_batch:
            raise GoodputError(
                f"max_local_batch: {self.max_local_batch} with at least {self.min_local_batch}; "
                "it must be at least that, and that at least 1"
            )


def efficiency(noise: Noise | tuple[Floats, Floats], initial_batch: Numbers, batch: Numbers) -> Numbers:
    """Return the worth of a sample in such a batch, in samples at the initial one: above 0, at most 1."""
    sqr, var = (np.maximum(estimate, 0.0) for estimate in noise)
    # Where gradients are too small to be distinguished from 0, an iteration counts as an iteration.
    sqr = np.where(sqr + var > 0, sqr, 1.0)
    return (var + sqr) / (var + sqr * (np.asarray(batch) / initial_batch))


class Best(NamedTuple):
    """The best batch for allocations: arrays of one shape. Where none is possible, all three are 0."""

    goodput: Floats
    local_batch: Ints
    accumulation: Ints


@dataclass(frozen=True, slots=True)
class GoodputModel:
    """How a job's progress follows from its GPUs: parameters of speed, noise, and limits of the batch."""

    parameters: Parameters
    noise: Noise
    limits: Limits

    def __post_init__(self) -> None:
        for name, values in (("parameters", self.parameters), ("noise", self.noise)):
            if not np.isfinite(values).all():
                raise GoodputError(f"{name}: {tuple(values)}; they must be finite numbers")

    def goodput(
        self, nodes: Numbers, replicas: Numbers, local_batch: Numbers, accumulation: Numbers
    ) -> Numbers:
        """Return samples per second, in samples at the initial batch; the batch must be at least that."""
        batch = np.asarray(replicas) * local_batch * (np.asarray(accumulation) + 1)
        speed = throughput(self.parameters, nodes, replicas, local_batch, accumulation)
        return speed * efficiency(self.noise, self.limits.initial_batch, batch)

    def best(self, nodes: Numbers, replicas: Numbers) -> Best:
        """Return the best batch for each allocation, in the broadcast shape of the arguments."""
        nodes, replicas = np.broadcast_arrays(nodes, replicas)
        flat = best_batches([self], np.zeros(nodes.size, dtype=np.int64), nodes.ravel(), replicas.ravel())
        return Best(*(values.reshape(nodes.shape) for values in flat))


@dataclass(frozen=True, slots=True)
class _Allocations:
    """Allocations with the facts of their jobs, as columns: n × 1, to broadcast with n × batches."""

    theta: Floats
    noise: tuple[Floats, Floats]
    initial: Floats
    largest: Floats
    min_local: Floats
    max_local: Floats
    nodes: Floats
    replicas: Floats

    def part(self, rows: slice | Ints) -> _Allocations:
        sqr, var = self.noise
        return _Allocations(
            self.theta[:, rows],
            (sqr[rows], var[rows]),
            self.initial[rows],
            self.largest[rows],
            self.min_local[rows],
            self.max_local[rows],
            self.nodes[rows],
            self.replicas[rows],
        )


def best_batches(models: Sequence[GoodputModel], job: Ints, nodes: Ints, replicas: Ints) -> Best:
    """Return the best batch for each allocation: `replicas[i]` on `nodes[i]` of the job `models[job[i]]`.

    Raises GoodputError where there are fewer replicas than nodes.
    """
    if not np.all((nodes >= 1) & (replicas >= nodes)):
        raise GoodputError("nodes: each allocation must have at least one, and as many replicas or more")
    found = Best(np.zeros(job.size), np.zeros(job.size, dtype=np.int64), np.zeros(job.size, dtype=np.int64))
    if not job.size:
        return found
    allocations = _columns(models, job, nodes, replicas)
    for begin in range(0, job.size, _TOGETHER):
        rows = slice(begin, begin + _TOGETHER)
        for all_of_them, some in zip(found, _best_of(allocations.part(rows)), strict=True):
            all_of_them[rows] = some
    return found


def _columns(models: Sequence[GoodputModel], job: Ints, nodes: Ints, replicas: Ints) -> _Allocations:
    theta = np.array([model.parameters for model in models]).T[:, job, None]
    sqr, var = np.array([model.noise for model in models]).T[:, job, None]
    limits = [
        (each.initial_batch, each.max_batch, each.min_local_batch, each.max_local_batch)
        for each in (model.limits for model in models)
    ]
    initial, largest, min_local, max_local = np.array(limits, dtype=np.float64).T[:, job, None]
    return _Allocations(
        theta,
        (sqr, var),
        initial,
        largest,
        min_local,
        max_local,
        nodes[:, None].astype(np.float64),
        replicas[:, None].astype(np.float64),
    )


def _best_of(allocations: _Allocations) -> Best:
    best = _choose(allocations, *_growing(allocations))
    narrow = np.flatnonzero(best.goodput == 0)
    if narrow.size:
        some = allocations.part(narrow)
        for all_of_them, found in zip(best, _choose(some, *_dividing(some)), strict=True):
            all_of_them[narrow] = found
    return best


def _growing(allocations: _Allocations) -> tuple[Floats, Floats]:
    """Return per-GPU batch and accumulation of batches of growing size."""
    smallest: Floats = np.maximum(allocations.initial, allocations.min_local * allocations.replicas)
    factor = np.maximum(allocations.largest / smallest, 1.0)
    local = smallest * factor ** np.linspace(0.0, 1.0, _BATCHES) / allocations.replicas
    gradients: Floats = np.maximum(np.ceil(local / allocations.max_local - _ROUNDING), 1.0)
    # A single gradient does not show the noise, so a larger batch on one GPU needs at least two.
    alone = (allocations.replicas == 1) & (local > allocations.initial + _ROUNDING)
    gradients = np.where(alone, np.maximum(gradients, 2.0), gradients)
    rounded_up = np.ceil(local / gradients - _ROUNDING)
    local_batch: Floats = np.minimum(rounded_up, allocations.largest // (allocations.replicas * gradients))
    return local_batch, gradients - 1.0


def _dividing(allocations: _Allocations) -> tuple[Floats, Floats]:
    """Return the same for the smallest batch with each number of gradients, for narrow limits."""
    local = np.maximum(allocations.initial / allocations.replicas, allocations.min_local)
    gradients: Floats = np.ceil(local / allocations.max_local - _ROUNDING) + np.arange(_DIVISIONS)
    smallest = np.ceil(allocations.initial / (allocations.replicas * gradients))
    local_batch: Floats = np.maximum(smallest, allocations.min_local)
    larger_alone = (allocations.replicas == 1) & (gradients == 1) & (local_batch > allocations.initial)
    local_batch[larger_alone] = 0.0
    return local_batch, gradients - 1.0


def _choose(allocations: _Allocations, local_batch: Floats, accumulation: Floats) -> Best:
    """Return the best of n × c batches for each allocation; among equally good ones, the first."""
    batch = allocations.replicas * local_batch * (accumulation + 1.0)
    possible = (allocations.initial <= batch) & (batch <= allocations.largest)
    possible &= (allocations.min_local <= local_batch) & (local_batch <= allocations.max_local)
    seconds = iteration_seconds(
        allocations.theta, allocations.nodes, allocations.replicas, local_batch, accumulation
    )
    worth = efficiency(allocations.noise, allocations.initial, np.maximum(batch, allocations.initial))
    goodput = np.where(possible, batch / seconds * worth, 0.0)
    rows, chosen = np.arange(len(goodput)), goodput.argmax(axis=1)
    found = goodput[rows, chosen]
    return Best(
        found,
        np.where(found > 0, local_batch[rows, chosen], 0).astype(np.int64),
        np.where(found > 0, accumulation[rows, chosen], 0).astype(np.int64),
    )
