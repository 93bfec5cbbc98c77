"""How long processes that are asked to end have until they are killed."""

from __future__ import annotations


def shorter_grace(stated: float | None, asked: float) -> float:
    """Return what counts for processes that are asked again: the shortest wins, whatever came first.

    `stated` is None for those that were not asked before. Both are seconds, or both are instants at which
    the grace ends.
    """
    return asked if stated is None else min(stated, asked)
