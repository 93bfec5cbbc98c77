"""How long an iteration takes of jobs that share GPUs by turns, each on another resource at a time.

Muri's simulator has three stages on a wheel of four places: storage and preprocessing has two of them, the
GPU and the network one each. A pair may also take turns of two phases, one on storage while the other is on
the GPU and the network. What is measured of contention comes on top.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache

from scheduler.simulation.reproduction.muri.jobs import ALONE, Stages

PLACES = 4
#: By jobs in a group: how much longer it takes than by its stages, measured by the authors.
CONTENTION = {2: 1.33 / ALONE, 3: 1.5 / ALONE, 4: 1.37 / ALONE}
#: Two turns of the wheel are all that is tried, and two successive times as near as this are settled.
_TURNS = 2
_SETTLED = 1e-3


def cycle_seconds(stages: Sequence[Stages]) -> float:
    """Return the time in which all of two to four jobs do an iteration, in their best order."""
    return _cycle_seconds(tuple(sorted(stages)))


def efficiency(stages: Sequence[Stages]) -> float:
    """Return the part of the time in which the resources of a group are busy, contention counted in."""
    return _efficiency(tuple(sorted(stages)))


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
    """Return how long the wheel takes for a turn, the jobs in this order, once successive ones are alike."""
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
