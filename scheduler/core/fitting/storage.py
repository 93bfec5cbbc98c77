"""The load on a node's storage, and whether the node can deliver it (decision 0093).

A node reads a data set once for all its jobs as long as its cache holds all data sets read there: what one
job has read, the others find in memory. Then only the fastest reader counts. Where the cache is too small,
each job reads for itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

#: Rates come as sums of floats.
_ROUNDING = 1e-6


class Storage(NamedTuple):
    """A node's storage: bytes a second, 0 where not stated, and bytes of cache."""

    bandwidth: float
    cache_bytes: int


class Reading(NamedTuple):
    """What a gang, or one of its replicas, reads from a data set on one node."""

    #: The data set's tenant and name.
    data: str
    size_bytes: int
    #: Bytes a second; 0: not stated.
    bandwidth: float


def merged(readings: Iterable[Reading]) -> tuple[Reading, ...]:
    """Return what the replicas of a gang read on a node together."""
    found: dict[str, Reading] = {}
    for each in readings:
        before = found.get(each.data)
        found[each.data] = (
            each
            if before is None
            else Reading(
                each.data, max(before.size_bytes, each.size_bytes), before.bandwidth + each.bandwidth
            )
        )
    return tuple(found.values())


def load(readings: Iterable[Reading], cache_bytes: int) -> float:
    """Return how many bytes a second a node reads from its storage for these gangs."""
    sizes: dict[str, int] = {}
    fastest: dict[str, float] = {}
    total = 0.0
    for each in readings:
        sizes[each.data] = max(sizes.get(each.data, 0), each.size_bytes)
        fastest[each.data] = max(fastest.get(each.data, 0.0), each.bandwidth)
        total += each.bandwidth
    return sum(fastest.values()) if sum(sizes.values()) <= cache_bytes else total


def is_fast_enough(storage: Storage, there: Sequence[Reading], more: Sequence[Reading]) -> bool:
    """Whether a node can deliver more readings beside those there, with one reading for each gang and data
    set.

    A reading that adds no load is always possible, even if the storage is overcommitted.
    """
    if not more or not storage.bandwidth:
        return True
    after = load([*there, *more], storage.cache_bytes)
    return after <= max(storage.bandwidth, load(there, storage.cache_bytes)) * (1 + _ROUNDING)


def left_after(there: Sequence[Reading], leaving: Iterable[Reading]) -> tuple[Reading, ...]:
    """Return the readings that are left when some end."""
    left = list(there)
    for each in leaving:
        if each in left:
            left.remove(each)
    return tuple(left)
