"""What running jobs do with their GPUs now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from scheduler.core.model.lifecycle import ATTEMPT_LIVE
from scheduler.jobspec.parts import IDLE_BELOW_PERCENT
from scheduler.models.attempts import Attempt, AttemptPart
from scheduler.models.metrics import NodeMetrics, Resolution
from scheduler.telemetry.metrics.selectors.buckets import GPU_MEASURES, REPLICA_MEASURES, Group, values_of
from scheduler.telemetry.metrics.selectors.idleness import GAP, idle_gpu_seconds
from scheduler.telemetry.metrics.selectors.reading import COLUMNS, Row, part_row
from scheduler.wiring.clock import database_now
from tenants.times import iso


def newest_readings(nodes: Iterable[int], now: datetime) -> dict[int, Row]:
    """Return the newest reading of each node that still reports any, by the node's id."""
    fresh = NodeMetrics.objects.filter(
        node__in=list(nodes), seconds=Resolution.READING, at__gte=now - GAP, at__lte=now + GAP
    )
    newest = fresh.order_by("node_id", "-at").distinct("node_id")
    return {node: Row(*columns) for node, *columns in newest.values_list("node_id", *COLUMNS)}


def jobs_now(job_ids: Iterable[int]) -> list[dict[str, Any]]:
    """Return what these jobs use, in their order; figures are null while nothing is known of them."""
    ids = list(job_ids)
    now = database_now()
    attempts = {
        attempt.job_id: attempt
        for attempt in Attempt.objects.filter(job__in=ids, state__in=ATTEMPT_LIVE)
        .select_related("job__tenant", "job__virtual_cluster", "allocation")
        .prefetch_related("parts__node")
    }
    nodes = {part.node_id for attempt in attempts.values() for part in attempt.parts.all()}
    readings = newest_readings(nodes, now)
    return [_represented(attempts[job], readings, now) for job in ids if job in attempts]


def _represented(attempt: Attempt, readings: dict[int, Row], now: datetime) -> dict[str, Any]:
    job, parts = attempt.job, list(attempt.parts.all())
    rows = [row for part in parts if (row := _row(part, readings)) is not None]
    if len(rows) < len(parts):
        rows = []  # A sum that lacks a node would be wrong.
    gpus = [group for row in rows for group in row.values["gpus"].values()]
    ranks = [group for row in rows for group in row.values["ranks"].values()]
    utilisation = values_of(gpus, GPU_MEASURES.index("utilisation_percent"))
    return {
        "job": job.id,
        "name": job.name,
        "tenant": job.tenant.name,
        "virtual_cluster": job.virtual_cluster.name,
        "attempt": attempt.number,
        "gpus": job.needs.amount(attempt.allocation.gpu_count),
        "gpu_model": attempt.allocation.gpu_model,
        "nodes": sorted(part.node.name for part in parts)[:64],
        "running_at": iso(attempt.running_at),
        "utilisation_percent": round(sum(utilisation) / len(utilisation), 1) if utilisation else None,
        "least_busy_percent": min(utilisation, default=None),
        "gpu_memory_used_bytes": _sum(gpus, GPU_MEASURES.index("memory_used_bytes")),
        "power_watts": _sum(gpus, GPU_MEASURES.index("power_watts")),
        "cpus_used": _sum(ranks, REPLICA_MEASURES.index("cpus_used")),
        "memory_used_bytes": _sum(ranks, REPLICA_MEASURES.index("memory_used_bytes")),
        "idle_seconds": _idle_seconds(attempt, utilisation, now),
        "simulated": any(row.simulated for row in rows),
    }


def _row(part: AttemptPart, readings: dict[int, Row]) -> Row | None:
    reading = readings.get(part.node_id)
    if reading is None or str(part.attempt_id) not in reading.values["parts"]:
        return None
    return part_row(reading, part)


def _idle_seconds(attempt: Attempt, utilisation: Sequence[float], now: datetime) -> float | None:
    # A busy attempt needs no further reading.
    if utilisation and max(utilisation) >= IDLE_BELOW_PERCENT:
        return 0.0
    return idle_gpu_seconds(attempt, now=now)


def _sum(groups: Iterable[Group], place: int) -> float | None:
    known = values_of(groups, place)
    return round(sum(known), 3) if known else None
