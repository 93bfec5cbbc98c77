"""Figures over time as charts need them: a number of points, each with its mean, its lowest and
its highest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple

from scheduler.models.attempts import Attempt, AttemptPart
from scheduler.models.metrics import Resolution, UsageSample
from scheduler.models.nodes import Node
from scheduler.telemetry.metrics.selectors.buckets import (
    GPU_MEASURES,
    HOST_MEASURES,
    REPLICA_MEASURES,
    Group,
    count_mean_least_most,
    merged_group,
)
from scheduler.telemetry.metrics.selectors.reading import Row, finest_kept, node_rows, part_rows
from scheduler.wiring.representation import OTHERS
from tenants.selectors import Viewer
from tenants.times import iso

#: The most rows that are read for an attempt; beyond that, its other nodes are left out.
ROWS_MOST = 50_000
#: The most GPUs or ranks in one answer.
GROUPS_MOST = 64
POINTS_MOST = 60_000
POINTS_PER_SERIES = 360
_MEASURES = {"gpu": GPU_MEASURES, "host": HOST_MEASURES, "replica": REPLICA_MEASURES}

NodeView = Literal["node", "gpu"]
JobView = Literal["attempt", "gpu", "rank"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Which time is asked for, and how finely."""

    since: datetime
    until: datetime
    resolution: Resolution

    @classmethod
    def of(cls, since: datetime, until: datetime, resolution: Resolution | None, now: datetime) -> Span:
        """The finest resolution that reaches back so far, unless one is named."""
        return cls(since=since, until=until, resolution=resolution or finest_kept(since, now))


class _Key(NamedTuple):
    """What a series is about; None: all of them together."""

    kind: Literal["gpu", "host", "replica"]
    attempt: int | None = None
    node: str | None = None
    gpu: int | None = None
    rank: int | None = None


#: Groups with the time of their row, in Unix seconds.
_Found = dict[_Key, list[tuple[float, Group]]]


def node_series(node: Node, span: Span, *, by: NodeView) -> dict[str, Any]:
    """Return the machine's figures, and those of its GPUs together or one by one."""
    rows = node_rows(node.id, since=span.since, until=span.until, resolution=span.resolution)
    found: _Found = {}
    for row in rows:
        _add(found, _Key("host"), row, row.values["host"])
        for index, group in row.values["gpus"].items():
            _add(found, _Key("gpu", gpu=int(index) if by == "gpu" else None), row, group)
    return _answer(found, span, parts_left_out=0, is_simulated=any(row.simulated for row in rows))


def job_series(
    attempts: Iterable[Attempt], span: Span, *, by: JobView, rank: int | None = None
) -> dict[str, Any]:
    """Return what the attempts used: together, or by GPU, or by rank; if asked, only for one rank."""
    parts = [
        part
        for part in AttemptPart.objects.filter(attempt__in=attempts)
        .select_related("attempt", "node")
        .order_by("-attempt__number", "id")
        if rank is None or any(replica["rank"] == rank for replica in part.replicas)
    ]
    found: _Found = {}
    read, is_simulated = 0, False
    for place, part in enumerate(parts):
        if read > ROWS_MOST:
            return _answer(found, span, parts_left_out=len(parts) - place, is_simulated=is_simulated)
        rows = part_rows(part, since=span.since, until=span.until, resolution=span.resolution)
        read += len(rows)
        is_simulated |= any(row.simulated for row in rows)
        for row in rows:
            for key, group in _groups(part, row, by=by, rank=rank):
                _add(found, key, row, group)
    return _answer(found, span, parts_left_out=0, is_simulated=is_simulated)


def _groups(part: AttemptPart, row: Row, *, by: JobView, rank: int | None) -> Iterable[tuple[_Key, Group]]:
    number, node = part.attempt.number, part.node.name
    for replica in part.replicas:
        if rank is not None and replica["rank"] != rank:
            continue
        if by != "rank":
            for index in replica["gpu_indexes"]:
                if (group := row.values["gpus"].get(str(index))) is not None:
                    yield _Key("gpu", number, *((node, index) if by == "gpu" else ())), group
        if by != "gpu" and (group := row.values["ranks"].get(str(replica["rank"]))) is not None:
            own = {"node": node, "rank": replica["rank"]} if by == "rank" else {}
            yield _Key("replica", number, **own), group


def _add(found: _Found, key: _Key, row: Row, group: Group) -> None:
    found.setdefault(key, []).append((row.at.timestamp(), group))


def _answer(found: _Found, span: Span, *, parts_left_out: int, is_simulated: bool) -> dict[str, Any]:
    chosen = sorted(found, key=_order)[:GROUPS_MOST]
    step = _step_seconds(span, sum(len(_MEASURES[key.kind]) for key in chosen))
    return {
        "since": iso(span.since),
        "until": iso(span.until),
        "resolution_seconds": step,
        "simulated": is_simulated,
        "left_out": len(found) - len(chosen) + parts_left_out,
        "series": [series for key in chosen for series in _series(key, found[key], step)],
    }


def _order(key: _Key) -> tuple[int, int, str, int]:
    """The newest attempt first, since the last ones may be left out."""
    return -(key.attempt or 0), key.rank or 0, key.node or "", -1 if key.gpu is None else key.gpu


def _step_seconds(span: Span, series: int) -> int:
    """Return a multiple of the resolution that makes few enough points."""
    seconds = (span.until - span.since).total_seconds()
    points = max(min(POINTS_PER_SERIES, POINTS_MOST // max(series, 1)), 1)
    return int(span.resolution) * max(1, -(-int(seconds) // (int(span.resolution) * points)))


def _series(key: _Key, known: list[tuple[float, Group]], step: int) -> Iterable[Mapping[str, Any]]:
    buckets: dict[int, list[Group]] = {}
    for at, group in known:
        buckets.setdefault(int(at // step) * step, []).append(group)
    merged = [(at, merged_group(groups)) for at, groups in sorted(buckets.items())]
    for place, measure in enumerate(_MEASURES[key.kind]):
        points = [
            [at, round(mean, 3), least, most, count]
            for at, group in merged
            if place < len(group) and (figures := count_mean_least_most(group[place])) is not None
            for count, mean, least, most in [figures]
        ]
        if points:
            yield {**key._asdict(), "measure": measure, "points": points}


def usage_points(viewer: Viewer, *, now: datetime, minutes: int, most: int) -> list[dict[str, Any]]:
    """Return samples of GPUs in use, evenly thinned to about `most`; other tenants' GPUs as one sum."""
    samples = UsageSample.objects.filter(at__gte=now - timedelta(minutes=minutes)).order_by("at")
    ids = list(samples.values_list("id", flat=True))
    stride = -(-len(ids) // most) if ids else 1
    mine = None if viewer.is_operator else {held.tenant for held in viewer.held}
    return [
        {
            "at": iso(sample.at),
            "total": sample.total,
            "held": sample.held,
            "by_tenant": _as_seen_by(mine, sample.by_tenant),
        }
        for sample in samples.filter(id__in=ids[::-1][::stride])
    ]


def _as_seen_by(mine: set[str] | None, by_tenant: Mapping[str, float]) -> dict[str, float]:
    if mine is None:
        return dict(by_tenant)
    seen = {name: gpus for name, gpus in by_tenant.items() if name in mine}
    others = sum(by_tenant.values()) - sum(seen.values())
    return {**seen, OTHERS: others} if others else seen
