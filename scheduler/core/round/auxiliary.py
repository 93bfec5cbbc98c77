"""Step 5b: divide CPUs and memory among jobs that leave them to the platform, after policies decided.

GPUs alone decide which jobs run: such a job asks for no CPUs and no memory, so it never waits for them.
Amounts that other jobs state come first. The mechanism that the operator chose
(`building_blocks.auxiliary_division`) divides the rest of each node, in every round: shares change while jobs
run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import floor, isinf
from typing import NamedTuple

from scheduler.core.building_blocks.auxiliary_division import (
    DIVISIONS,
    PARTS_OF_A_CPU,
    Amounts,
    Claim,
    Node,
    Part,
    best_of,
)
from scheduler.core.fitting.cluster import Place
from scheduler.core.fitting.demand import needs_held
from scheduler.core.model import wording
from scheduler.core.model.auxiliary import TUNE, Auto, AuxiliaryShare
from scheduler.core.model.gpu_parts import WHOLE_GPU
from scheduler.core.model.plan import Action, ActionKind
from scheduler.core.model.snapshot import GpuId, Job, JobId, NodeId, Task
from scheduler.core.round.facts import Facts
from scheduler.core.round.run_view import ViewOutcome

_NOTICED = 0.999

Replicas = tuple[tuple[GpuId, ...], ...]


def auxiliary_shares(
    facts: Facts, outcomes: Sequence[ViewOutcome], actions: Sequence[Action]
) -> dict[JobId, AuxiliaryShare]:
    """Return the share of each replica once the actions are carried out, by job."""
    if not facts.automatic:
        return {}
    after = list(_after(facts, actions))
    placed = {job: each for each in after for job in each.jobs if job in facts.automatic}
    if not placed:
        return {}
    free = _free(facts, {node for each in placed.values() for node in each.nodes if node}, after)
    claims: list[Claim] = []
    owners: list[tuple[JobId, list[list[int]]]] = []
    best: dict[Auto, Amounts] = {}
    for job in _in_order(outcomes, placed):
        for claim, ranks in _claims(facts, facts.jobs[job], placed[job], best):
            claims.append(claim)
            owners.append((job, ranks))
    given = DIVISIONS.get(facts.frame.auxiliary, DIVISIONS[TUNE])(free, claims)
    has: dict[JobId, list[Amounts]] = {job: [(0.0, 0.0)] * len(each.nodes) for job, each in placed.items()}
    fair: dict[JobId, list[Amounts]] = {job: [(0.0, 0.0)] * len(each.nodes) for job, each in placed.items()}
    lacking: dict[JobId, str] = {}
    for (job, ranks), claim, amounts in zip(owners, claims, given, strict=True):
        for part, its, members in zip(claim.parts, amounts, ranks, strict=True):
            for rank in members:
                has[job][rank], fair[job][rank] = its, part.proportional
            if words := _crowded(facts, part, its, claim.best):
                lacking.setdefault(job, words)
    return {
        job: AuxiliaryShare(
            replicas=tuple(map(_rounded, has[job])),
            proportional=tuple(map(_rounded, fair[job])),
            message=lacking.get(job, ""),
        )
        for job in sorted(placed)
    }


class _Placed(NamedTuple):
    """Jobs that share GPUs; usually one."""

    jobs: tuple[JobId, ...]
    #: The node of each replica; None where its GPUs have left the inventory.
    nodes: list[Node | None]
    gpus: int
    #: The number of jobs that take turns.
    turns: int


def _after(facts: Facts, actions: Sequence[Action]) -> Iterable[_Placed]:
    """Yield the placements of jobs once the actions are carried out."""
    where = facts.cluster.where

    def placed(
        jobs: tuple[JobId, ...], replicas: Replicas, homes: Sequence[NodeId], slice_seconds: float | None
    ) -> _Placed:
        if homes:
            nodes = [facts.cluster.place_of(node) for node in homes]
        else:
            nodes = [_node_of(replica, where) for replica in replicas]
        return _Placed(jobs, nodes, sum(map(len, replicas)), 1 if slice_seconds is None else len(jobs))

    company = {
        allocation: set(running.jobs) for allocation, running in facts.running.items() if not running.stopping
    }
    for action in actions:
        if action.allocation is None or action.kind is ActionKind.REGRADE:
            continue
        if action.kind is ActionKind.JOIN:
            company[action.allocation].update(action.jobs)
        else:
            company[action.allocation].difference_update(action.jobs)
    for allocation, jobs in company.items():
        if jobs:
            running = facts.running[allocation]
            yield placed(tuple(sorted(jobs)), running.replicas, running.nodes, running.slice_seconds)
    for action in actions:
        if action.placement is not None and action.kind is not ActionKind.JOIN:
            placement = action.placement
            yield placed(action.jobs, placement.replicas, placement.nodes, action.slice_seconds)


def _node_of(replica: Iterable[GpuId], where: Mapping[GpuId, Place]) -> Node | None:
    for gpu in replica:
        if place := where.get(gpu):
            return place[:2]
    return None


def _free(facts: Facts, nodes: Iterable[Node], after: Iterable[_Placed]) -> dict[Node, Amounts]:
    """Return what jobs that state their needs leave of the nodes."""
    left = {
        (model, node): [facts.cluster.fleets[model].cpus[node], facts.cluster.fleets[model].memory[node]]
        for model, node in nodes
    }
    for each in after:
        if left.keys().isdisjoint(each.nodes):
            continue
        for job in each.jobs:
            known = facts.jobs.get(job)
            if known is None or not any([task.cpus or task.memory_bytes for task in known.tasks]):
                continue
            for need, place in zip(needs_held(known, each.gpus), each.nodes, strict=False):
                if place in left:
                    left[place][0] -= need.cpus
                    left[place][1] -= need.memory_bytes
    # An overcommitted node has nothing left.
    return {node: (max(cpus, 0.0), max(memory, 0.0)) for node, (cpus, memory) in left.items()}


def _in_order(outcomes: Sequence[ViewOutcome], placed: Mapping[JobId, object]) -> list[JobId]:
    """Return the jobs in the order of views and their policies, then jobs that only stay, by number."""
    granted = [job for outcome in outcomes for grant in outcome.decision.grants for job in grant.jobs]
    return [job for job in dict.fromkeys([*granted, *sorted(placed)]) if job in placed]


def _claims(
    facts: Facts, job: Job, placed: _Placed, known: dict[Auto, Amounts]
) -> Iterable[tuple[Claim, list[list[int]]]]:
    """Yield a claim for each task that leaves something to the platform, and its ranks by part.

    `known` is a cache of replicas' best amounts, by the setting that many jobs share.
    """
    first = 0
    for task in job.tasks:
        # An elastic gang, which has one task, may have fewer or more replicas than that.
        end = first + task.replicas if len(job.tasks) > 1 else len(placed.nodes)
        if task.auto is not None:
            ranks: dict[Node, list[int]] = {}
            for rank in range(first, min(end, len(placed.nodes))):
                if (node := placed.nodes[rank]) is not None:
                    ranks.setdefault(node, []).append(rank)
            if ranks:
                parts = tuple(
                    [
                        Part(node, len(members), _proportional(facts, task, node, placed), placed.turns)
                        for node, members in ranks.items()
                    ]
                )
                best = known.get(task.auto)
                if best is None:
                    best = known[task.auto] = best_of(task)
                # If a node does not state an amount, its replicas have no share and no limit of it.
                cpus = best[0] if all([part.proportional[0] for part in parts]) else 0.0
                memory = best[1] if all([part.proportional[1] for part in parts]) else 0.0
                yield Claim(parts, (cpus, memory)), list(ranks.values())
        first = end


def _proportional(facts: Facts, task: Task, node: Node, placed: _Placed) -> Amounts:
    """Return the part of a node's CPUs and memory in proportion to a replica's GPUs.

    It is 0 for amounts that the task states or that are unknown.
    """
    model, number = node
    fleet = facts.cluster.fleets[model]
    part = task.milligpus / WHOLE_GPU / max(len(fleet.gpus[number]), 1)
    auto = task.auto
    cpus, memory, sharers = fleet.cpus[number], fleet.memory[number], len(placed.jobs)
    # Jobs that take turns use the CPUs one at a time, but keep their memory.
    return (
        part * cpus * placed.turns / sharers if auto and auto.cpus and not isinf(cpus) else 0.0,
        part * memory / sharers if auto and auto.memory and not isinf(memory) else 0.0,
    )


def _crowded(facts: Facts, part: Part, given: Amounts, best: Amounts) -> str:
    """Return why replicas have less than they are owed; empty if they have enough."""
    fair = part.proportional
    lacks_cpus = given[0] < min(fair[0], best[0]) * _NOTICED
    lacks_memory = given[1] < min(fair[1], best[1]) * _NOTICED
    if not (lacks_cpus or lacks_memory):
        return ""
    model, number = part.node
    fleet = facts.cluster.fleets[model]
    what = wording.listed(["CPUs"] * lacks_cpus + ["memory"] * lacks_memory)
    return (
        f"Jobs that state what they need have more than their part of the {what} of node"
        f" {fleet.nodes[number].name}: it has less than the part of it that its GPUs are."
    )


def _rounded(amounts: Amounts) -> tuple[float, int]:
    # Rounded down, so that sums never exceed a node; an amount just below a step by rounding counts as the
    # step.
    return floor(amounts[0] * PARTS_OF_A_CPU + 1e-6) / PARTS_OF_A_CPU, int(amounts[1] + 1e-6)
