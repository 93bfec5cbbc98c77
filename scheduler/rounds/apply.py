"""Carry out a plan in one short transaction, as far as the facts it was made from still hold.

An action whose job, GPU or node changed meanwhile is dropped with a reason, a gang whole; that is
normal and the next round decides again. A violated unique index is a bug: the whole round aborts.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain, repeat
from typing import Any

from django.db import connection

from scheduler import stream
from scheduler.attempts.models import AllocatedGpu, Allocation, Attempt, AttemptPart
from scheduler.attempts.services.gpu_holds import touch_nodes
from scheduler.attempts.services.lifecycle import attempt_stop
from scheduler.clock import database_now
from scheduler.core.model import attempts as machine
from scheduler.core.model.lifecycle import AttemptState, HoldPhase, JobState, PartState, StopCause
from scheduler.core.model.plan import Action, ActionKind, Placement, Plan
from scheduler.core.model.snapshot import AllocationId, GpuId, JobId, Snapshot
from scheduler.core.round.reserve import SPARE
from scheduler.events.models import Event
from scheduler.jobs.representations import publish_jobs
from scheduler.rounds.change_guarantee import change_guarantee, problem_with_regrade
from scheduler.rounds.copying import copy_rows, reserve_ids
from scheduler.rounds.explanations import EVENT_COLUMNS, write_explanations, write_queues
from scheduler.rounds.ledger import write_lines
from scheduler.rounds.market import carry_out
from scheduler.rounds.models import PolicyMemory
from scheduler.rounds.representations import publish_round
from scheduler.rounds.resizing import resize_event, takers_of
from scheduler.wakeups import request_round_on_commit
from tenants.models import VirtualCluster

# The task's name of each rank: rank by rank, as a job's replicas are numbered.
_LOCK_JOBS = """
SELECT id, version, state, tenant_id, jsonb_exists(shape, 'after_trial'),
       (SELECT array_agg(task->>'name' ORDER BY place, replica)
        FROM jsonb_array_elements(spec->'tasks') WITH ORDINALITY AS listed(task, place),
             generate_series(1, (task->>'replicas')::int) AS replica),
       coalesce((SELECT max(number) FROM scheduler_attempt WHERE job_id = scheduler_job.id), 0)
FROM scheduler_job WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE
"""
_LOCK_NODES = """
SELECT id FROM scheduler_node WHERE id IN (SELECT node_id FROM scheduler_gpu WHERE id = ANY(%s))
ORDER BY id FOR NO KEY UPDATE
"""
# A GPU has at most one holder and one successor, each found by an index that knows nothing of history.
_USABLE_GPUS = """
SELECT g.id, g.node_id, g.index, held.allocation_id, nominated.allocation_id
FROM scheduler_gpu g JOIN scheduler_node n ON n.id = g.node_id
LEFT JOIN scheduler_allocatedgpu held ON held.gpu_id = g.id AND held.phase = 'held'
LEFT JOIN scheduler_allocatedgpu nominated ON nominated.gpu_id = g.id AND nominated.phase = 'planned'
WHERE g.id = ANY(%s) AND g.healthy AND g.present AND n.state = 'ready' AND NOT n.cordoned
      AND n.loan_state IN ('', 'lent')
"""
_STOPS = frozenset({ActionKind.STOP, ActionKind.MOVE, ActionKind.RESIZE})
_STARTS = frozenset({ActionKind.START, ActionKind.MOVE, ActionKind.RESIZE})
# outcome, master_address, stop_cause, stop_message, preempted_by, category, message, failure
_BLANK_ATTEMPT: tuple[Any, ...] = ("", "", "", "", [], "", "", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOutcome:
    """What became of the plan. `dropped` lists {kind, jobs, why}, of the market with the position there."""

    at: datetime
    started: int
    kept: int
    stopped: int
    dropped: list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _LockedJob:
    """What a start needs to know of its job, whose row is locked."""

    tenant_id: int
    #: Whether its next attempt is a trial run.
    is_trial_due: bool
    #: By rank: the name of the task it belongs to.
    task_names: list[str]
    #: Number of its newest attempt; 0: it has had none.
    newest_attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _GpuPlace:
    """Where a GPU is, for an agent's eyes."""

    node_id: int
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    """A start that holds, with the allocation it will be written as."""

    action: Action
    placement: Placement
    allocation: int
    phase: HoldPhase

    @property
    def is_held(self) -> bool:
        return self.phase == HoldPhase.HELD


