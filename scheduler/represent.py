"""Rows as the whole objects of the API: REST answers and the live stream send these very dictionaries.

Each function takes ids, answers in their order, leaves out ids that do not exist, and costs a fixed
number of queries however many ids there are.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Case, Count, IntegerField, Q, When

from nodeagent.messages import Turn, isolation_level
from scheduler.clock import database_now
from scheduler.core.lending.in_force import given_and_got
from scheduler.core.model.lifecycle import ATTEMPT_LIVE, JOB_FINAL, AttemptState, HoldPhase, JobState
from scheduler.core.model.snapshot import GUARANTEED, OPPORTUNISTIC
from scheduler.jobspec import in_order
from scheduler.lending.in_force import MarketNow, market_now
from scheduler.models import (
    AllocatedGpu,
    Attempt,
    AttemptPart,
    CellSpecification,
    Event,
    Gpu,
    Job,
    Node,
    NodeCheck,
    QueueOrder,
    Restraint,
    Round,
    ViewComputing,
)
from scheduler.plugins import has_targets
from scheduler.turns import turns_of
from tenants.models import VirtualCluster
from tenants.selectors import Viewer

#: The view that serves the opportunistic jobs of every virtual cluster.
SPARE_VIEW = "spare"

Representation = dict[str, Any]


def iso(at: datetime | None) -> str | None:
    return at.isoformat() if at is not None else None


def jobs(ids: Iterable[int]) -> list[Representation]:
    """Return the jobs with their newest attempt and, while they wait, with reasons and position."""
    ids = list(ids)
    rows = Job.objects.filter(id__in=ids).select_related(
        "tenant", "virtual_cluster", "submitted_by", "explanation"
    )
    by_id = {job.id: job for job in rows}
    newest = _newest_attempts(by_id)
    attempts_told = _told(newest.values())
    positions = positions_of([job for job in by_id.values() if job.state == JobState.QUEUED])
    return [
        _job(job, newest.get(job.id), attempts_told, reasons_of(job), positions.get(job.id))
        for job in [by_id[job_id] for job_id in ids if job_id in by_id]
    ]


def new_job(job: Job) -> Representation:
    """Return a job that was submitted a moment ago, for which nothing needs to be looked up."""
    return _job(job, None, {}, [], None)


def _job(
    job: Job,
    attempt: Attempt | None,
    attempts_told: Mapping[int, Representation],
    reasons: list[Representation],
    position: int | None,
) -> Representation:
    return {
        "id": job.id,
        "name": job.name,
        "tenant": job.tenant.name,
        "virtual_cluster": job.virtual_cluster.name,
        "submitted_by": job.submitted_by.username,
        "state": job.state,
        "phase": _phase(job, attempt),
        "guarantee": GUARANTEED if job.guaranteed else OPPORTUNISTIC,
        "priority": job.priority,
        "gpus": job.gpus,
        "gpu_models": job.gpu_models,
        "spec": in_order(job.spec),
        "submitted_at": iso(job.submitted_at),
        "started_at": iso(job.started_at),
        "ended_at": iso(job.ended_at),
        "deadline_at": _deadline_at(job),
        "attempts": job.attempts_started,
        "attempt": attempts_told[attempt.id] if attempt else None,
        "guarantee_lapsed": _guarantee_lapsed(job, attempt),
        "reasons": reasons,
        "position": position,
        "exit_code": job.exit_code,
        "message": job.message,
        "preemptions": job.preemptions,
        "service_gpu_seconds": round(sum(job.service.values()), 3),
        "labels": job.labels,
        "cancelling": job.cancelling,
        "held": job.held,
        "version": job.version,
    }


def _deadline_at(job: Job) -> str | None:
    seconds = job.shape.get("deadline_seconds")
    return None if seconds is None else iso(job.submitted_at + timedelta(seconds=seconds))


def _guarantee_lapsed(job: Job, attempt: Attempt | None) -> bool:
    """Whether a guaranteed job runs as an opportunistic one, since the cells it ran on are no more."""
    is_on = attempt is not None and attempt.state != AttemptState.ENDED
    return is_on and job.guaranteed and not attempt.allocation.guaranteed


def _phase(job: Job, attempt: Attempt | None) -> str:
    """Return what the job is doing, finer than its state."""
    if job.state in JOB_FINAL:
        return "ended"
    if attempt is not None and attempt.state != AttemptState.ENDED:
        return attempt.state
    return "held" if job.held else "waiting"


def reasons_of(job: Job) -> list[Representation]:
    """Return why the job waits; empty when it does not, or when no round has seen it yet."""
    explanation = getattr(job, "explanation", None)
    return explanation.reasons if explanation is not None and job.state == JobState.QUEUED else []


def positions_of(queued: Iterable[Job]) -> dict[int, int]:
    """Return the jobs' places in the queues that the newest round left, 1 for the head."""
    by_view: dict[str, set[int]] = defaultdict(set)
    for job in queued:
        by_view[view_of(job)].add(job.id)
    orders = QueueOrder.objects.filter(view__in=by_view).values_list("view", "jobs") if by_view else ()
    return {
        job_id: place
        for view, order in orders
        for place, job_id in enumerate(order, start=1)
        if job_id in by_view[view]
    }


