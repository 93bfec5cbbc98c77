"""Readings that agents report: stored once each, combined by minutes and quarters of an hour, removed when
old. Samples of how many GPUs each tenant holds.

The roll-up is safe to run twice, late, or at the same time as another one: a bucket that was made of another
number of readings than there are now is made again, from all of them. So readings that come late, after an
outage, are included.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from django.db import transaction
from django.db.models import Count, DateTimeField, Func, Max, Min, Q, QuerySet, Sum, TextField
from django.db.models.functions import Cast

from nodeagent.messages import READINGS_PER_REPORT, Reading, Report
from scheduler.core.fitting.fragmentation import kinds_of
from scheduler.core.model.codec import loads_snapshot
from scheduler.core.model.gpu_parts import WHOLE_GPU
from scheduler.core.model.lifecycle import HoldPhase, JobState
from scheduler.core.model.task_kind import TaskKind
from scheduler.core.round.fragmentation import ClusterFragments, KindFragments, cluster_fragments
from scheduler.jobspec.shape import shape_of
from scheduler.models.attempts import AllocatedGpu, AttemptPart
from scheduler.models.jobs import Job
from scheduler.models.metrics import FragmentationSample, NodeMetrics, PartMetrics, Resolution, UsageSample
from scheduler.models.nodes import Gpu, Node
from scheduler.models.rounds import Round
from scheduler.telemetry.metrics.selectors.buckets import (
    GPU_MEASURES,
    HOST_MEASURES,
    REPLICA_MEASURES,
    Group,
    figure_of,
    merged_group,
    merged_table,
)
from scheduler.telemetry.metrics.selectors.reading import COLUMNS, KEPT, Row, part_row
from scheduler.wiring.clock import database_now
from scheduler.wiring.stream import OPERATORS, on_commit, send
from scheduler.wiring.sweeps import for_each
from tenants.housekeeping import delete_rows
from tenants.times import iso

#: A clock that is right within this is believed, so that a reading that is reported twice has one time.
CLOCK_TOLERANCE_SECONDS = 5.0
#: A reading that comes later than this is not kept. No agent holds readings for this long.
OLDEST = timedelta(hours=1)
#: No node has more; further GPUs that a node reports are ignored.
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
    occupied: dict[str, dict[str, float | None]] = {}
    for replica in reading.replicas[:_REPLICAS_MOST]:
        if not 0 < replica.attempt < _IDS_BELOW:
            continue
        parts.setdefault(str(replica.attempt), {})[str(replica.rank)] = _group(replica, REPLICA_MEASURES)
        for index, used in list(replica.gpu_memory_by_index.items())[:_GPUS_MOST]:
            if index.isdecimal() and int(index) < _GPUS_MOST:
                occupied.setdefault(str(replica.attempt), {})[index] = figure_of(used)
    return {
        "host": _group(reading.host, HOST_MEASURES),
        "gpus": {str(gpu.index): _group(gpu, GPU_MEASURES) for gpu in reading.gpus[:_GPUS_MOST]},
        "parts": parts,
        "occupied": occupied,
    }


def _group(sample: object, measures: Sequence[str]) -> Group:
    return [figure_of(getattr(sample, measure)) for measure in measures]


_STEPS = ((Resolution.READING, Resolution.MINUTE), (Resolution.MINUTE, Resolution.QUARTER))
#: After a long outage the rest is left to the next runs.
_BUCKETS_AT_ONCE = 60

#: A node or a part, by id.
_ByOwner = dict[int, list[Row]]
_Row = TypeVar("_Row", NodeMetrics, PartMetrics)


def metrics_roll_up(now: datetime | None = None) -> None:
    """Make every complete minute and quarter that is missing, or lacks a reading."""
    now = now or database_now()
    for finer, coarser in _STEPS:
        outdated = _outdated(finer, coarser, now)
        due = sorted(outdated)[:_BUCKETS_AT_ONCE]
        for_each(f"the roll-up by {int(coarser)} s of", due, partial(_make, finer, coarser, outdated))


def metrics_prune(now: datetime | None = None) -> None:
    """Delete rows that are older than their resolution is kept, and in a coarser one if there is one."""
    now = now or database_now()
    for resolution, kept in KEPT.items():
        until = now - kept
        coarser = next((each for each in Resolution if each > resolution), None)
        if coarser is not None:
            newest = NodeMetrics.objects.filter(seconds=coarser).aggregate(newest=Max("at"))["newest"]
            until = min(until, newest or datetime.min.replace(tzinfo=UTC))
        for rows in (NodeMetrics.objects, PartMetrics.objects):
            delete_rows(rows.filter(seconds=resolution, at__lt=until))


def _outdated(finer: Resolution, coarser: Resolution, now: datetime) -> dict[datetime, list[int]]:
    """Return the nodes, by the bucket's begin, whose row is not made of all readings there are."""
    newest = NodeMetrics.objects.filter(seconds=coarser).aggregate(newest=Max("at"))["newest"]
    oldest = NodeMetrics.objects.filter(seconds=finer).aggregate(oldest=Min("at"))["oldest"]
    if oldest is None:
        return {}
    since = _begin(max(min(now - OLDEST, newest or oldest), oldest), coarser)
    window = NodeMetrics.objects.filter(at__gte=since, at__lt=_begin(now, coarser))
    made = {
        (at, node): readings
        for at, node, readings in window.filter(seconds=coarser).values_list("at", "node_id", "readings")
    }
    bucket = Func(
        "at",
        template=f"date_bin('{int(coarser)} seconds', %(expressions)s, TIMESTAMPTZ '1970-01-01 00:00+00')",
        output_field=DateTimeField(),
    )
    there = window.filter(seconds=finer).annotate(bucket=bucket).values_list("bucket", "node_id")
    outdated: dict[datetime, list[int]] = {}
    for at, node, readings in there.annotate(known=Sum("readings")).order_by():
        if made.get((at, node)) != readings:
            outdated.setdefault(at, []).append(node)
    return outdated