@dataclass(slots=True, kw_only=True)
class _Facts:
    """What is true now of everything the plan's actions touch; read after their rows were locked."""

    jobs: dict[JobId, _LockedJob]
    #: Jobs that changed since the snapshot, with the reason in words.
    changed_jobs: dict[JobId, str]
    #: Usable GPUs, and those of them that are held or nominated.
    places: dict[GpuId, _GpuPlace]
    holder: dict[GpuId, AllocationId]
    successor: dict[GpuId, AllocationId]
    #: Unended attempts by allocation.
    attempts: dict[AllocationId, list[Attempt]]
    dropped: list[dict[str, Any]] = field(default_factory=list)

    def drop(self, action: Action, why: str) -> None:
        self.dropped.append({"kind": str(action.kind), "jobs": list(action.jobs), "why": why})


def apply_plan(snapshot: Snapshot, plan: Plan) -> ApplyOutcome:
    """Write the plan; the caller holds the fence in the same transaction."""
    actor = f"round {plan.round_number}"
    changes = plan.actions
    facts = _lock_and_read(snapshot, changes)
    # Not before: what was waited for may have been released meanwhile, and nobody holds it from before that.
    at = database_now()
    stops = _stops_that_hold(changes, facts)
    for action in stops:
        _stop(action, facts, at=at, actor=actor)
    for action in _regrades_that_hold(changes, facts):
        assert action.allocation is not None
        change_guarantee(action, facts.attempts[action.allocation], at=at, actor=actor)
    # A move's own old place counts as being left; read holders only now that the stops are done.
    started = _start_all(_starts_that_hold(changes, stops, facts), facts, plan, at=at, actor=actor)
    tenants: dict[int, str] = {job.id: job.tenant for job in snapshot.jobs}
    write_explanations(plan, tenants, at=at)
    write_queues(plan, tenants)
    _write_memory(snapshot, plan)
    if facts.dropped:
        request_round_on_commit()
    # What rules did is tried again with the next tick: it may be refused for long.
    facts.dropped += carry_out(plan)
    write_lines(plan, tenants, at=at, dropped=facts.dropped)
    publish_round(plan.round_number)
    return ApplyOutcome(
        at=at,
        started=started,
        kept=_count_kept(snapshot, changes),
        stopped=len(stops),
        dropped=facts.dropped,
    )


def _count_kept(snapshot: Snapshot, changes: Sequence[Action]) -> int:
    """Return how many allocations stay where they are."""
    changed = {action.allocation for action in changes if action.kind is not ActionKind.REGRADE}
    return sum(not held.stopping and held.allocation not in changed for held in snapshot.running)


def _lock_and_read(snapshot: Snapshot, changes: Sequence[Action]) -> _Facts:
    """Lock the jobs, then the nodes, in id order, and read what is true of them now."""
    jobs = sorted({job for action in changes for job in action.jobs})
    needed = sorted({gpu for action in changes if action.placement for gpu in action.placement.gpus})
    versions = {job.id: job.version for job in snapshot.jobs}
    changed: dict[JobId, str] = {job: f"job {job} has ended" for job in jobs}
    locked: dict[JobId, _LockedJob] = {}
    places: dict[GpuId, _GpuPlace] = {}
    holder: dict[GpuId, AllocationId] = {}
    successor: dict[GpuId, AllocationId] = {}
    with connection.cursor() as cursor:
        cursor.execute(_LOCK_JOBS, [jobs])
        for job, version, state, tenant, is_trial_due, task_names, newest in cursor.fetchall():
            locked[job] = _LockedJob(
                tenant_id=tenant, is_trial_due=is_trial_due, task_names=task_names, newest_attempt=newest
            )
            if version == versions.get(job) and state in (JobState.QUEUED, JobState.RUNNING):
                del changed[job]
            else:
                changed[job] = f"job {job} changed after the snapshot"
        cursor.execute(_LOCK_NODES, [needed])
        cursor.execute(_USABLE_GPUS, [needed])
        for gpu, node, index, held_by, nominee in cursor.fetchall():
            places[gpu] = _GpuPlace(node_id=node, index=index)
            if held_by is not None:
                holder[gpu] = held_by
            if nominee is not None:
                successor[gpu] = nominee
    concerned = {action.allocation for action in changes if action.allocation is not None}
    return _Facts(
        jobs=locked,
        changed_jobs=changed,
        places=places,
        holder=holder,
        successor=successor,
        attempts=_unended_attempts(concerned.union(holder.values())),
    )


def _unended_attempts(allocations: Collection[AllocationId]) -> dict[AllocationId, list[Attempt]]:
    found: dict[AllocationId, list[Attempt]] = defaultdict(list)
    rows = Attempt.objects.filter(allocation_id__in=allocations).exclude(state=AttemptState.ENDED)
    for attempt in rows.select_related("job", "allocation").order_by("id"):
        found[AllocationId(attempt.allocation_id)].append(attempt)
    return found


