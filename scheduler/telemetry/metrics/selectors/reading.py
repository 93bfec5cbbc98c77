"""Rows of metrics as they are needed: for a node or for an attempt's part, at the resolution that
is there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet

from scheduler.models.attempts import AttemptPart
from scheduler.models.metrics import Metrics, NodeMetrics, PartMetrics, Resolution

#: How long rows of each resolution are kept.
KEPT = {
    Resolution.READING: timedelta(hours=2),
    Resolution.MINUTE: timedelta(days=2),
    Resolution.QUARTER: timedelta(days=31),
}
_COARSEST_FIRST = (Resolution.QUARTER, Resolution.MINUTE, Resolution.READING)


@dataclass(frozen=True, slots=True)
class Row:
    """Figures of one bucket, or of one reading; `values` as in `metrics.models`."""

    at: datetime
    seconds: int
    #: How many it is made of.
    readings: int
    simulated: bool
    values: dict[str, Any]

    @property
    def until(self) -> datetime:
        """When the last of its readings was taken, at the latest."""
        return self.at if self.seconds == Resolution.READING else self.at + timedelta(seconds=self.seconds)


#: Columns of a table of metrics, in the order of a row.
COLUMNS = tuple(field.name for field in fields(Row))


def finest_kept(since: datetime, now: datetime) -> Resolution:
    """Return the finest resolution that still reaches back to `since`."""
    return next(
        (resolution for resolution in Resolution if since >= now - KEPT[resolution]), Resolution.QUARTER
    )


def node_rows(
    node_id: int, *, since: datetime, until: datetime, resolution: Resolution = Resolution.QUARTER
) -> list[Row]:
    """Return a node's rows, the oldest first: of `resolution` as far as they go, of finer ones after that."""
    rows: list[Row] = []
    for finer in _from(resolution):
        known = NodeMetrics.objects.filter(node=node_id, seconds=finer)
        rows += _rows(known, since=rows[-1].until if rows else since, until=until)
    return rows


def part_rows(
    part: AttemptPart, *, since: datetime, until: datetime, resolution: Resolution = Resolution.QUARTER
) -> list[Row]:
    """Likewise the rows of an attempt on one of its nodes; their readings are taken from the node's."""
    rows: list[Row] = []
    for finer in _from(resolution):
        begin = rows[-1].until if rows else since
        if finer == Resolution.READING:
            readings = NodeMetrics.objects.filter(
                node=part.node_id, seconds=finer, values__parts__has_key=str(part.attempt_id)
            )
            rows += [part_row(row, part) for row in _rows(readings, since=begin, until=until)]
        else:
            known = PartMetrics.objects.filter(part=part, seconds=finer)
            rows += _rows(known, since=begin, until=until)
    return rows


def gpus_of(part: AttemptPart) -> set[str]:
    """Return the keys of a part's GPUs in tables of its node."""
    return {str(index) for replica in part.replicas for index in replica["gpu_indexes"]}


def part_row(reading: Row, part: AttemptPart) -> Row:
    """Return what a node's reading says of a part that ran there then."""
    indexes = gpus_of(part)
    values = {
        "gpus": {index: group for index, group in reading.values["gpus"].items() if index in indexes},
        "ranks": reading.values["parts"][str(part.attempt_id)],
    }
    return replace(reading, values=values)


def _from(resolution: Resolution) -> Iterable[Resolution]:
    return _COARSEST_FIRST[_COARSEST_FIRST.index(resolution) :]


def _rows(known: QuerySet[Metrics], *, since: datetime, until: datetime) -> list[Row]:
    chosen = known.filter(at__gte=since, at__lt=until).order_by("at")
    return [Row(*columns) for columns in chosen.values_list(*COLUMNS)]
