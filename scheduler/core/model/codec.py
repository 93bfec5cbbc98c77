"""Snapshots and plans as bytes: stored with each round, so that it can be decided again bit for bit."""

from __future__ import annotations

import zlib
from dataclasses import replace

import msgspec

from scheduler.core.model.plan import Plan, Reason
from scheduler.core.model.snapshot import Snapshot

_encoder = msgspec.json.Encoder(order="deterministic")
_snapshots = msgspec.json.Decoder(Snapshot)
_plans = msgspec.json.Decoder(Plan)

#: Fast rather than small: a snapshot of 10,000 jobs is encoded in every round.
COMPRESSION_LEVEL = 1


def dumps_snapshot(snapshot: Snapshot) -> bytes:
    """Return compressed JSON; equal snapshots give equal bytes."""
    return zlib.compress(_encoder.encode(snapshot), COMPRESSION_LEVEL)


def loads_snapshot(data: bytes) -> Snapshot:
    """Return the snapshot that `dumps_snapshot` wrote."""
    return _snapshots.decode(zlib.decompress(data))


def plan_json(plan: Plan) -> bytes:
    """Return readable JSON; equal plans give equal bytes."""
    # Sorted here: the encoder would do it too, but in time that grows with the square of those that wait.
    by_name = dict(sorted((str(job), reasons) for job, reasons in plan.reasons.items()))
    return _encoder.encode(replace(plan, reasons=by_name))  # type: ignore[arg-type]


def reasons_json(reasons: tuple[Reason, ...]) -> bytes:
    """Return a job's reasons as readable JSON, an array of objects; equal reasons give equal bytes."""
    return _encoder.encode(reasons)


def dumps_plan(plan: Plan) -> bytes:
    """Return compressed JSON; equal plans give equal bytes."""
    return zlib.compress(plan_json(plan), COMPRESSION_LEVEL)


def loads_plan(data: bytes) -> Plan:
    """Return the plan that `dumps_plan` wrote."""
    return _plans.decode(zlib.decompress(data))
