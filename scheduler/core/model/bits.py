"""Sets of things that are numbered, as plain integers: bit n stands for the n-th thing."""

from __future__ import annotations

from collections.abc import Iterator


def members(bits: int) -> Iterator[int]:
    """Yield the members of a set in ascending order."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest
