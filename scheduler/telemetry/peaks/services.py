"""The predicted peaks of nodes on which guaranteed jobs lend what they do not use (docs/overcommitment.md).

Every minute the peaks are predicted by what jobs used in the last hour. Between, every few seconds, the
newest readings are compared with them: a round has to know at once when more is used than was predicted.
Where no virtual cluster lends anything, only two empty tables are read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any

from django.db import connection, transaction

from scheduler.core.model.lifecycle import AttemptState, HoldPhase, PartState
from scheduler.core.model.node_peaks import OVERCOMMIT_PREDICTED
from scheduler.core.perf.peaks import HISTORY, JobUse, predicted_peak
from scheduler.models.attempts import AttemptPart
from scheduler.models.metrics import NodePeak, PartMetrics, Resolution
from scheduler.models.virtual_clusters import Overcommitment, PeakSamples
from scheduler.telemetry.metrics.selectors.buckets import (
    REPLICA_MEASURES,
    Group,
    count_mean_least_most,
)
from scheduler.telemetry.metrics.selectors.now import newest_readings
from scheduler.telemetry.metrics.selectors.reading import Row
from scheduler.wiring.clock import database_now
from scheduler.wiring.sweeps import for_each
from tenants.housekeeping import delete_rows

_CPUS = REPLICA_MEASURES.index("cpus_used")
_MEMORY = REPLICA_MEASURES.index("memory_used_bytes")
_MINUTE = timedelta(seconds=Resolution.MINUTE)
#: Counts of days are kept for this long.
SAMPLES_KEPT = timedelta(days=90)
_COUNT = """
INSERT INTO scheduler_peaksamples (virtual_cluster_id, day, samples, exceeded) VALUES (%s, %s, %s, %s)
ON CONFLICT (virtual_cluster_id, day) DO UPDATE
SET samples = scheduler_peaksamples.samples + EXCLUDED.samples,
    exceeded = scheduler_peaksamples.exceeded + EXCLUDED.exceeded
