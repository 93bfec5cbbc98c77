"""How long an iteration takes for jobs that share GPUs by turns, each using a different resource at a time.

Y. Zhao et al., "Multi-Resource Interleaving for Deep Learning Training" (Muri), SIGCOMM 2022, section 4, as
in the published simulator (Rivendile/Muri): three stages on a wheel of four places. Storage and preprocessing
has two of them, the GPU and the network one each. A pair may also take turns of two phases, one job on
storage while the other is on the GPU and the network. The contention that the authors measured comes on top.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Seconds of an iteration on storage and CPUs, on the GPU, and on the network.
Stages = tuple[float, float, float]

PLACES = 4
#: How many times as long an iteration alone on its GPUs takes in the authors' framework as outside of it.
ALONE = 1.015
#: By jobs in a group: how many times as long an iteration takes as its stages suggest (the authors' figures).
CONTENTION = {2: 1.33 / ALONE, 3: 1.5 / ALONE, 4: 1.37 / ALONE}
#: The wheel turns at most this often; two successive times this near to each other count as settled.
_TURNS = 2
_SETTLED = 1e-3


def cycle_seconds(stages: Sequence[Stages]) -> float:
    """Return the time in which two to four jobs each do an iteration, in their best order."""
    return _cycle_seconds(tuple(sorted(stages)))


def efficiency(stages: Sequence[Stages]) -> float:
    """Return the part of the time in which the resources of a group are busy, including contention."""
    return _efficiency(tuple(sorted(stages)))


def cycles_seconds(groups: Floats) -> Floats:
    """Return `cycle_seconds` of many groups of one size at once, from shape (..., jobs, 3) to (...)."""
    jobs = groups.shape[-2]
    best = np.full(groups.shape[:-2], np.inf)
    orders = [(0, *rest) for rest in itertools.permutations(range(1, jobs))]
    if jobs < PLACES:
        orders = list(itertools.permutations(range(jobs)))
    # On a full wheel it does not matter which job comes first.
    for order in orders:
        best = np.minimum(best, _turns_seconds([groups[..., job, :] for job in order]))
    if jobs == 2:
        one, other = groups[..., 0, :], groups[..., 1, :]
        two_phases = np.maximum(one[..., 0], other[..., 1] + other[..., 2])
        best = np.minimum(best, two_phases + np.maximum(other[..., 0], one[..., 1] + one[..., 2]))
    return best * CONTENTION[jobs]


def speed_in_group(own: Stages, others: Sequence[Stages]) -> float:
    """Return the speed of a job that takes turns with up to three others, relative to alone; 1 at most."""
    return min(1.0, sum(own) / cycle_seconds([own, *others]))


@lru_cache(maxsize=1_000_000)
def _efficiency(stages: tuple[Stages, ...]) -> float:
    return sum([sum(each) for each in stages]) / (_cycle_seconds(stages) * PLACES)


@lru_cache(maxsize=1_000_000)
def _cycle_seconds(stages: tuple[Stages, ...]) -> float:
    best = min([_turn_seconds(order) for order in itertools.permutations(stages)])
    if len(stages) == 2:
        one, other = stages
        best = min(best, max(one[0], other[1] + other[2]) + max(other[0], one[1] + one[2]))
    return best * CONTENTION[len(stages)]


def _turn_seconds(order: Sequence[Stages]) -> float:
    """Return how long a turn of the wheel takes with the jobs in this order, once the time has settled."""
    done = [0.0] * (PLACES * _TURNS + 1)
    for step in range(PLACES * _TURNS):
        network, gpu, storage = [(step + ahead) % PLACES for ahead in (1, 2, 3)]
        if network < len(order):
            done[step + 1] = max(done[step + 1], done[step] + order[network][2])
        if gpu < len(order):
            done[step + 1] = max(done[step + 1], done[step] + order[gpu][1])
        if step and storage < len(order):
            done[step + 1] = max(done[step + 1], done[step - 1] + order[storage][0])
        if step >= PLACES:
            now, before = done[step + 1] - done[step - 3], done[step] - done[step - 4]
            if now > 0 and math.isclose(now, before, rel_tol=_SETTLED):
                return now
    return done[-1] - done[-1 - PLACES]


def _turns_seconds(order: Sequence[Floats]) -> Floats:
    """Return `_turn_seconds` of many groups at once; `order[0]` has the stages of each first job."""
    shape = order[0].shape[:-1]
    done = [np.zeros(shape) for _ in range(PLACES * _TURNS + 1)]
    answer, is_settled = np.zeros(shape), np.zeros(shape, dtype=bool)
    for step in range(PLACES * _TURNS):
        network, gpu, storage = [(step + ahead) % PLACES for ahead in (1, 2, 3)]
        ready = done[step + 1]
        if network < len(order):
            ready = np.maximum(ready, done[step] + order[network][..., 2])
        if gpu < len(order):
            ready = np.maximum(ready, done[step] + order[gpu][..., 1])
        if step and storage < len(order):
            ready = np.maximum(ready, done[step - 1] + order[storage][..., 0])
        done[step + 1] = ready
        if step >= PLACES:
            now, before = ready - done[step - 3], done[step] - done[step - 4]
            is_near = np.abs(now - before) <= _SETTLED * np.maximum(np.abs(now), np.abs(before))
            fresh = ~is_settled & (now > 0) & is_near
            answer, is_settled = np.where(fresh, now, answer), is_settled | fresh
    return np.where(is_settled, answer, done[-1] - done[-1 - PLACES])