def _stops_that_hold(changes: Sequence[Action], facts: _Facts) -> list[Action]:
    stops = []
    for action in changes:
        if action.kind not in _STOPS:
            continue
        if problem := _changed(action, facts):
            facts.drop(action, problem)
        else:
            stops.append(action)
    return stops


def _regrades_that_hold(changes: Sequence[Action], facts: _Facts) -> list[Action]:
    regrades = []
    for action in changes:
        if action.kind is not ActionKind.REGRADE:
            continue
        if problem := _changed(action, facts) or problem_with_regrade(action, facts.attempts):
            facts.drop(action, problem)
        else:
            regrades.append(action)
    return regrades


def _changed(action: Action, facts: _Facts) -> str | None:
    return next((facts.changed_jobs[job] for job in action.jobs if job in facts.changed_jobs), None)


def _stop(action: Action, facts: _Facts, *, at: datetime, actor: str) -> None:
    assert action.allocation is not None
    for attempt in facts.attempts.get(action.allocation, ()):
        if attempt.state == AttemptState.PLANNED:
            for gpu, allocation in list(facts.successor.items()):
                if allocation == action.allocation:
                    del facts.successor[gpu]
        attempt_stop(
            attempt,
            cause=_cause(action, attempt, at=at),
            actor=actor,
            message=action.message,
            preempted_by=action.preempted_by,
            at=at,
        )


def _cause(action: Action, attempt: Attempt, *, at: datetime) -> StopCause:
    if action.kind is not ActionKind.STOP:
        return StopCause.MIGRATED
    limit, since = attempt.job.time_limit_seconds, attempt.allocation.held_at
    is_over = limit is not None and since is not None and (at - since).total_seconds() >= limit
    return machine.stop_cause(StopCause(action.cause), is_over=is_over, cancelling=attempt.job.cancelling)


def _starts_that_hold(changes: Sequence[Action], stops: Sequence[Action], facts: _Facts) -> list[Action]:
    stopped = {id(action) for action in stops}
    starts = []
    for action in changes:
        if action.kind not in _STARTS or action.placement is None:
            continue
        if action.kind is not ActionKind.START and id(action) not in stopped:
            continue  # its stopping half was dropped, and said so
        if problem := _changed(action, facts) or _unusable(action.placement, facts):
            facts.drop(action, problem)
        else:
            starts.append(action)
    return starts


def _unusable(placement: Placement, facts: _Facts) -> str | None:
    for gpu in placement.gpus:
        if gpu not in facts.places:
            return f"GPU {gpu} is no longer usable"
        if gpu in facts.successor:
            return f"GPU {gpu} is promised to another job"
        holder = facts.holder.get(gpu)
        if holder is not None and any(
            attempt.state in (AttemptState.STARTING, AttemptState.RUNNING)
            for attempt in facts.attempts.get(holder, ())
        ):
            return f"GPU {gpu} is still in use"
    return None


def _start_all(actions: Sequence[Action], facts: _Facts, plan: Plan, *, at: datetime, actor: str) -> int:
    """Write allocations, attempts, parts and events of all starts with a few bulk statements."""
    if not actions:
        return 0
    moving = {job for action in actions if action.kind is not ActionKind.START for job in action.jobs}
    ids = reserve_ids(Allocation, len(actions))
    starts = [
        _start(action, allocation, facts, moving) for action, allocation in zip(actions, ids, strict=True)
    ]
    _write_allocations(starts, plan, at=at)
    _write_attempts(starts, facts, at=at, actor=actor)
    jobs = [job for start in starts for job in start.action.jobs]
    nodes = {facts.places[gpu].node_id for start in starts for gpu in start.placement.gpus}
    stream.wake_nodes(nodes)
    touch_nodes(nodes)
    publish_jobs(jobs)
    return len(actions)


def _start(action: Action, allocation: int, facts: _Facts, moving: Set[JobId]) -> _Start:
    assert action.placement is not None
    waits = any(gpu in facts.holder for gpu in action.placement.gpus)
    # A job that moves must have left its old place before it starts in the new one.
    waits = waits or not moving.isdisjoint(action.jobs)
    return _Start(
        action=action,
        placement=action.placement,
        allocation=allocation,
        phase=HoldPhase.NOMINATED if waits else HoldPhase.HELD,
    )