def view_of(job: Job) -> str:
    """Return the name of the view whose policy considers the job."""
    return job.virtual_cluster.name if job.guaranteed else SPARE_VIEW


def _newest_attempts(job_ids: Collection[int]) -> dict[int, Attempt]:
    # While a job is being moved, what still runs comes before the planned place it will have.
    is_live = Case(When(state__in=ATTEMPT_LIVE, then=0), default=1, output_field=IntegerField())
    rows = Attempt.objects.filter(job_id__in=job_ids).select_related("allocation")
    return {
        attempt.job_id: attempt for attempt in rows.order_by("job_id", is_live, "-number").distinct("job_id")
    }


def attempts(ids: Iterable[int]) -> list[Representation]:
    """Return attempts with the GPUs of each node."""
    ids = list(ids)
    told = _told(Attempt.objects.select_related("allocation").filter(id__in=ids))
    return [told[attempt_id] for attempt_id in ids if attempt_id in told]


def _told(rows: Iterable[Attempt]) -> dict[int, Representation]:
    by_id = {attempt.id: attempt for attempt in rows}
    placements, turns = _placements_of(by_id), turns_of(by_id.values())
    return {
        attempt_id: _attempt(attempt, placements[attempt_id], turns.get(attempt_id))
        for attempt_id, attempt in by_id.items()
    }


# Rounds start thousands of attempts at once and tell of thousands of GPUs: their rows are read as they are,
# which costs a third of what model instances do.
def _placements_of(attempt_ids: Collection[int]) -> dict[int, list[Representation]]:
    found: dict[int, list[Representation]] = defaultdict(list)
    rows = AttemptPart.objects.filter(attempt_id__in=attempt_ids).order_by("attempt_id", "node__name")
    for part in rows.values("attempt_id", "node_id", "node__name", "state", "replicas"):
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
        "exit_code": attempt.exit_code,
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


def _part(part: Representation) -> Representation:
    return {
        "node": part["node__name"],
        "node_id": part["node_id"],
        "gpus": [
            {"id": gpu, "index": index}
            for replica in part["replicas"]
            for gpu, index in zip(replica["gpus"], replica["gpu_indexes"], strict=True)
        ],
        "ranks": [replica["rank"] for replica in part["replicas"]],
        "state": part["state"],
    }


def nodes(ids: Iterable[int]) -> list[Representation]:
    """Return the nodes with their present GPUs; whose jobs are on them is not told."""
    ids = list(ids)
    by_id = Node.objects.select_related("gpu_model").in_bulk(ids)
    gpus, checks = _gpus_of(by_id), _checks_of(by_id)
    return [_node(by_id[node_id], gpus[node_id], checks[node_id]) for node_id in ids if node_id in by_id]


def _gpus_of(node_ids: Collection[int]) -> dict[int, list[Representation]]:
    states = gpu_states(gpu__node_id__in=node_ids)
    found: dict[int, list[Representation]] = defaultdict(list)
    rows = Gpu.objects.filter(node_id__in=node_ids, present=True).order_by("node_id", "index")
    for gpu in rows.values(
        "node_id", "id", "index", "socket", "switch", "memory_bytes", "healthy", "problem"
    ):
        found[gpu.pop("node_id")].append({**gpu, "state": states.get(gpu["id"], "free")})
    return found