"""

#: CPUs, and bytes of memory.
Amounts = tuple[float, float]


@dataclass(frozen=True, slots=True)
class _Part:
    """What runs of an attempt on a node, and what it asked for there."""

    id: int
    node: int
    attempt: int
    allocation: int
    guaranteed: bool
    virtual_cluster: int
    requested: Amounts


def peaks_predict(now: datetime | None = None) -> None:
    """Predict the peak of each node with guaranteed jobs that lend, and forget those of other nodes."""
    margins = dict(
        Overcommitment.objects.filter(overcommit=OVERCOMMIT_PREDICTED).values_list(
            "virtual_cluster_id", "margin"
        )
    )
    now = now or database_now()
    by_node = _parts_by_node(_nodes_lending(margins)) if margins else {}
    rows = _predicted(by_node, margins, now) if by_node else []
    with transaction.atomic():
        NodePeak.objects.exclude(node__in=list(by_node)).delete()
        NodePeak.objects.bulk_create(
            rows,
            update_conflicts=True,
            unique_fields=["node"],
            update_fields=["cpus", "memory_bytes", "allocations", "margin", "used", "measured_at"],
        )


def peaks_measure(now: datetime | None = None) -> None:
    """Put the newest readings beside the predictions, and count how often these were too low."""
    rows = {row.node_id: row for row in NodePeak.objects.select_related("node")}
    if not rows:
        return
    now = now or database_now()
    by_node, readings = _parts_by_node(rows), newest_readings(rows, now)
    counts: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    measured: list[NodePeak] = []

    def measure(row: NodePeak) -> None:
        parts = by_node[row.node_id]
        used = _used(parts, readings.get(row.node_id))
        if not used:
            return
        lenders = [part for part in parts if part.allocation in row.allocations and part.id in used]
        mine = [_capped(used[part.id], part.requested) for part in lenders]
        cpus, memory = (sum(amounts) for amounts in zip(*mine, strict=True)) if mine else (0.0, 0.0)
        kept = (
            row.cpus + row.margin * row.node.cpus,
            row.memory_bytes + row.margin * row.node.memory_bytes,
        )
        for virtual_cluster in {part.virtual_cluster for part in lenders}:
            counts[virtual_cluster][0] += 1
            counts[virtual_cluster][1] += cpus > kept[0] or memory > kept[1]
        row.cpus, row.memory_bytes = max(row.cpus, cpus), max(row.memory_bytes, memory)
        row.used, row.measured_at = _by_allocation(parts, used), now
        measured.append(row)

    for_each("the measured peak of", rows.values(), measure)
    with transaction.atomic():
        NodePeak.objects.bulk_update(measured, ["cpus", "memory_bytes", "used", "measured_at"])
        day = now.astimezone(UTC).date()
        with connection.cursor() as cursor:
            for virtual_cluster, (samples, exceeded) in sorted(counts.items()):
                cursor.execute(_COUNT, [virtual_cluster, day, samples, exceeded])


def prune_peak_samples() -> None:
    delete_rows(PeakSamples.objects.filter(day__lt=(database_now() - SAMPLES_KEPT).date()))


def _nodes_lending(virtual_clusters: Collection[int]) -> set[int]:
    """Return the nodes on which guaranteed jobs of these virtual clusters run."""
    lending = AttemptPart.objects.filter(
        attempt__state__in=[AttemptState.STARTING, AttemptState.RUNNING],
        attempt__allocation__guaranteed=True,
        attempt__allocation__phase=HoldPhase.HELD,
        attempt__allocation__virtual_cluster__in=list(virtual_clusters),
    )
    return set(lending.exclude(state=PartState.EXITED).values_list("node_id", flat=True))


def _parts_by_node(nodes: Collection[int]) -> dict[int, list[_Part]]:
    """Return what runs on these nodes and does not have to stop."""
    parts = AttemptPart.objects.filter(
        node__in=list(nodes),
        attempt__state__in=[AttemptState.STARTING, AttemptState.RUNNING],
        attempt__allocation__phase=HoldPhase.HELD,
    ).exclude(state=PartState.EXITED)
    by_node: dict[int, list[_Part]] = {node: [] for node in nodes}
    columns = (
        "id",
        "node_id",
        "attempt_id",
        "attempt__allocation_id",
        "attempt__allocation__guaranteed",
        "attempt__allocation__virtual_cluster_id",
        "cpus",
        "memory_bytes",
    )
    for part, node, attempt, allocation, guaranteed, virtual_cluster, cpus, memory in parts.order_by(
        "id"
    ).values_list(*columns):
        requested = cpus, float(memory)
        by_node[node].append(_Part(part, node, attempt, allocation, guaranteed, virtual_cluster, requested))
    return by_node


def _predicted(
    by_node: Mapping[int, Sequence[_Part]], margins: Mapping[int, float], now: datetime
) -> list[NodePeak]:
    readings = newest_readings(by_node, now)
    # Besides those that lend, parts that asked for nothing: what these use is counted nowhere else.
    looked_at = [
        part
        for part in chain.from_iterable(by_node.values())
        if _lends(part, margins) or not all(part.requested)
    ]
    minutes = _minutes(looked_at, now)
    newest_minute = max([at for known in minutes.values() for at in known], default=now)
    rows: list[NodePeak] = []

    def predict(node: int) -> None:
        parts = by_node[node]
        lenders = [part for part in parts if _lends(part, margins)]
        if not lenders:
            return
        newest = _used(parts, readings.get(node))
        histories = {
            part.id: _history(minutes[part.id], newest_minute) for part in parts if part.id in minutes
        }
        others = [part for part in parts if not _lends(part, margins)]
        peaks = [_peak(axis, lenders, others, histories, newest) for axis in (0, 1)]
        rows.append(
            NodePeak(
                node_id=node,
                cpus=peaks[0],
                memory_bytes=peaks[1],
                allocations=sorted({part.allocation for part in lenders}),
                margin=max([margins[part.virtual_cluster] for part in lenders]),
                used=_by_allocation(parts, newest),
                measured_at=now,
            )
        )

    for_each("the predicted peak of node", by_node, predict)
    return rows


def _lends(part: _Part, margins: Mapping[int, float]) -> bool:
    return part.guaranteed and part.virtual_cluster in margins


def _peak(
    axis: int,
    lenders: Iterable[_Part],
    others: Iterable[_Part],
    histories: Mapping[int, Sequence[Amounts]],
    newest: Mapping[int, Amounts],
) -> float:
    """Return the peak of CPUs (0) or memory (1), and what the parts that asked for none used at most."""
    asking: list[JobUse] = []
    unasked = 0.0
    for part in (*lenders, *others):
        own = [*histories.get(part.id, ()), *([newest[part.id]] if part.id in newest else ())]
        samples = tuple([amounts[axis] for amounts in own])
        if not part.requested[axis]:
            unasked += max(samples, default=0.0)
        elif part in lenders:
            asking.append(JobUse(request=part.requested[axis], samples=samples))
    return predicted_peak(asking) + unasked


def _minutes(parts: Sequence[_Part], now: datetime) -> dict[int, dict[datetime, Any]]:
    """Return by part the figures of each minute of the history of which something is known."""
    rows = PartMetrics.objects.filter(
        part__in=[part.id for part in parts], seconds=Resolution.MINUTE, at__gte=now - HISTORY * _MINUTE
    )
    known: dict[int, dict[datetime, Any]] = defaultdict(dict)
    for part, at, values in rows.values_list("part_id", "at", "values"):
        known[part][at] = values
    return known


def _history(minutes: Mapping[datetime, Any], newest: datetime) -> list[Amounts]:
    """Return what a part used at most in each minute until the newest, from the first that is known.

    A minute of which nothing is known was like the one before.
    """
    at, line = min(minutes), list[Amounts]()
    while at <= newest:
        line.append(_sums(minutes[at]["ranks"]) if at in minutes else line[-1])
        at += _MINUTE
    return line


def _used(parts: Iterable[_Part], reading: Row | None) -> dict[int, Amounts]:
    """Return by part what is used by a reading of the node, for parts in it."""
    known = {} if reading is None else reading.values["parts"]
    return {part.id: _sums(known[str(part.attempt)]) for part in parts if str(part.attempt) in known}


def _by_allocation(parts: Iterable[_Part], used: Mapping[int, Amounts]) -> list[list[float]]:
    together: dict[int, Amounts] = {}
    for part in parts:
        if part.id in used:
            cpus, memory = together.get(part.allocation, (0.0, 0.0))
            together[part.allocation] = cpus + used[part.id][0], memory + used[part.id][1]
    return [[allocation, *amounts] for allocation, amounts in sorted(together.items())]


def _sums(ranks: Mapping[str, Group]) -> Amounts:
    """Return the most that ranks used together; an unreported rank counts as nothing."""
    cpus, memory = 0.0, 0.0
    for group in ranks.values():
        cpus, memory = cpus + _most(group, _CPUS), memory + _most(group, _MEMORY)
    return cpus, memory


def _most(group: Group, place: int) -> float:
    known = count_mean_least_most(group[place]) if place < len(group) else None
    return 0.0 if known is None else known[3]


def _capped(used: Amounts, requested: Amounts) -> Amounts:
    return min(used[0], requested[0]), min(used[1], requested[1])
