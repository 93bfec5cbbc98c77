"""Figures over time in one line of text."""

from __future__ import annotations

from collections.abc import Sequence

BLOCKS = "▁▂▃▄▅▆▇█"


def sparkline(
    points: Sequence[Sequence[float]], *, since: float, until: float, columns: int, highest: float
) -> str:
    """Draw means of points [Unix seconds, mean, ...] from zero to `highest`; blank where there are none."""
    sums, counts = [0.0] * columns, [0] * columns
    width = max(until - since, 1.0) / columns
    for point in points:
        column = min(max(int((point[0] - since) / width), 0), columns - 1)
        sums[column] += point[1]
        counts[column] += 1
    return "".join(
        _block(total / count, highest) if count else " " for total, count in zip(sums, counts, strict=True)
    )


def _block(value: float, highest: float) -> str:
    place = int(value / highest * len(BLOCKS)) if highest > 0 else 0
    return BLOCKS[min(place, len(BLOCKS) - 1)]
