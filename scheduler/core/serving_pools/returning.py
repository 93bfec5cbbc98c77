"""Choose the nodes that return to their serving pool most cheaply, and what happens to the jobs on them.

J. Li et al., "Aryl: An Elastic Cluster Scheduler for Deep Learning", arXiv 2202.07896 (Lyra, EuroSys'23):
free nodes come first, then nodes with only flexible workers, whose jobs shrink. Then comes the node with the
least preemption cost, one after another. The cost is the sum, over the jobs that it would preempt, of one
divided by the number of nodes that the job spans. A preempted job leaves all its nodes, so the others become
cheaper. Deviations:

- No particular worker is flexible: a gang can do without its workers on a node if enough are left elsewhere,
  after what it gives up on nodes chosen before.
- Among nodes of equal cost, those that lose the least work (seconds of a preemption times GPUs) come first,
  then those where gangs shrink least.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from scheduler.core.fitting.demand import all_sizes_of
from scheduler.core.model import wording
from scheduler.core.model.snapshot import (
    LENT,
    RETURNING,
    AllocationId,
    GpuId,
    Job,
    JobId,
    Node,
    NodeId,
    Running,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReturn:
    """A returning node, and the jobs that it affects beyond the nodes chosen before it."""

    node: NodeId
    #: Jobs that stop and resume elsewhere, and jobs that continue with fewer workers.
    preempts: tuple[JobId, ...] = ()
    shrinks: tuple[JobId, ...] = ()


def kept_replicas(
    job: Job, running: Running, leaving: Collection[GpuId]
) -> tuple[tuple[GpuId, ...], ...] | None:
    """Return the replicas with which a gang continues without these GPUs, as many as possible.

    None where its base demand would be lost, or where it shares GPUs with others, so that it has to stop.
    """
    if job.elastic is None or len(running.jobs) > 1 or running.slice_seconds is not None:
        return None
    staying = [replica for replica in running.replicas if not any([gpu in leaving for gpu in replica])]
    each = job.tasks[0].gpus
    sizes = [gpus // each for gpus in all_sizes_of(job) if gpus // each <= len(staying)]
    return tuple(staying[: sizes[-1]]) if sizes else None


def nodes_to_return(
    nodes: Sequence[Node], pool: str, count: int, jobs: Iterable[Job], running: Iterable[Running]
) -> tuple[NodeReturn, ...]:
    """Return `count` of the nodes that the pool lends, or all if there are fewer, in the order of choice.

    `nodes` and `running` are those of the whole cluster. A job that is already stopping costs nothing.
    """
    stays = _Stays({job.id: job for job in jobs}, [held for held in running if not held.stopping], nodes)
    left = [node for node in nodes if is_lent_by(node, pool)]
    left.sort(key=lambda node: node.id)
    chosen: list[NodeReturn] = []
    while left and len(chosen) < count:
        costs = [(stays.cost_of(node), place) for place, node in enumerate(left)]
        chosen.append(stays.give_back(left.pop(min(costs)[1])))
    return tuple(chosen)


class _Stays:
    """Where each job is, as nodes are given back one after another."""

    def __init__(self, jobs: Mapping[JobId, Job], running: Sequence[Running], nodes: Sequence[Node]) -> None:
        self._jobs = jobs
        self._gpus = {node.id: frozenset(gpu.id for gpu in node.gpus) for node in nodes}
        node_of = {gpu: node for node, gpus in self._gpus.items() for gpu in gpus}
        #: By node: the allocations that are there and have not been stopped yet.
        self._there: dict[NodeId, dict[AllocationId, Running]] = {node.id: {} for node in nodes}
        #: The number of nodes of each allocation.
        self._spans: dict[AllocationId, int] = {}
        for held in running:
            on = {node_of[gpu] for gpu in held.gpus if gpu in node_of}
            for node in on:
                self._there[node][held.allocation] = held
            self._spans[held.allocation] = len(on)
        # Allocations on nodes that already go back count as gone.
        self._leaving = {
            gpu for node in nodes if node.loan and node.loan.state == RETURNING for gpu in self._gpus[node.id]
        }

    def cost_of(self, node: Node) -> tuple[float, float, int]:
        """Return the preemption cost, the work lost in GPU-seconds, and the GPUs by which gangs shrink."""
        preemptions, lost, shrunk = 0.0, 0.0, 0
        for held in self._there[node.id].values():
            kept = self._kept(held, node)
            if kept is None:
                preemptions += 1 / self._spans[held.allocation]
                known = [self._jobs[job] for job in held.jobs if job in self._jobs]
                cost = max([job.preemption_cost_seconds for job in known], default=0.0)
                lost += cost * len(held.gpus)
            else:
                before = [replica for replica in held.replicas if self._leaving.isdisjoint(replica)]
                shrunk += sum(map(len, before)) - sum(map(len, kept))
        return round(preemptions, 9), lost, shrunk

    def give_back(self, node: Node) -> NodeReturn:
        """Empty the node; return the jobs that this stops, and the jobs that it shrinks."""
        preempts: list[JobId] = []
        shrinks: list[JobId] = []
        for held in list(self._there[node.id].values()):
            if self._kept(held, node) is not None:
                shrinks += held.jobs
                continue
            preempts += held.jobs
            for there in self._there.values():
                there.pop(held.allocation, None)
        self._leaving |= self._gpus[node.id]
        return NodeReturn(node=node.id, preempts=tuple(preempts), shrinks=tuple(shrinks))

    def _kept(self, held: Running, node: Node) -> tuple[tuple[GpuId, ...], ...] | None:
        job = self._jobs.get(held.jobs[0])
        return None if job is None else kept_replicas(job, held, self._leaving | self._gpus[node.id])


def is_lent_by(node: Node, pool: str) -> bool:
    """Return whether a node is lent by the pool and has not been asked back."""
    return node.loan is not None and node.loan.pool == pool and node.loan.state == LENT


def stop_instant(node: Node) -> float:
    """Return when the remaining jobs on a returning node have to be stopped."""
    assert node.loan is not None
    assert node.loan.stops_at is not None
    return node.loan.stops_at


def returns(node: Node) -> str:
    """Return the words for a node that goes back to its serving pool."""
    assert node.loan is not None
    by = "" if node.loan.return_by is None else f" by {wording.instant(node.loan.return_by)}"
    return f"Node {node.name} returns to its serving pool {node.loan.pool}{by}"
