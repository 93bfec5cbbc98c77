"""Part of step 7, check: replicas without GPUs are where they may be, on nodes that have what they take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from scheduler.core.fitting.demand import needs_held, shared_needs
from scheduler.core.model.errors import PlanError
from scheduler.core.model.plan import Action, ActionKind, Plan
from scheduler.core.model.snapshot import GpuId, Job, JobId, Node, NodeId, Running, Snapshot

#: CPUs are fractions, whose sums are a hair off.
_ROUNDING = 1e-6


def check_nodes(action: Action, nodes: Mapping[NodeId, Node]) -> None:
    """Raise PlanError where a replica without GPUs is on no node, or on one that takes no new work; or where
    the node that is said of one with GPUs is another."""
    placement = action.placement
    assert placement is not None
    if not placement.nodes:
        if not all(placement.replicas):
            raise PlanError(f"a replica of {action.jobs} has neither GPUs nor a node")
        return
    if len(placement.nodes) != len(placement.replicas):
        raise PlanError(f"{action.jobs} have {len(placement.replicas)} replicas on nodes {placement.nodes}")
    for number, replica in zip(placement.nodes, placement.replicas, strict=True):
        node = nodes.get(number)
        if node is None or node.gpu_model != placement.gpu_model or not node.takes_work:
            raise PlanError(f"{action.jobs} were placed on node {number}, which may not be used")
        if not {gpu.id for gpu in node.gpus}.issuperset(replica):
            raise PlanError(f"a replica of {action.jobs} is on node {number} and has GPUs {replica}")


def check_processors(snapshot: Snapshot, plan: Plan, kept: Mapping[JobId, Running]) -> None:
    """Raise PlanError where a replica without GPUs is newly on a node that promises more than it has."""
    placed = [
        action
        for action in plan.actions
        if action.placement is not None and action.kind is not ActionKind.JOIN
    ]
    looked_at = {
        node
        for action in placed
        if action.placement is not None
        for node, replica in zip(action.placement.nodes, action.placement.replicas, strict=False)
        if not replica
    }
    if not looked_at:
        return
    jobs = {job.id: job for job in snapshot.jobs}
    home = {gpu.id: node.id for node in snapshot.nodes for gpu in node.gpus if node.id in looked_at}
    taken: dict[NodeId, list[float]] = {node: [0.0, 0.0] for node in looked_at}
    staying = {running.allocation: running for running in kept.values()}
    for running in staying.values():
        there = [jobs[job] for job in running.jobs if job in jobs]
        _add(taken, there, running.replicas, running.nodes, home)
    for action in placed:
        assert action.placement is not None
        there = [jobs[job] for job in action.jobs]
        _add(taken, there, action.placement.replicas, action.placement.nodes, home)
    for node in snapshot.nodes:
        cpus, memory = taken.get(node.id, (0.0, 0.0))
        if node.cpus and cpus > node.cpus + _ROUNDING:
            raise PlanError(f"{cpus:g} CPUs of node {node.name} are given, which has {node.cpus:g}")
        if node.memory_bytes and memory > node.memory_bytes:
            raise PlanError(f"{memory:g} bytes of node {node.name} are given, which has {node.memory_bytes}")


def _add(
    taken: Mapping[NodeId, list[float]],
    jobs: Iterable[Job],
    replicas: tuple[tuple[GpuId, ...], ...],
    nodes: tuple[NodeId, ...],
    home: Mapping[GpuId, NodeId],
) -> None:
    """Count what each replica takes of the nodes that are looked at."""
    gangs = [needs_held(job, sum(map(len, replicas))) for job in jobs]
    needs = shared_needs(gangs) if gangs else ()
    for place, (need, replica) in enumerate(zip(needs, replicas, strict=False)):
        node = nodes[place] if nodes else next((home[gpu] for gpu in replica if gpu in home), None)
        if node is not None and node in taken:
            taken[node][0] += need.cpus
            taken[node][1] += need.memory_bytes
