"""Rounds as whole objects of the API."""

from collections.abc import Iterable

from scheduler.models.rounds import Round
from scheduler.wiring.representation import Representation
from scheduler.wiring.stream import OPERATORS, send, to_pages
from tenants.times import iso


def rounds(numbers: Iterable[int]) -> list[Representation]:
    """Return the rounds without their actions and without the stored snapshot."""
    numbers = list(numbers)
    by_number = Round.objects.defer("snapshot", "plan").in_bulk(numbers)
    return [_round(by_number[number]) for number in numbers if number in by_number]


def _round(row: Round) -> Representation:
    return {
        "number": row.number,
        "started_at": iso(row.started_at),
        "state": row.state,
        "degraded": row.degraded,
        "timings_ms": {
            "snapshot": round(row.snapshot_seconds * 1_000, 2),
            "decide": round(row.decide_seconds * 1_000, 2),
            "apply": round(row.apply_seconds * 1_000, 2),
        },
        "started": row.started,
        "kept": row.kept,
        "stopped": row.stopped,
        "moved": row.moved,
        "dropped": row.dropped,
        "waiting": row.waiting,
        "error": row.error,
    }


def publish_round(number: int) -> None:
    to_pages(_send_round, [number])


def _send_round(numbers: list[int]) -> None:
    objects = [
        {"kind": "round", "id": item["number"], "version": 1, "data": item} for item in rounds(numbers)
    ]
    send([((OPERATORS,), {"type": "live.objects", "objects": objects})])