def _checks_of(node_ids: Collection[int]) -> dict[int, list[Representation]]:
    found: dict[int, list[Representation]] = defaultdict(list)
    rows = NodeCheck.objects.filter(node_id__in=node_ids).order_by("node_id", "name")
    for check in rows.values("node_id", "name", "verdict", "message", "gpu", "since"):
        found[check.pop("node_id")].append({**check, "since": iso(check["since"])})
    return found


def gpu_states(**which: Any) -> dict[int, str]:
    """Return "held" (also when a successor is planned) or "planned" by GPU; free ones are left out."""
    states: dict[int, str] = {}
    # A query for each phase, since each phase has an index of its own that knows nothing of history.
    for phase in (HoldPhase.PLANNED, HoldPhase.HELD):
        gpus = AllocatedGpu.objects.filter(phase=phase, **which).values_list("gpu_id", flat=True)
        states.update(dict.fromkeys(gpus, phase.value))
    return states


def _node(node: Node, gpus: list[Representation], checks: list[Representation]) -> Representation:
    return {
        "id": node.id,
        "name": node.name,
        "rack": node.rack,
        "gpu_model": node.gpu_model.name if node.gpu_model else None,
        "address": node.address,
        "state": node.state,
        "cordoned": node.cordoned,
        "draining": node.draining,
        "drained": node.draining and node.cordoned and all(gpu["state"] == "free" for gpu in gpus),
        "drain_deadline": iso(node.drain_deadline),
        "withdrawn": _withdrawn(node) if node.cordoned or node.draining else None,
        "health": checks,
        "isolation": node.isolation,
        "isolation_level": isolation_level(node.isolation),
        "cpus": node.cpus,
        "memory_bytes": node.memory_bytes,
        "agent_version": node.agent_version,
        "lease_expires_at": iso(node.lease_expires_at),
        "gpus": gpus,
        "version": node.version,
    }


def _withdrawn(node: Node) -> Representation:
    return {
        "by": node.cordoned_by,
        "why": node.cordon_why,
        "since": iso(node.cordoned_at),
        "returns_itself": node.returns_itself,
    }