def _write_allocations(starts: Sequence[_Start], plan: Plan, *, at: datetime) -> None:
    clusters = dict(VirtualCluster.objects.values_list("name", "id"))
    copy_rows(
        Allocation,
        (
            "id", "round_number", "view", "virtual_cluster_id", "guaranteed", "gpu_model", "replicas",
            "phase", "created_at", "held_at", "slice_seconds",
            "opportunistic_gpus",
        ),
        (
            (
                start.allocation,
                plan.round_number,
                start.action.virtual_cluster if start.action.guaranteed else SPARE,
                clusters[start.action.virtual_cluster],
                start.action.guaranteed,
                start.placement.gpu_model,
                json.dumps(start.placement.replicas),
                start.phase,
                at,
                at if start.is_held else None,
                start.action.slice_seconds,
                start.action.opportunistic_gpus,
            )
            for start in starts
        ),
    )  # fmt: skip
    copy_rows(
        AllocatedGpu,
        ("allocation_id", "gpu_id", "phase"),
        ((start.allocation, gpu, start.phase) for start in starts for gpu in start.placement.gpus),
    )


def _write_attempts(starts: Sequence[_Start], facts: _Facts, *, at: datetime, actor: str) -> None:
    pairs = [(start, job) for start in starts for job in start.action.jobs]
    attempts, parts, events = [], [], []
    takers = takers_of((start.action, start.placement) for start in starts)
    for (start, job_id), attempt in zip(pairs, reserve_ids(Attempt, len(pairs)), strict=True):
        job = facts.jobs[job_id]
        by_node = _replicas_by_node(start.placement, job.task_names, facts.places)
        made = machine.planned(attempt, by_node)
        if start.is_held:
            made, _ = machine.step(made, machine.Promoted())
        number, state = job.newest_attempt + 1, made.state
        starting_at = at if start.is_held else None
        attempts.append(
            (
                attempt, job_id, number, job.is_trial_due, start.allocation, state, made.go, at, starting_at,
                *_BLANK_ATTEMPT,
            )
        )  # fmt: skip
        if start.action.kind is ActionKind.RESIZE and start.action.allocation is not None:
            had = facts.attempts[start.action.allocation][0].allocation.replicas
            events.append(
                resize_event(
                    start.action,
                    had,
                    takers,
                    facts.holder,
                    job=job_id,
                    tenant_id=job.tenant_id,
                    attempt=number,
                    at=at,
                    actor=actor,
                )
            )
        parts += [
            (attempt, node, PartState.WAITING, json.dumps(replicas), "", "")
            for node, replicas in by_node.items()
        ]
        data = json.dumps(
            {"number": number, "gpu_model": start.placement.gpu_model}
            | ({"is_trial": True} if job.is_trial_due else {})
        )
        events.append(
            (
                at, f"attempt.{state}", "attempt", attempt, job.tenant_id, job_id, "", state, actor, "",
                data,
            )
        )  # fmt: skip
    copy_rows(
        Attempt,
        (
            "id", "job_id", "number", "is_trial", "allocation_id", "state", "go", "planned_at", "starting_at",
            "outcome", "master_address", "stop_cause", "stop_message", "preempted_by", "category", "message",
            "failure",
        ),
        attempts,
    )  # fmt: skip
    copy_rows(AttemptPart, ("attempt_id", "node_id", "state", "replicas", "category", "message"), parts)
    copy_rows(Event, EVENT_COLUMNS, events)
    held = [job for start, job in pairs if start.is_held]
    planned = [job for start, job in pairs if not start.is_held]
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE scheduler_job SET version = version + 1, attempts_started = attempts_started + 1"
            " WHERE id = ANY(%s)",
            [held],
        )
        cursor.execute("UPDATE scheduler_job SET version = version + 1 WHERE id = ANY(%s)", [planned])
        cursor.execute("DELETE FROM scheduler_explanation WHERE job_id = ANY(%s)", [held])


def _replicas_by_node(
    placement: Placement, task_names: Sequence[str], places: Mapping[GpuId, _GpuPlace]
) -> dict[int, list[dict[str, Any]]]:
    """Number the ranks by task, then replica, and sort them by the node they are on."""
    by_node: dict[int, list[dict[str, Any]]] = defaultdict(list)
    # An elastic gang, which has one task, may have fewer or more replicas than its specification.
    names = chain(task_names, repeat(task_names[-1]))
    for rank, (task, gpus) in enumerate(zip(names, placement.replicas, strict=False)):
        by_node[places[gpus[0]].node_id].append(
            {
                "rank": rank,
                "task": task,
                "gpus": list(gpus),
                "gpu_indexes": [places[gpu].index for gpu in gpus],
            }
        )
    return by_node


def _write_memory(snapshot: Snapshot, plan: Plan) -> None:
    changed = [
        PolicyMemory(view=view, memory=dict(memory))
        for view, memory in plan.memory.items()
        if memory != snapshot.memory.get(view, {})
    ]
    PolicyMemory.objects.bulk_create(
        changed, update_conflicts=True, unique_fields=["view"], update_fields=["memory"]
    )