def _make(
    finer: Resolution, coarser: Resolution, outdated: Mapping[datetime, list[int]], at: datetime
) -> None:
    nodes = outdated[at]
    until = at + timedelta(seconds=coarser)
    by_node = _by_owner(NodeMetrics.objects.filter(seconds=finer, node__in=nodes), "node_id", at, until)
    if finer == Resolution.READING:
        by_part = _by_part(by_node)
    else:
        of_nodes = PartMetrics.objects.filter(seconds=finer, part__node__in=nodes)
        by_part = _by_owner(of_nodes, "part_id", at, until)
    _write(_merged_by_owner(NodeMetrics, "node_id", by_node, coarser, at))
    _write(_merged_by_owner(PartMetrics, "part_id", by_part, coarser, at))


def _merged_by_owner(
    kind: type[_Row], owner: str, by_owner: _ByOwner, resolution: Resolution, at: datetime
) -> list[_Row]:
    """Return the rows made of those of each node or part; one that cannot be read costs no other its row."""
    made: list[_Row] = []
    for_each(
        f"the roll-up of {owner}",
        by_owner,
        lambda own: made.append(kind(**{owner: own}, **_merged(by_owner[own], resolution, at))),
    )
    return made


def _by_owner(known: QuerySet[Any], owner: str, since: datetime, until: datetime) -> _ByOwner:
    by_owner: _ByOwner = {}
    for own, *columns in known.filter(at__gte=since, at__lt=until).values_list(owner, *COLUMNS):
        by_owner.setdefault(own, []).append(Row(*columns))
    return by_owner


def _by_part(by_node: _ByOwner) -> _ByOwner:
    """Return what readings of nodes say of the parts that ran there, by part."""
    attempts = {int(attempt) for rows in by_node.values() for row in rows for attempt in row.values["parts"]}
    parts = AttemptPart.objects.filter(attempt__in=attempts, node__in=list(by_node))
    by_part = {
        part.id: [
            part_row(row, part)
            for row in by_node[part.node_id]
            if str(part.attempt_id) in row.values["parts"]
        ]
        for part in parts
    }
    return {part: rows for part, rows in by_part.items() if rows}


def _merged(rows: list[Row], resolution: Resolution, at: datetime) -> dict[str, Any]:
    """Return the columns of a row made of these, of a node or of a part."""
    tables = [table for table in ("gpus", "ranks") if table in rows[0].values]
    values: dict[str, Any] = {table: merged_table(row.values[table] for row in rows) for table in tables}
    if "host" in rows[0].values:
        values["host"] = merged_group(row.values["host"] for row in rows)
    return {
        "seconds": resolution,
        "at": at,
        "readings": sum(row.readings for row in rows),
        "simulated": any(row.simulated for row in rows),
        "values": values,
    }


#: Jobs submitted within this time still show what is likely to come; so do older ones that have not ended.
HISTORY = timedelta(days=7)
#: The most different specifications that are read, the most frequent first.
_SHAPES_MOST = 1_000
#: Kinds of tasks that are kept of a sample, the most frequent; and nodes, the most fragmented.
_KINDS_MOST = 100
_NODES_MOST = 20
_DIGITS = 4


