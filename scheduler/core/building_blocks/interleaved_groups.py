"""Groups of jobs that share GPUs by turns, from rounds of matching by how busy they keep the resources.

Y. Zhao et al., "Multi-Resource Interleaving for Deep Learning Training" (Muri), SIGCOMM 2022, section 4.2:
jobs of equal shape are paired by a maximum-weight matching, pairs are paired again, and only as many as
needed for all groups to fit. Shapes are merged in the order of their first jobs by priority, as in the
published simulator, and not by least waste. Among many pairs that are alike, those nearest in priority come
first.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from scheduler.core.building_blocks.matching import pairs_of_most_weight
from scheduler.core.perf.interleaving import PLACES, Floats, Stages, cycles_seconds

J = TypeVar("J")
Shape = TypeVar("Shape", bound=Hashable)

#: The most jobs of a group, and the most rounds of matching.
LARGEST_GROUP = 4
#: The efficiency that a pair loses for each place between its two in the order of priority.
_NEARER = 1e-6


def grouped(
    jobs: Mapping[Shape, Sequence[J]],
    gpus_of: Callable[[Shape], int],
    stages_of: Callable[[J], Stages],
    gpus: int,
    *,
    largest: int = LARGEST_GROUP,
    least_efficiency: float = 0.0,
    may_share: Callable[[Sequence[J]], bool] | None = None,
) -> list[tuple[J, ...]]:
    """Return jobs, by shape in order of priority, in groups that need at most `gpus` GPUs if possible.

    No job is grouped where all fit alone. A merger to n jobs must be as efficient as `least_efficiency` times
    n / 4, and `may_share` may forbid it.
    """
    groups: dict[Shape, list[tuple[J, ...]]] = {
        shape: [(job,) for job in each] for shape, each in jobs.items()
    }
    needed = sum([gpus_of(shape) * len(each) for shape, each in groups.items()])
    for _ in range(largest):
        if needed <= gpus:
            break
        for shape, each in groups.items():
            size = gpus_of(shape)
            if needed > gpus and len(each) > 1:
                weights = _weights(each, stages_of, largest, least_efficiency)
                if may_share is not None:
                    _forbid(weights, each, may_share)
                merged = _merged(each, weights, most=-(-(needed - gpus) // size))
                needed -= size * (len(each) - len(merged))
                groups[shape] = merged
    return [group for each in groups.values() for group in each]


def _weights(
    groups: Sequence[tuple[J, ...]], stages_of: Callable[[J], Stages], largest: int, least: float
) -> Floats:
    """Return the weight of merging each two groups; 0: they cannot be merged."""
    kinds: dict[tuple[Stages, ...], int] = {}
    numbers = [
        kinds.setdefault(tuple(sorted([stages_of(job) for job in group])), len(kinds)) for group in groups
    ]
    by_size: dict[int, list[int]] = {}
    for kind, number in kinds.items():
        by_size.setdefault(len(kind), []).append(number)
    stages = list(kinds)
    worth = np.zeros((len(kinds), len(kinds)))
    for one, ones in by_size.items():
        for other, others in by_size.items():
            if one <= other and one + other <= largest:
                rows, columns = np.indices((len(ones), len(others))).reshape(2, -1)
                if one == other:
                    rows, columns = np.triu_indices(len(ones))
                left = np.array([stages[number] for number in ones])[rows]
                right = np.array([stages[number] for number in others])[columns]
                both = np.concatenate([left, right], axis=1)
                busy = both.sum(axis=(1, 2)) / (cycles_seconds(both) * PLACES)
                busy = np.where(busy > least * (one + other) / PLACES, busy, 0.0)
                first, second = np.array(ones)[rows], np.array(others)[columns]
                worth[first, second] = worth[second, first] = busy
    places = np.arange(len(groups))
    weights = worth[np.ix_(numbers, numbers)]
    apart = np.abs(places[:, None] - places[None, :]) * _NEARER
    weights = np.where(weights > 0, weights - apart, 0.0)
    np.fill_diagonal(weights, 0.0)
    return weights


def _forbid(
    weights: Floats, groups: Sequence[tuple[J, ...]], may_share: Callable[[Sequence[J]], bool]
) -> None:
    for one, other in np.argwhere(np.triu(weights) > 0).tolist():
        if not may_share((*groups[one], *groups[other])):
            weights[one, other] = weights[other, one] = 0.0


def _merged(groups: Sequence[tuple[J, ...]], weights: Floats, most: int) -> list[tuple[J, ...]]:
    """Return the groups, with at most `most` pairs of them merged, in the order of the later of each pair in
    priority.
    """
    mate = dict[int, int]()
    for one, other in pairs_of_most_weight(weights):
        mate[one], mate[other] = other, one
    merged: list[tuple[J, ...]] = []
    for place, group in enumerate(groups):
        other_place = mate.get(place)
        if other_place is None:
            merged.append(group)
        elif other_place < place:
            if most > 0:
                merged.append((*groups[other_place], *group))
                most -= 1
            else:
                merged += [groups[other_place], group]
    return merged
