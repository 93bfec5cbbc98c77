"""Part of step 7, check: replicas without GPUs are on nodes that they may use and that have room."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from scheduler.core.fitting.demand import needs_held, shared_needs
from scheduler.core.model.errors import PlanError
from scheduler.core.model.plan import Action, ActionKind, Plan
from scheduler.core.model.snapshot import GpuId, Job, JobId, Node, NodeId, Running, Snapshot

#: CPUs are fractions, whose sums have rounding errors.
_ROUNDING = 1e-6


def check_nodes(action: Action, nodes: Mapping[NodeId, Node]) -> None:
    """Raise PlanError where a replica is on no usable node, or one with GPUs names another node.

    A node is usable if it is of the placement's model and takes new work.
    """
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
    """Raise PlanError where a replica without GPUs is newly placed on an overcommitted node.

    An opportunistic replica may also use what the guaranteed jobs of the node lend.
    """
    placed = [
        action
        for action in plan.actions
        if action.placement is not None and action.kind is not ActionKind.JOIN
    ]
    looked_at = _nodes_without_gpus(placed)
    if not looked_at:
        return
    counts = _Counts(snapshot, looked_at)
    staying = {running.allocation: running for running in kept.values()}
    every = counts.taken(staying.values(), placed)
    counted = {allocation for peak in snapshot.peaks for allocation in peak.allocations}
    lenders = [each for each in staying.values() if each.guaranteed and each.allocation in counted]
    _check_each(snapshot, every, _lent(snapshot, counts.taken(lenders, ())))
    # A guaranteed job relies on nothing that another job may reclaim.
    granted = [action for action in placed if action.guaranteed]
    relying = _nodes_without_gpus(granted)
    own = counts.taken([each for each in staying.values() if each.guaranteed], granted)
    _check_each(snapshot, {node: own[node] for node in relying}, {})


def _nodes_without_gpus(placed: Iterable[Action]) -> set[NodeId]:
    return {
        node
        for action in placed
        if action.placement is not None
        for node, replica in zip(action.placement.nodes, action.placement.replicas, strict=False)
        if not replica
    }


def _check_each(
    snapshot: Snapshot, taken: Mapping[NodeId, list[float]], lent: Mapping[NodeId, tuple[float, float]]
) -> None:
    for node in snapshot.nodes:
        cpus, memory = taken.get(node.id, (0.0, 0.0))
        more_cpus, more_memory = lent.get(node.id, (0.0, 0.0))
        if node.cpus and cpus > node.cpus + more_cpus + _ROUNDING:
            raise PlanError(f"{cpus:g} CPUs of node {node.name} are given, which has {node.cpus:g}")
        if node.memory_bytes and memory > node.memory_bytes + more_memory:
            raise PlanError(f"{memory:g} bytes of node {node.name} are given, which has {node.memory_bytes}")


def _lent(snapshot: Snapshot, requested: Mapping[NodeId, list[float]]) -> dict[NodeId, tuple[float, float]]:
    """Return what each node lends, given the requests of jobs with a predicted peak."""
    nodes = {node.id: node for node in snapshot.nodes}
    found: dict[NodeId, tuple[float, float]] = {}
    for peak in snapshot.peaks:
        node = nodes.get(NodeId(peak.node))
        if node is not None and node.id in requested:
            cpus, memory = requested[node.id]
            found[node.id] = (
                max(cpus - peak.cpus - peak.margin * node.cpus, 0.0),
                max(memory - peak.memory_bytes - peak.margin * node.memory_bytes, 0.0),
            )
    return found


class _Counts:
    """What gangs take from some nodes."""

    def __init__(self, snapshot: Snapshot, looked_at: set[NodeId]) -> None:
        self._jobs = {job.id: job for job in snapshot.jobs}
        self._home = {gpu.id: node.id for node in snapshot.nodes for gpu in node.gpus if node.id in looked_at}
        self._looked_at = looked_at

    def taken(self, staying: Iterable[Running], placed: Iterable[Action]) -> dict[NodeId, list[float]]:
        """Return the CPUs and the bytes of memory that gangs take together, by node."""
        taken: dict[NodeId, list[float]] = {node: [0.0, 0.0] for node in self._looked_at}
        for running in staying:
            there = [self._jobs[job] for job in running.jobs if job in self._jobs]
            _add(taken, there, running.replicas, running.nodes, self._home)
        for action in placed:
            assert action.placement is not None
            there = [self._jobs[job] for job in action.jobs]
            _add(taken, there, action.placement.replicas, action.placement.nodes, self._home)
        return taken


def _add(
    taken: Mapping[NodeId, list[float]],
    jobs: Iterable[Job],
    replicas: tuple[tuple[GpuId, ...], ...],
    nodes: tuple[NodeId, ...],
    home: Mapping[GpuId, NodeId],
) -> None:
    """Count what each replica takes from the nodes that are checked."""
    gangs = [needs_held(job, sum(map(len, replicas))) for job in jobs]
    needs = shared_needs(gangs) if gangs else ()
    for place, (need, replica) in enumerate(zip(needs, replicas, strict=False)):
        node = nodes[place] if nodes else next((home[gpu] for gpu in replica if gpu in home), None)
        if node is not None and node in taken:
            taken[node][0] += need.cpus
            taken[node][1] += need.memory_bytes
