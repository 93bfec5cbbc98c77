"""Amounts of CPUs."""

from __future__ import annotations

#: CPUs are counted to six decimals; people state at most three.
_DECIMALS = 6


def canonical(cpus: float) -> float:
    """Return a sum or difference of CPUs rounded to decimals, so that none is lost: 89.1 less 5.8 is 83.3,
    enough for a job that needs 83.3.
    """
    # Whole numbers, which most are, are their own rounding.
    return round(cpus, _DECIMALS) if cpus % 1 else cpus
