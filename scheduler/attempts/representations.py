"""Attempts as whole objects of the API: REST answers and the live stream send these."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from nodeagent.messages import Turn, weakest_enforcement
from scheduler.attempts.models import Attempt, AttemptPart
from scheduler.attempts.selectors import time_slices_of
from scheduler.representation import Representation, iso


def attempts(ids: Iterable[int]) -> list[Representation]:
    """Return attempts with the GPUs of each node."""
    ids = list(ids)
    found = attempts_by_id(Attempt.objects.select_related("allocation").filter(id__in=ids))
    return [found[attempt_id] for attempt_id in ids if attempt_id in found]


def attempts_by_id(rows: Iterable[Attempt]) -> dict[int, Representation]:
    by_id = {attempt.id: attempt for attempt in rows}
    placements, turns = _placements_of(by_id), time_slices_of(by_id.values())
    return {
        attempt_id: _attempt(attempt, placements[attempt_id], turns.get(attempt_id))
        for attempt_id, attempt in by_id.items()
    }


# Rounds start thousands of attempts at once and tell of thousands of GPUs: their rows are read as they are,
# which costs a third of what model instances do.
def _placements_of(attempt_ids: Collection[int]) -> dict[int, list[Representation]]:
    found: dict[int, list[Representation]] = defaultdict(list)
    rows = AttemptPart.objects.filter(attempt_id__in=attempt_ids).order_by("attempt_id", "node__name")
    for part in rows.values("attempt_id", "node_id", "node__name", "state", "replicas", "enforcement"):
        found[part["attempt_id"]].append(_part(part))
    return found


def _attempt(attempt: Attempt, placement: list[Representation], turn: Turn | None) -> Representation:
    return {
        "id": attempt.id,
        "number": attempt.number,
        "is_trial": attempt.is_trial,
        "state": attempt.state,
        "outcome": attempt.outcome,
        "gpu_model": attempt.allocation.gpu_model,
        "placement": placement,
        "turn": turn and {"index": turn.index, "count": turn.count, "seconds": turn.seconds},
        "enforcement": weakest_enforcement({part["enforcement"] for part in placement}),
        "auxiliary": _auxiliary(attempt.auxiliary),
        "exit_code": attempt.exit_code,
        "signal": attempt.signal,
        "category": attempt.category,
        "failure": attempt.failure,
        "matched_rule": attempt.matched_rule
        and {name: attempt.matched_rule[name] for name in ("name", "severity", "advice")},
        "message": attempt.message or attempt.stop_message,
        "stop_cause": attempt.stop_cause,
        "preempted_by": attempt.preempted_by,
        "lost_seconds": attempt.lost_seconds,
        "planned_at": iso(attempt.planned_at),
        "starting_at": iso(attempt.starting_at),
        "running_at": iso(attempt.running_at),
        "stopping_at": iso(attempt.stopping_at),
        "ended_at": iso(attempt.ended_at),
        "throughput": attempt.throughput,
        "step": attempt.step,
        "total_steps": attempt.total_steps,
    }


def _auxiliary(share: Mapping[str, Any] | None) -> Representation | None:
    if share is None:
        return None
    return {
        "replicas": [
            {
                "rank": rank,
                "cpus": has[0],
                "memory_bytes": has[1],
                "proportional_cpus": fair[0],
                "proportional_memory_bytes": fair[1],
            }
            for rank, (has, fair) in enumerate(zip(share["replicas"], share["proportional"], strict=True))
        ],
        "message": share["message"],
    }


def _part(part: Mapping[str, Any]) -> Representation:
    return {
        "node": part["node__name"],
        "node_id": part["node_id"],
        "gpus": [
            {"id": gpu, "index": index} | ({"part": replica["part"]} if "part" in replica else {})
            for replica in part["replicas"]
            for gpu, index in zip(replica["gpus"], replica["gpu_indexes"], strict=True)
        ],
        "ranks": [replica["rank"] for replica in part["replicas"]],
        "state": part["state"],
        "enforcement": part["enforcement"],
    }
