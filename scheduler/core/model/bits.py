"""Sets of things that are numbered, as plain integers: bit n stands for the n-th thing."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache


def members(bits: int) -> Iterator[int]:
    """Yield the members of a set in ascending order."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


@lru_cache(maxsize=4096)
def listed(bits: int) -> tuple[int, ...]:
    """Return the members of a small set, such as the GPUs of a node, in ascending order."""
    return tuple(members(bits))
