"""The same problems once more, written down as plainly as possible: one variable per job (or two) and model.

Many instances are put into one linear program, side by side, which is quick.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import block_diag

from scheduler.core.solvers.instance import Instance
from scheduler.core.solvers.solution import Solution

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Exact:
    """A·x <= b; `speed` is job × variable in steps per second, `price` what a variable costs an hour."""

    instance: Instance
    names: list[tuple[int, int, int]]
    A: Array
    b: Array
    speed: Array
    price: Array

    @cached_property
    def fair(self) -> Array:
        """Progress: gang × throughput ÷ (throughput in proportion to the GPUs)."""
        jobs = self.instance
        return self.speed * (jobs.gang / (jobs.throughput @ jobs.gpus / jobs.gpus.sum()))[:, None]


def exact(instance: Instance) -> Exact:
    """Return the formulation of an instance of which every job runs somewhere."""
    jobs, models = instance.throughput.shape
    names = [(job, job, model) for job in range(jobs) for model in range(models)]
    colocated: dict[tuple[int, int], Array] = {}
    if instance.pairs is not None:
        table = instance.pairs
        for one, other, speeds in zip(table.first, table.second, table.throughput, strict=True):
            colocated[int(one), int(other)] = speeds
            colocated.setdefault((int(other), int(one)), speeds[::-1])
        job_class = instance.job_class.tolist()
        names += [
            (one, other, model)
            for one, other in combinations(range(jobs), 2)
            for model in range(models)
            if (job_class[one], job_class[other]) in colocated
            and instance.throughput[one, model] > 0
            and instance.throughput[other, model] > 0
        ]
    A, speed = np.zeros((models + jobs, len(names))), np.zeros((jobs, len(names)))
    price = np.zeros(len(names))
    for column, (one, other, model) in enumerate(names):
        A[model, column] = instance.gang[one]
        A[models + one, column] = A[models + other, column] = 1
        price[column] = instance.gang[one] * instance.price[model]
        if one == other:
            speed[one, column] = instance.throughput[one, model]
        else:
            both = colocated[int(instance.job_class[one]), int(instance.job_class[other])]
            speed[one, column], speed[other, column] = both[0, model], both[1, model]
    return Exact(instance, names, A, np.concatenate([instance.gpus, np.ones(jobs)]), speed, price)


def shares_of(solution: Solution, plain: Exact) -> Array:
    """Return a solution as values of the plain variables."""
    index = {name: number for number, name in enumerate(plain.names)}
    values = np.zeros(len(plain.names))
    for job, model in np.argwhere(solution.alone > 0):
        values[index[job, job, model]] += solution.alone[job, model]
    for part in solution.shared:
        if part.alike:
            pairs = list(combinations(part.first.tolist(), 2))
        else:
            pairs = [(one, other) for one in part.first.tolist() for other in part.second.tolist()]
        for one, other in pairs:
            for model in np.flatnonzero(part.time > 0):
                values[index[min(one, other), max(one, other), model]] += part.time[model] / len(pairs)
    return values


@dataclass
class Block:
    """One linear program of many: maximise c·v under A·v <= b, v >= 0."""

    c: Array
    A: Array
    b: Array


def optima(blocks: Sequence[Block]) -> list[float]:
    """Return the optimum of each block; raises AssertionError when one has none."""
    if not blocks:
        return []
    found = linprog(
        -np.concatenate([block.c for block in blocks]),
        A_ub=block_diag([block.A for block in blocks], format="csc"),
        b_ub=np.concatenate([block.b for block in blocks]),
        method="highs-ds",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if found.status != 0 and len(blocks) > 1:
        # Hundreds side by side are quick, and once in a while too much for so small a tolerance.
        return [optima([block])[0] for block in blocks]
    assert found.status == 0, found.message
    ends = np.cumsum([len(block.c) for block in blocks])
    parts = np.split(found.x, ends[:-1])
    return [float(block.c @ values) for block, values in zip(blocks, parts, strict=True)]


def highest(plain: Exact, rows: Array, base: Array, pace: Array) -> Block:
    """Return the program: maximise z such that rows·x >= base + pace·z."""
    A = np.block([[plain.A, np.zeros((len(plain.A), 1))], [-rows, pace[:, None]]])
    c = np.zeros(A.shape[1])
    c[-1] = 1
    return Block(c, A, np.concatenate([plain.b, -base]))
