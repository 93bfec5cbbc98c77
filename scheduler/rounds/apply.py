"""Carry out a plan in one short transaction, as far as the facts it was made from still hold.

An action whose job, GPU or node changed meanwhile is dropped with a reason, a gang whole; that is
normal and the next round decides again. A plan that gives a GPU twice, or violates a guard of the database,
is a bug: the whole round aborts.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain, islice, repeat
from typing import Any

from django.db import connection

from scheduler.core.model import attempts as machine
from scheduler.core.model.errors import SchedulingError
from scheduler.core.model.gpu_parts import WHOLE_GPU, GpuPart
from scheduler.core.model.lifecycle import AttemptState, HoldPhase, PartState, StopCause
from scheduler.core.model.plan import Action, ActionKind, Placement, Plan
from scheduler.core.model.snapshot import AllocationId, GpuId, JobId, Snapshot
from scheduler.core.round.reserve import SPARE
from scheduler.jobs.attempts.services.gpu_holds import touch_nodes
from scheduler.jobs.attempts.services.lifecycle import attempt_stop
from scheduler.jobs.attempts.services.node_room import room_on
from scheduler.jobs.representations import publish_jobs
from scheduler.models.attempts import AllocatedGpu, Allocation, Attempt, AttemptPart
from scheduler.models.events import Event
from scheduler.rounds.change_guarantee import change_guarantee, problem_with_regrade
from scheduler.rounds.copying import (
    ALLOCATION_COLUMNS,
    ATTEMPT_COLUMNS,
    GPU_COLUMNS,
    PART_COLUMNS,
    copy_rows,
    reserve_ids,
)
from scheduler.rounds.explanations import EVENT_COLUMNS, write_explanations, write_memory, write_queues
from scheduler.rounds.ledger import write_lines
from scheduler.rounds.locked_facts import Asks, Facts, lock_and_read
from scheduler.rounds.market import carry_out
from scheduler.rounds.representations import publish_round
from scheduler.rounds.resizing import resize_event, resize_words, takers_of
from scheduler.rounds.shares import share_json, write_shares
from scheduler.wiring import stream
from scheduler.wiring.clock import database_now
from scheduler.wiring.wakeups import request_round_on_commit
from tenants.models import VirtualCluster

_STOPS = frozenset({ActionKind.STOP, ActionKind.MOVE, ActionKind.RESIZE})
_STARTS = frozenset({ActionKind.START, ActionKind.MOVE, ActionKind.RESIZE})
_WHOLE = GpuPart(request=WHOLE_GPU, limit=WHOLE_GPU)
# outcome, master_address, stop_cause, stop_message, preempted_by, category, message, failure
_BLANK_ATTEMPT: tuple[Any, ...] = ("", "", "", "", [], "", "", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOutcome:
    """The result of a plan. `dropped` lists {kind, jobs, why}, for the market with the position there."""

    at: datetime
    started: int
    kept: int
    stopped: int
    #: How many of the stopped jobs go on elsewhere.
    moved: int
    dropped: list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    """A valid start, with the allocation that it becomes."""

    action: Action
    placement: Placement
    asks: Asks
    allocation: int
    #: The numbers of the attempts that its jobs get.
    attempts: Sequence[int]
    phase: HoldPhase

    @property
    def is_held(self) -> bool:
        return self.phase == HoldPhase.HELD


def apply_plan(
    snapshot: Snapshot,
    plan: Plan,
    left_out: Sequence[JobId] = (),
    having_ports: Collection[JobId] = (),
) -> ApplyOutcome:
    """Write the plan; the caller holds the fence in the same transaction.

    `left_out`: jobs behind more of their kind than could start, which are not in the snapshot;
    `having_ports`: jobs of the snapshot that have fixed ports.
    """
    actor = f"round {plan.round_number}"
    changes = plan.actions
    facts = lock_and_read(snapshot, changes)
    # Not before: a GPU may have been released while this waited for locks, and must not be held from earlier.
    at = database_now()
    stops = _stops_that_hold(changes, facts)
    kept = _count_kept(snapshot, changes)
    # First, because a job may leave an allocation whose guarantee lapses or returns.
    for action in _regrades_that_hold(changes, facts):
        assert action.allocation is not None
        change_guarantee(action, facts.attempts[action.allocation], at=at, actor=actor)
    if stops:
        takers = takers_of((action, action.placement) for action in changes if action.placement is not None)
        for action in stops:
            _stop(action, facts, takers, at=at, actor=actor)
    # A move's own old place counts as being left; read holders only now that the stops are done.
    nodes = {node for action in changes if action.placement for node in action.placement.nodes}
    facts.room = room_on(nodes, snapshot.peaks) if nodes else None
    starts = [*_starts_that_hold(changes, stops, facts), *_joins_that_hold(changes, facts)]
    _start_all(starts, facts, plan, at=at, actor=actor)
    tenants: dict[int, str] = {job.id: job.tenant for job in snapshot.jobs}
    write_shares(plan.shares)
    write_memory(snapshot, plan)
    write_explanations(plan, tenants, left_out, having_ports, at=at)
    write_queues(plan, tenants)
    if facts.dropped:
        request_round_on_commit()
    # Actions of rules are tried again with the next tick: they may be refused for long.
    facts.dropped += carry_out(plan)
    write_lines(plan, tenants, at=at, dropped=facts.dropped)
    publish_round(plan.round_number)
    return ApplyOutcome(
        at=at,
        started=len(starts),
        kept=kept,
        stopped=len(stops),
        moved=sum([action.kind is ActionKind.MOVE for action in stops]),
        dropped=facts.dropped,
    )


def _count_kept(snapshot: Snapshot, changes: Sequence[Action]) -> int:
    """Return how many allocations stay where they are."""
    left = {job for action in changes if action.kind in _STOPS for job in action.jobs}
    return sum(not held.stopping and not left.issuperset(held.jobs) for held in snapshot.running)


def _stops_that_hold(changes: Sequence[Action], facts: Facts) -> list[Action]:
    stops = []
    for action in changes:
        if action.kind not in _STOPS:
            continue
        if problem := _changed(action, facts):
            facts.drop(action, problem)
        else:
            stops.append(action)
    return stops


def _regrades_that_hold(changes: Sequence[Action], facts: Facts) -> list[Action]:
    regrades = []
    for action in changes:
        if action.kind is not ActionKind.REGRADE:
            continue
        if problem := _changed(action, facts) or problem_with_regrade(action, facts.attempts):
            facts.drop(action, problem)
        else:
            regrades.append(action)
    return regrades


def _changed(action: Action, facts: Facts) -> str | None:
    """Return why an action no longer holds for its jobs, or for those that it would make room for."""
    takers = [facts.barred.get(job) for job in action.preempted_by]
    if takers and all(takers):
        return takers[0]
    reasons = facts.changed_jobs if action.placement is None else facts.barred
    return next((reasons[job] for job in action.jobs if job in reasons), None)


def _stop(
    action: Action, facts: Facts, takers: Mapping[GpuId, Collection[JobId]], *, at: datetime, actor: str
) -> None:
    assert action.allocation is not None
    for attempt in facts.attempts.get(action.allocation, ()):
        if attempt.job_id not in action.jobs:
            continue  # It still has the GPUs, or is already about to leave them.
        if attempt.state == AttemptState.PLANNED:
            facts.holds.release(action.allocation, chain.from_iterable(attempt.allocation.replicas))
        attempt_stop(
            attempt,
            cause=_cause(action, attempt, at=at),
            actor=actor,
            message=_stop_words(action, attempt, facts, takers),
            preempted_by=action.preempted_by,
            at=at,
        )


def _stop_words(
    action: Action, attempt: Attempt, facts: Facts, takers: Mapping[GpuId, Collection[JobId]]
) -> str:
    if action.kind is not ActionKind.RESIZE or action.placement is None:
        return action.message
    return resize_words(action, attempt.allocation.replicas, takers, facts.givers)


def _cause(action: Action, attempt: Attempt, *, at: datetime) -> StopCause:
    if action.kind is not ActionKind.STOP:
        return StopCause.RESIZED if action.kind is ActionKind.RESIZE else StopCause.MIGRATED
    limit, since = attempt.job.time_limit_seconds, attempt.starting_at
    is_over = limit is not None and since is not None and (at - since).total_seconds() >= limit
    return machine.stop_cause(StopCause(action.cause), is_over=is_over, cancelling=attempt.job.cancelling)


def _starts_that_hold(changes: Sequence[Action], stops: Sequence[Action], facts: Facts) -> list[_Start]:
    stopped = {id(action) for action in stops}
    requested = [
        action
        for action in changes
        if action.kind in _STARTS
        and action.placement is not None
        # Otherwise its stop was dropped, with a reason of its own.
        and (action.kind is ActionKind.START or id(action) in stopped)
    ]
    if not requested:
        return []
    starts = []
    #: By node and port: the job that starts before it in this round and listens there.
    listening: dict[tuple[int, int], JobId] = {}
    ids = reserve_ids(Allocation, len(requested))
    numbers = iter(reserve_ids(Attempt, sum([len(action.jobs) for action in requested])))
    for action, allocation in zip(requested, ids, strict=True):
        attempts = list(islice(numbers, len(action.jobs)))
        if problem := _changed(action, facts) or _lost(action, facts):
            facts.drop(action, problem)
            continue
        asks = facts.asks_of(action)
        if problem := _unusable(action, asks, facts) or _listens_already(action, asks, facts, listening):
            facts.drop(action, problem)
            continue
        starts.append(_granted(action, asks, AllocationId(allocation), attempts, facts))
        listening.update(dict.fromkeys(_ports_of(action, asks, facts), action.jobs[0]))
    return starts


def _joins_that_hold(changes: Sequence[Action], facts: Facts) -> list[_Start]:
    joins = []
    for action in changes:
        if action.kind is ActionKind.JOIN:
            if problem := _changed(action, facts) or _deserted(action, facts):
                facts.drop(action, problem)
            else:
                joins.append(action)
    if not joins:
        return []
    numbers = iter(reserve_ids(Attempt, sum([len(action.jobs) for action in joins])))
    return [_beside(action, list(islice(numbers, len(action.jobs))), facts) for action in joins]


def _deserted(action: Action, facts: Facts) -> str | None:
    """Return why jobs cannot join others: these must have all the GPUs, and one of them must stay."""
    assert action.placement is not None
    assert action.allocation is not None
    if problem := _lost(action, facts):
        return problem
    for gpu in action.placement.gpus:
        if list(facts.holds.holders(gpu)) != [action.allocation]:
            return f"GPU {gpu} is no longer held by the jobs that it would be shared with"
    if not _stays(action.allocation, facts):
        return "no job with which it would share GPUs still runs there"
    return None


def _lost(action: Action, facts: Facts) -> str | None:
    assert action.placement is not None
    lost = next((gpu for gpu in action.placement.gpus if gpu not in facts.places), None)
    return None if lost is None else f"GPU {lost} is no longer usable"


def _unusable(action: Action, asks: Asks, facts: Facts) -> str | None:
    assert action.placement is not None
    for gpu in action.placement.gpus:
        if gpu in facts.given_whole:
            raise SchedulingError(f"The plan gives GPU {gpu} twice.")
        holders = facts.holds.holders(gpu)
        leaving = {each for each in holders if not _stays(each, facts)}
        match facts.holds.in_the_way(gpu, asks.parts.get(gpu), leaving):
            case HoldPhase.HELD if facts.granted.isdisjoint(holders):
                return f"GPU {gpu} is still in use"
            case HoldPhase.HELD | HoldPhase.NOMINATED:
                return f"GPU {gpu} is promised to another job"
    if action.placement.nodes and facts.room is not None:
        return facts.room.problem_with(asks.together, guaranteed=action.guaranteed)
    return None


def _listens_already(
    action: Action, asks: Asks, facts: Facts, listening: Mapping[tuple[int, int], JobId]
) -> str | None:
    """Return which job of this round already listens at a fixed port on its nodes. The next round sees it."""
    for node, port in _ports_of(action, asks, facts):
        if (other := listening.get((node, port))) is not None:
            return f"job {other}, which starts in this round too, listens at port {port} on its node"
    return None


def _ports_of(action: Action, asks: Asks, facts: Facts) -> list[tuple[int, int]]:
    """Return the (node, fixed port) pairs of the jobs that start."""
    ports = [port for job in action.jobs if job in facts.jobs for port in facts.jobs[job].ports]
    if not ports:
        return []
    return [(node, port) for node in set(asks.homes) for port in ports]


def _stays(allocation: AllocationId, facts: Facts) -> bool:
    return allocation in facts.granted or any(
        attempt.state in (AttemptState.STARTING, AttemptState.RUNNING)
        for attempt in facts.attempts.get(allocation, ())
    )


def _start_all(starts: Sequence[_Start], facts: Facts, plan: Plan, *, at: datetime, actor: str) -> None:
    """Write allocations, attempts, parts and events of all starts with a few bulk statements."""
    if not starts:
        return
    clusters = dict(VirtualCluster.objects.values_list("name", "id"))
    made = [start for start in starts if start.action.kind is not ActionKind.JOIN]
    allocations = [_allocation_row(start, clusters, plan, at=at) for start in made]
    attempts, parts, events = _attempt_rows(starts, facts, plan, at=at, actor=actor)
    gpus = [row for start in made for row in _gpu_rows(start)]
    _count_attempts(starts)
    copy_rows(Allocation, ALLOCATION_COLUMNS, allocations)
    copy_rows(AllocatedGpu, GPU_COLUMNS, gpus)
    copy_rows(Attempt, ATTEMPT_COLUMNS, attempts)
    copy_rows(AttemptPart, PART_COLUMNS, parts)
    copy_rows(Event, EVENT_COLUMNS, events)
    jobs = [job for start in starts for job in start.action.jobs]
    nodes = {node for start in starts for node in start.asks.homes}
    stream.wake_nodes(nodes)
    touch_nodes(nodes)
    publish_jobs(jobs)


def _granted(
    action: Action, asks: Asks, allocation: AllocationId, attempts: Sequence[int], facts: Facts
) -> _Start:
    assert action.placement is not None
    gpus, room = action.placement.gpus, facts.room
    facts.given_whole.update(gpu for gpu in gpus if gpu not in asks.parts)
    facts.granted.add(allocation)
    # A job that moves must have left its old place before it starts in the new one.
    has_left = action.kind is ActionKind.START
    if action.placement.nodes and room is not None and room.waits(asks.together):
        has_left = False
    phase = facts.holds.grant(allocation, gpus, asks.parts, has_left=has_left)
    if room is not None:
        room.promise(asks.together, is_held=phase == HoldPhase.HELD)
    return _Start(
        action=action,
        placement=action.placement,
        asks=asks,
        allocation=allocation,
        attempts=attempts,
        phase=phase,
    )


def _beside(action: Action, attempts: Sequence[int], facts: Facts) -> _Start:
    """Return the start of jobs that join an allocation of others."""
    assert action.placement is not None
    assert action.allocation is not None
    return _Start(
        action=action,
        placement=action.placement,
        asks=replace(facts.asks_of(action), parts={}),
        allocation=action.allocation,
        attempts=attempts,
        phase=HoldPhase.HELD,
    )


def _allocation_row(
    start: _Start, clusters: Mapping[str, int], plan: Plan, *, at: datetime
) -> tuple[Any, ...]:
    action, placement = start.action, start.placement
    return (
        start.allocation, plan.round_number, action.virtual_cluster if action.guaranteed else SPARE,
        clusters[action.virtual_cluster], action.guaranteed, placement.gpu_model,
        json.dumps(placement.replicas), start.phase, at, at if start.is_held else None,
        action.slice_seconds, action.opportunistic_gpus,
        json.dumps(placement.nodes) if placement.nodes else None,
    )  # fmt: skip


def _gpu_rows(start: _Start) -> list[tuple[Any, ...]]:
    parts = [start.asks.parts.get(gpu, _WHOLE) for gpu in start.placement.gpus]
    return [
        (start.allocation, gpu, start.phase, part.request, part.limit, part.memory_bytes)
        for gpu, part in zip(start.placement.gpus, parts, strict=True)
    ]


def _attempt_rows(
    starts: Sequence[_Start], facts: Facts, plan: Plan, *, at: datetime, actor: str
) -> tuple[list[Any], list[Any], list[Any]]:
    """Return the rows of attempts, of their parts, and of their events."""
    attempts, parts, events = [], [], []
    resized = any([start.action.kind is ActionKind.RESIZE for start in starts])
    takers = takers_of((start.action, start.placement) for start in starts) if resized else {}
    pairs = [
        (start, *each) for start in starts for each in zip(start.action.jobs, start.attempts, strict=True)
    ]
    for start, job_id, attempt in pairs:
        job = facts.jobs[job_id]
        by_node = _replicas_by_node(start, job.task_names, facts)
        amounts = start.asks.amounts[job_id]
        made = machine.planned(attempt, by_node)
        if start.is_held:
            made, _ = machine.step(made, machine.Promoted())
        number, state = job.newest_attempt + 1, made.state
        share = share_json(plan.shares[job_id]) if job_id in plan.shares else None
        attempts.append(
            (
                attempt, job_id, number, job.is_trial_due, start.allocation, state, made.go, at,
                at if start.is_held else None, *_BLANK_ATTEMPT, share and json.dumps(share),
            )
        )  # fmt: skip
        if start.action.kind is ActionKind.RESIZE and start.action.allocation is not None:
            had = facts.attempts[start.action.allocation][0].allocation.replicas
            events.append(
                resize_event(
                    start.action,
                    had,
                    takers,
                    facts.givers,
                    job=job_id,
                    tenant_id=job.tenant_id,
                    attempt=number,
                    at=at,
                    actor=actor,
                )
            )
        parts += [
            (attempt, node, PartState.WAITING, json.dumps(replicas), "", "", cpus, int(memory))
            for node, replicas in by_node.items()
            for cpus, memory in (amounts.get(node, (0.0, 0.0)),)
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
    return attempts, parts, events


def _count_attempts(starts: Sequence[_Start]) -> None:
    """Raise the versions of the jobs, and delete the reasons of those that start."""
    held = [job for start in starts if start.is_held for job in start.action.jobs]
    planned = [job for start in starts if not start.is_held for job in start.action.jobs]
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE scheduler_job SET version = version + 1, attempts_started = attempts_started + 1"
            " WHERE id = ANY(%s)",
            [held],
        )
        cursor.execute("UPDATE scheduler_job SET version = version + 1 WHERE id = ANY(%s)", [planned])
        cursor.execute("DELETE FROM scheduler_explanation WHERE job_id = ANY(%s)", [held])


def _replicas_by_node(
    start: _Start, task_names: Sequence[str], facts: Facts
) -> dict[int, list[dict[str, Any]]]:
    """Number the ranks by task, then replica, and sort them by the node they are on."""
    by_node: dict[int, list[dict[str, Any]]] = defaultdict(list)
    # An elastic gang, which has one task, may have fewer or more replicas than its specification.
    names = chain(task_names, repeat(task_names[-1]))
    homes, parts = start.asks.homes, start.asks.parts
    for rank, (task, gpus, node) in enumerate(zip(names, start.placement.replicas, homes, strict=False)):
        entry: dict[str, Any] = {
            "rank": rank,
            "task": task,
            "gpus": list(gpus),
            "gpu_indexes": [facts.places[gpu].index for gpu in gpus],
        }
        if gpus and (part := parts.get(gpus[0])):
            entry["part"] = part.request / WHOLE_GPU
        by_node[node].append(entry)
    return by_node