def virtual_clusters(ids: Iterable[int]) -> list[Representation]:
    """Return the virtual clusters with what of their guarantees, and beyond, is in use."""
    ids = list(ids)
    rows = VirtualCluster.objects.filter(id__in=ids).prefetch_related(
        "members__tenant", "guarantees", "restraint"
    )
    by_id = {row.id: row for row in rows}
    usage: dict[int, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    held = AllocatedGpu.objects.filter(phase=HoldPhase.HELD, allocation__virtual_cluster_id__in=by_id)
    by_use = held.values_list(
        "allocation__virtual_cluster_id", "allocation__gpu_model", "allocation__guaranteed"
    ).annotate(gpus=Count("id"))
    for row_id, model, guaranteed, gpus in by_use:
        kind = "guaranteed_in_use" if guaranteed else "opportunistic_in_use"
        usage[row_id][model][kind] += gpus
    unfinished = Job.objects.filter(
        virtual_cluster_id__in=by_id, state__in=[JobState.QUEUED, JobState.RUNNING]
    )
    counts = {
        row_id: (queued, running)
        for row_id, queued, running in unfinished.values_list("virtual_cluster_id").annotate(
            queued=Count("id", filter=Q(state=JobState.QUEUED)),
            running=Count("id", filter=Q(state=JobState.RUNNING)),
        )
    }
    owned = _owned_cells()
    market = market_now(database_now())
    moved = _lent_and_borrowed(market)
    slow = overruns([row.name for row in by_id.values()])
    return [
        {
            **_virtual_cluster(
                by_id[row_id],
                usage[row_id],
                owned.get(by_id[row_id].name, {}),
                market.in_force.gpus.get(by_id[row_id].name, {}),
                *counts.get(row_id, (0, 0)),
            ),
            **moved[by_id[row_id].name],
            "has_targets": has_targets(by_id[row_id].policy),
            "overrun": slow.get(by_id[row_id].name),
        }
        for row_id in ids
        if row_id in by_id
    ]


def virtual_cluster_seen(shown: Mapping[str, Any], viewer: Viewer) -> Representation:
    """Return a virtual cluster as the viewer may see it: of other tenants only how many are members."""
    if viewer.is_operator:
        return dict(shown)
    own = [member for member in shown["members"] if member["tenant"] in viewer.tenant_names]
    return {**shown, "members": own, "other_members": len(shown["members"]) - len(own)}


def overruns(views: Collection[str]) -> dict[str, Representation]:
    """Return those views for which a cheap policy decides at present, their own taking too long, and why."""
    rows = ViewComputing.objects.filter(view__in=views, since__isnull=False)
    return {row.view: {"since": iso(row.since), "message": row.message} for row in rows}


def _owned_cells() -> Representation:
    """Return what the specification of cells in force says of each virtual cluster, by name."""
    text = CellSpecification.objects.order_by("-version").values_list("document", flat=True).first()
    return json.loads(text)["virtual_clusters"] if text else {}


def _virtual_cluster(
    row: VirtualCluster,
    usage: Mapping[str, Counter[str]],
    owned: Representation,
    guaranteed: Mapping[str, int],
    queued: int,
    running: int,
) -> Representation:
    own = {line.gpu_model: line.gpus for line in row.guarantees.all()}
    return {
        "id": row.id,
        "name": row.name,
        "title": row.title,
        "policy": row.policy,
        "policy_parameters": row.policy_parameters,
        "placer": row.placer,
        "default_time_limit_seconds": row.default_time_limit_seconds,
        **least_seconds(row),
        "guaranteed": dict(sorted(guaranteed.items())),
        "own_guaranteed": dict(sorted(own.items())),
        "cells": {path: count for path, count in owned.get("cells", {}).items() if count},
        "pinned": owned.get("pinned", {}),
        "members": [
            {"tenant": member.tenant.name, "weight": member.weight}
            for member in sorted(row.members.all(), key=lambda member: member.tenant.name)
        ],
        "other_members": 0,
        "usage": {
            model: {
                kind: usage.get(model, {}).get(kind, 0)
                for kind in ("guaranteed_in_use", "opportunistic_in_use")
            }
            for model in sorted({*guaranteed, *usage})
        },
        "queued": queued,
        "running": running,
        "version": row.version,
    }


def least_seconds(row: VirtualCluster) -> dict[str, float]:
    """Return how long attempts of a virtual cluster run at least, as the API names it."""
    chosen = getattr(row, "restraint", None) or Restraint()
    return {
        "min_run_seconds": chosen.min_run_seconds,
        "reclaim_min_run_seconds": chosen.reclaim_min_run_seconds,
    }


def _lent_and_borrowed(market: MarketNow) -> Mapping[str, Representation]:
    """Return by virtual cluster what of it others have now, and what it has of others."""
    found: dict[str, Representation] = defaultdict(lambda: {"lent": [], "borrowed": []})
    for loan in market.active:
        for giver, taker, lot in given_and_got([loan]):
            said = {
                "loan": loan.id,
                "lot": {"gpus": dict(lot.gpus), "cells": dict(lot.cells)},
                "ends_at": datetime.fromtimestamp(loan.ends_at, UTC).isoformat(),
            }
            found[giver]["lent"].append({**said, "to": taker})
            found[taker]["borrowed"].append({**said, "from": giver})
    return found


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
        "dropped": row.dropped,
        "waiting": row.waiting,
        "error": row.error,
    }


def events(rows: Iterable[Event], viewer: Viewer) -> list[Representation]:
    """Return events as the viewer may see them; jobs, nodes and subjects by id, since they may be gone."""
    return [
        {
            "id": event.id,
            "at": iso(event.at),
            "kind": event.kind,
            "subject": event.subject,
            "subject_id": event.subject_id,
            "from": event.from_state,
            "to": event.to_state,
            "actor": event.actor,
            "message": event.message,
            "data": _data_seen(event, viewer),
            "job": event.job_id,
            "node": event.node_id,
            "tenant": event.tenant.name if event.tenant else None,
        }
        for event in rows
    ]


def _data_seen(event: Event, viewer: Viewer) -> Any:
    """What an event says in fields; of the members of a virtual cluster only the viewer's own tenants."""
    if viewer.is_operator or event.subject != "virtual_cluster" or not isinstance(event.data, dict):
        return event.data
    own = set(viewer.tenant_names)
    return {
        moment: {**facts, "members": {name: weight for name, weight in members.items() if name in own}}
        if isinstance(facts, dict) and isinstance(members := facts.get("members"), dict)
        else facts
        for moment, facts in event.data.items()
    }
