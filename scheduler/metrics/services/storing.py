"""Readings as agents report them, written down once each."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from nodeagent.messages import READINGS_PER_REPORT, Reading, Report
from scheduler.metrics.models import NodeMetrics, Resolution
from scheduler.metrics.selectors.buckets import (
    GPU_MEASURES,
    HOST_MEASURES,
    REPLICA_MEASURES,
    Group,
    figure_of,
)
from scheduler.nodes.models import Node

#: A clock that is right within this is believed, so that a reading that is reported twice has one time.
CLOCK_TOLERANCE_SECONDS = 5.0
#: A reading that comes later than this is not kept. No agent holds readings for so long.
OLDEST = timedelta(hours=1)
#: No node has more; whoever reports more is not believed the rest.
_GPUS_MOST = 64
_REPLICAS_MOST = 512
_IDS_BELOW = 2**63


def readings_store(node: Node, report: Report, *, at: datetime) -> None:
    """Keep the readings of a report; one that is known already changes nothing."""
    rows = [
        NodeMetrics(
            node=node,
            seconds=Resolution.READING,
            at=taken_at,
            simulated=any(gpu.simulated for gpu in reading.gpus),
            values=_values(reading),
        )
        for reading in report.readings[:READINGS_PER_REPORT]
        if (taken_at := _taken_at(reading, report.sent_at, at)) is not None
    ]
    if rows:
        NodeMetrics.objects.bulk_create(rows, ignore_conflicts=True)


def _taken_at(reading: Reading, sent_at: float | None, now: datetime) -> datetime | None:
    """Return when a reading was taken by our clock; None when that cannot be."""
    late_seconds = 0.0 if sent_at is None else now.timestamp() - sent_at
    wrong_seconds = late_seconds if abs(late_seconds) > CLOCK_TOLERANCE_SECONDS else 0.0
    try:
        taken_at = datetime.fromtimestamp(reading.at + wrong_seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    is_possible = now - OLDEST <= taken_at <= now + timedelta(seconds=CLOCK_TOLERANCE_SECONDS)
    return taken_at if is_possible else None


def _values(reading: Reading) -> dict[str, Any]:
    parts: dict[str, dict[str, Group]] = {}
    for replica in reading.replicas[:_REPLICAS_MOST]:
        if not 0 < replica.attempt < _IDS_BELOW:
            continue
        parts.setdefault(str(replica.attempt), {})[str(replica.rank)] = _group(replica, REPLICA_MEASURES)
    return {
        "host": _group(reading.host, HOST_MEASURES),
        "gpus": {str(gpu.index): _group(gpu, GPU_MEASURES) for gpu in reading.gpus[:_GPUS_MOST]},
        "parts": parts,
    }


def _group(sample: object, measures: Sequence[str]) -> Group:
    return [figure_of(getattr(sample, measure)) for measure in measures]