def _write(rows: list[_Row]) -> None:
    if rows:
        model = type(rows[0])
        owner, *_ = model._meta.pk_fields
        model.objects.bulk_create(
            rows,
            update_conflicts=True,
            unique_fields=[owner.name, "seconds", "at"],
            update_fields=["readings", "simulated", "values"],
        )


def _begin(at: datetime, resolution: Resolution) -> datetime:
    """Return when the bucket began in which an instant is."""
    seconds = int(at.timestamp())
    return datetime.fromtimestamp(seconds - seconds % resolution, UTC)


def sample_usage() -> None:
    """Write down how many GPUs each tenant holds now; a part of a GPU counts as a part."""
    held = AllocatedGpu.objects.filter(phase=HoldPhase.HELD)
    # An allocation shared by several tenants' jobs counts for the first of them.
    rows = held.order_by("allocation_id", "gpu_id", "allocation__attempts__id")
    rows = rows.distinct("allocation_id", "gpu_id")
    thousandths: Counter[str] = Counter()
    for tenant, request in rows.values_list("allocation__attempts__job__tenant__name", "request"):
        thousandths[tenant] += request
    by_tenant = {
        tenant: has / WHOLE_GPU if has % WHOLE_GPU else has // WHOLE_GPU
        for tenant, has in thousandths.items()
    }
    sample = UsageSample.objects.create(
        at=database_now(),
        total=Gpu.objects.filter(present=True).count(),
        held=held.aggregate(gpus=Count("gpu_id", distinct=True))["gpus"],
        by_tenant=by_tenant,
    )
    publish_usage(
        {
            "at": iso(sample.at),
            "total": sample.total,
            "held": sample.held,
            "by_tenant": sample.by_tenant,
        }
    )


def publish_usage(point: Mapping[str, Any]) -> None:
    """A usage sample names tenants, so only operators get it; members refetch theirs."""
    on_commit(send, [((OPERATORS,), {"type": "live.usage", "point": dict(point)})])


def sample_fragmentation() -> None:
    """Write down how fragmented the idle GPUs were when the newest round began, and what fragmented them."""
    newest = Round.objects.filter(snapshot__isnull=False).order_by("-number").first()
    if newest is None or FragmentationSample.objects.filter(at__gte=newest.started_at).exists():
        return
    facts = loads_snapshot(bytes(newest.snapshot or b""))
    found = cluster_fragments(facts, workload_counted(database_now()))
    with transaction.atomic():
        FragmentationSample.objects.filter(details__isnull=False).update(details=None)
        FragmentationSample.objects.create(
            at=newest.started_at,
            idle=round(found.idle, _DIGITS),
            fragmented=round(found.fragmented, _DIGITS),
            causes={cause.value: round(gpus, _DIGITS) for cause, gpus in found.causes.items() if gpus},
            details=_details(found),
        )


def workload_counted(now: datetime) -> list[TaskKind]:
    """Return what the jobs of the last days and those that have not ended ask for."""
    recent = Q(submitted_at__gt=now - HISTORY) | Q(state__in=[JobState.QUEUED, JobState.RUNNING])
    shapes = (
        Job.objects.filter(recent)
        .annotate(text=Cast("shape", TextField()))
        .values("text", "gpu_models")
        .annotate(jobs=Count("id"))
        .order_by("-jobs", "text", "gpu_models")[:_SHAPES_MOST]
    )
    return [
        kind
        for each in shapes
        for kind in kinds_of(shape_of(each["text"]).tasks, tuple(each["gpu_models"]), each["jobs"])
    ]


def _details(found: ClusterFragments) -> dict[str, Any]:
    return {
        "kinds": [_kind(kind, found.idle) for kind in found.kinds[:_KINDS_MOST]],
        "nodes": [
            {
                "name": node.name,
                "idle": round(node.idle, _DIGITS),
                "fragmented": round(node.fragmented, _DIGITS),
            }
            for node in found.nodes[:_NODES_MOST]
            if node.fragmented
        ],
    }


def _kind(kind: KindFragments, idle: float) -> dict[str, Any]:
    ask = kind.ask
    return {
        "gpus": ask.gpus * ask.share / 1_000,
        "cpus": ask.cpus,
        "gpu_models": sorted(ask.models),
        "frequency": round(kind.frequency, _DIGITS),
        "usable": round(max(idle - kind.unusable, 0.0), _DIGITS),
    }
