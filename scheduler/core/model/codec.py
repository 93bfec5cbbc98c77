"""Snapshots and plans as bytes: stored with each round, so that it can be decided again bit for bit."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

import msgspec

from scheduler.core.model.plan import Plan, Reason
from scheduler.core.model.snapshot import JobId, Running, Snapshot

T = TypeVar("T")

_encoder = msgspec.json.Encoder(order="deterministic")
_snapshots = msgspec.json.Decoder(Snapshot)
_plans = msgspec.json.Decoder(Plan)

#: Fast rather than small: a snapshot of 10,000 jobs is encoded in every round.
COMPRESSION_LEVEL = 1


def dumps_snapshot(snapshot: Snapshot) -> bytes:
    """Return compressed JSON; equal snapshots give equal bytes."""
    running = tuple([_named(each) if each.speeds or each.joined else each for each in snapshot.running])
    return zlib.compress(_encoder.encode(replace(snapshot, running=running)), COMPRESSION_LEVEL)


def _named(running: Running) -> Running:
    """Return an allocation with its jobs' numbers as strings, which the encoder needs as keys."""
    return replace(running, speeds=_by_name(running.speeds), joined=_by_name(running.joined))  # type: ignore[arg-type]


def _by_name(values: Mapping[JobId, T]) -> dict[str, T]:
    # Sorted here: the encoder would do it too, but in time that grows with the square of their number.
    return dict(sorted((str(job), value) for job, value in values.items()))


def loads_snapshot(data: bytes) -> Snapshot:
    """Return the snapshot that `dumps_snapshot` wrote."""
    return _snapshots.decode(zlib.decompress(data))


def plan_json(plan: Plan) -> bytes:
    """Return readable JSON; equal plans give equal bytes."""
    return _encoder.encode(replace(plan, reasons=_by_name(plan.reasons), shares=_by_name(plan.shares)))  # type: ignore[arg-type]


def reasons_json(reasons: tuple[Reason, ...]) -> bytes:
    """Return a job's reasons as readable JSON, an array of objects; equal reasons give equal bytes."""
    return _encoder.encode(reasons)


def dumps_plan(plan: Plan) -> bytes:
    """Return compressed JSON; equal plans give equal bytes."""
    return zlib.compress(plan_json(plan), COMPRESSION_LEVEL)


def unstorable_views(plan: Plan) -> dict[str, str]:
    """Return the views whose part of the plan cannot be stored, and why: their policy's memory or ledger is
    not JSON.
    """
    found: dict[str, str] = {}
    for view in sorted({*plan.memory, *plan.ledger, *plan.queues}):
        part = Plan(
            round_number=plan.round_number,
            memory={view: plan.memory.get(view, {})},
            ledger={view: plan.ledger.get(view, ())},
            reasons={job: plan.reasons[job] for job in plan.queues.get(view, ()) if job in plan.reasons},
        )
        try:
            plan_json(part)
        except Exception as error:  # It may be anything.
            found[view] = f"what it remembers or says cannot be stored: {error}"
    return found


def loads_plan(data: bytes) -> Plan:
    """Return the plan that `dumps_plan` wrote."""
    return _plans.decode(zlib.decompress(data))
