"""Figures of one reading or of many, and how they are combined. Pure: no database, no clock.

A *figure* is None (not reported), a number (one reading), or [count, sum, least, most] of several readings. A
*group* is a list of figures, one for each measure, in the order of the tuples below; a measure that is new is
added at the end, and old groups are just shorter. A *table* is groups by some key.

However readings are put together, by minutes and then by quarters or at once, the result is the same:
readings have at most three decimals, large ones none, and rounding a sum takes away nothing but noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import zip_longest

from nodeagent import measures

Figure = float | list[float] | None
Group = list[Figure]
Table = Mapping[str, Group]

#: Fields of `nodeagent.messages.GpuSample`, HostSample and ReplicaSample. Only ever add at the end.
GPU_MEASURES = tuple(measure.name for measure in measures.GPU_MEASURES)
HOST_MEASURES = (
    "cpu_percent",
    "memory_used_bytes",
    "disk_used_bytes",
    "disk_total_bytes",
    "network_received_bytes_per_second",
    "network_sent_bytes_per_second",
    "disk_read_bytes_per_second",
    "disk_written_bytes_per_second",
)
REPLICA_MEASURES = ("cpus_used", "memory_used_bytes", "processes", "gpu_memory_bytes")

_DECIMALS = 3
#: From here on decimals mean nothing, and sums of as many readings as there are in a quarter would lose them.
_LARGE = 2.0**36
#: No machine counts higher.
_MOST = 2.0**50


def figure_of(value: float | None) -> float | None:
    """Return a reading as it is kept: rounded, and None when no machine can have such a figure."""
    if value is None or not math.isfinite(value) or not 0 <= value <= _MOST:
        return None
    return round(value, _DECIMALS if value < _LARGE else None)


def merged(figures: Iterable[Figure]) -> Figure:
    """Put the figures of one measure together."""
    known = [figure for figure in figures if figure is not None]
    if len(known) <= 1:
        return known[0] if known else None
    parts = [figure if isinstance(figure, list) else [1, figure, figure, figure] for figure in known]
    return [
        sum(part[0] for part in parts),
        round(math.fsum(part[1] for part in parts), _DECIMALS),
        min(part[2] for part in parts),
        max(part[3] for part in parts),
    ]


def merged_group(groups: Iterable[Group]) -> Group:
    return [merged(figures) for figures in zip_longest(*groups)]


def merged_table(tables: Iterable[Table]) -> dict[str, Group]:
    """Put groups of equal keys together; what is in some of the tables only is made of these alone."""
    by_key: dict[str, list[Group]] = {}
    for table in tables:
        for key, group in table.items():
            by_key.setdefault(key, []).append(group)
    return {key: merged_group(groups) for key, groups in by_key.items()}


def count_mean_least_most(figure: Figure) -> tuple[int, float, float, float] | None:
    """Return how many readings a figure is made of, their mean, the lowest and the highest; None for none."""
    if figure is None:
        return None
    if not isinstance(figure, list):
        return 1, figure, figure, figure
    count, total, least, most = figure
    return int(count), total / count, least, most


def values_of(groups: Iterable[Group], place: int) -> list[float]:
    """Return one measure of readings, from those that have it."""
    return [
        figure for group in groups if place < len(group) and isinstance(figure := group[place], int | float)
    ]
