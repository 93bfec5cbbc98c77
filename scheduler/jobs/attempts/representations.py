"""Attempts as whole objects of the API: REST answers and the live stream send these."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from nodeagent.messages import Turn, weakest_enforcement
from scheduler.core.failures.site_rules import class_in
from scheduler.core.failures.taxonomy import CLASSES, NO_SIGNATURE
from scheduler.models.attempts import Attempt, AttemptPart
from scheduler.models.selectors.attempts import time_slices_of
from scheduler.wiring.representation import Representation
from tenants.times import iso

#: How a node begins the decisive line of a gang's rank.
_RANK = re.compile(r"Rank ([0-9]{1,9}): ")


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


def failures(ids: Iterable[int]) -> list[Representation]:
    """Return attempts that failed: the cause, the place, and what can be done about it."""
    ids = list(ids)
    rows = Attempt.objects.filter(id__in=ids).select_related(
        "allocation", "job__tenant", "job__virtual_cluster", "job__submitted_by"
    )
    nodes: dict[int, list[str]] = defaultdict(list)
    parts = AttemptPart.objects.filter(attempt_id__in=ids).order_by("node__name")
    for attempt_id, node in parts.values_list("attempt_id", "node__name"):
        nodes[attempt_id].append(node)
    found = {attempt.id: _failure(attempt, nodes[attempt.id]) for attempt in rows}
    return [found[attempt_id] for attempt_id in ids if attempt_id in found]


def _failure(attempt: Attempt, nodes: list[str]) -> Representation:
    job, rule = attempt.job, attempt.matched_rule
    failure = class_in(rule) if rule else CLASSES.get(attempt.failure, NO_SIGNATURE)
    message = attempt.message or attempt.stop_message
    rank = _RANK.match(message)
    return {
        "id": attempt.id,
        "job": job.id,
        "job_name": job.name,
        "job_state": job.state,
        "tenant": job.tenant.name,
        "virtual_cluster": job.virtual_cluster.name,
        "submitted_by": job.submitted_by.username,
        "attempt": attempt.number,
        "failure": failure.name,
        "layer": str(failure.layer),
        "says": failure.words,
        "message": message,
        "rank": int(rank[1]) if rank else None,
        "exit_code": attempt.exit_code,
        "rule": rule["name"] if rule else "",
        "advice": (rule and rule["advice"]) or failure.advice,
        "gpu_model": attempt.allocation.gpu_model,
        "nodes": nodes,
        "ended_at": iso(attempt.ended_at),
    }


# Rounds start thousands of attempts at once, with thousands of GPUs. Their rows are read as they are, which
# costs a third of what model instances do.
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
