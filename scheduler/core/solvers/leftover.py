"""Divide what is left over evenly where no job makes more of a GPU than another.

For jobs that run equally fast on all models, a program that maximises the sum of progress only requires that
no GPU idles, and the solver's division is arbitrary. So here every job gets equally many more GPUs (averaged
over its time), until all its time is taken or no GPU is left on the models on which it runs. What is added is
a lexicographic optimum.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from scheduler.core.solvers.instance import Flags, Floats
from scheduler.core.solvers.polytope import Polytope

#: If the jobs run on more different sets of models than this, what is left over is not divided evenly.
MOST_KINDS = 8
#: A job counts as equally fast on a model as on its best from this part of the best rate on.
ALIKE = 1 - 1e-9
#: Unions of models that allow a rise this near to the least, relatively, are used up together with that one.
NEAR = 1e-12


def is_alike_everywhere(polytope: Polytope) -> bool:
    """Return whether every job is equally fast on all models on which it runs, and no jobs are paired."""
    best = polytope.best
    return not polytope.paired.any() and bool((polytope.rate_first >= ALIKE * best[polytope.first]).all())


def evened(polytope: Polytope, lower: Floats) -> Floats | None:
    """Return the progress of a job of each group when what the floors leave over is divided evenly.

    None where it matters which job gets which GPU: where jobs are faster on one model than on another, or in
    pairs; and where they run on more than `MOST_KINDS` sets of models.
    """
    if not is_alike_everywhere(polytope):
        return None
    best = polytope.best
    runs = np.zeros((polytope.groups, len(polytope.gpus)), dtype=np.bool_)
    runs[polytope.first, polytope.model] = True
    kinds, kind = np.unique(runs, axis=0, return_inverse=True)
    if len(kinds) > MOST_KINDS:
        return None
    has = np.minimum(lower / best, 1.0) * polytope.gang
    progress: Floats = best / polytope.gang * _raised(has, polytope, kinds, kind.reshape(-1))
    return progress


def _raised(has: Floats, polytope: Polytope, kinds: Flags, kind: NDArray[np.intp]) -> Floats:
    """Return the GPUs of each job when all rise equally.

    The GPUs suffice when, for each union of the kinds' sets of models, they suffice for the jobs that run
    nowhere else (Hall).
    """
    size, gang = polytope.size, polytope.gang
    unions = np.unique(
        [
            kinds[list(some)].any(axis=0)
            for count in range(1, len(kinds) + 1)
            for some in combinations(range(len(kinds)), count)
        ],
        axis=0,
    )
    within = [~(kinds & ~models).any(axis=1)[kind] for models in unions]
    rising = np.ones(len(has), dtype=np.bool_)
    while rising.any():
        rises = []
        for models, inside in zip(unions, within, strict=True):
            left = float(polytope.gpus @ models - (size * has)[inside].sum())
            rises.append(_rise(left, (gang - has)[inside & rising], size[inside & rising]))
        rise = min(rises)
        has = np.where(rising, np.minimum(has + rise, gang), has)
        rising = rising & (has < gang)
        for reached, inside in zip(rises, within, strict=True):
            if reached <= rise * (1 + NEAR):
                rising = rising & ~inside
    return has


def _rise(left: float, room: Floats, size: Floats) -> float:
    """Return how far all rise, each as far as it has room, before nothing is left; it may be infinite."""
    order = np.argsort(room)
    room, size = room[order], size[order]
    still = np.cumsum(size[::-1])[::-1]
    # The amount used when the next job has no more room.
    used = np.cumsum(np.diff(room, prepend=0.0) * still)
    first = int(np.searchsorted(used, left))
    if first == len(room):
        return np.inf
    before = used[first - 1] if first else 0.0
    start = room[first - 1] if first else 0.0
    return float(start + max(left - before, 0.0) / still[first])
