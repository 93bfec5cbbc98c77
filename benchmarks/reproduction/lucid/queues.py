"""FIFO, SJF and QSSF: those that wait in an order, in which the first that does not fit blocks the others."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from benchmarks.reproduction.lucid.jobs import LucidJob, Outcome
from benchmarks.reproduction.lucid.nodes import GPUS_PER_NODE, Nodes, Place
from scheduler.simulation.errors import InputError

FIFO, SJF, QSSF = "fifo", "sjf", "qssf"


def run_queue(jobs: Sequence[LucidJob], nodes: Mapping[str, int], policy: str) -> Outcome:
    """Run every virtual cluster, of so many nodes, under FIFO, SJF or QSSF; raise InputError.

    SJF knows durations. QSSF orders by its estimate times GPUs, but those that came in this very second by
    GPUs alone, if nobody else waits.
    """
    ended: dict[int, int] = {}
    for name, mine in by_virtual_cluster(jobs, nodes).items():
        _run(mine, Nodes.of(nodes[name]), policy, ended)
    return Outcome(ended)


def by_virtual_cluster(jobs: Sequence[LucidJob], nodes: Mapping[str, int]) -> dict[str, list[LucidJob]]:
    """Return the jobs of each virtual cluster by submission; raise InputError for one that never fits."""
    found: dict[str, list[LucidJob]] = {}
    for job in jobs:
        if job.gpus > nodes.get(job.virtual_cluster, 0) * GPUS_PER_NODE:
            raise InputError(f"job {job.number} asks for more GPUs than {job.virtual_cluster} has")
        found.setdefault(job.virtual_cluster, []).append(job)
    return {name: sorted(mine, key=lambda job: job.submitted_at) for name, mine in found.items()}


def _run(jobs: Sequence[LucidJob], nodes: Nodes, policy: str, ended: dict[int, int]) -> None:
    arrivals, queue = list(jobs)[::-1], list[LucidJob]()
    ends: list[tuple[int, int, Place]] = []
    again: int | None = None
    while arrivals or queue or ends:
        instants = [arrivals[-1].submitted_at] if arrivals else []
        instants += [ends[0][0]] if ends else []
        now = min(instants if again is None else [*instants, again])
        while ends and ends[0][0] == now:
            nodes.release(heapq.heappop(ends)[2])
        before = len(queue)
        while arrivals and arrivals[-1].submitted_at == now:
            queue.append(arrivals.pop())
        if policy == SJF:
            queue.sort(key=lambda job: job.duration)
        elif policy == QSSF:
            queue.sort(key=lambda job: job.gpus)
            if before:
                queue.sort(key=lambda job: job.qssf_estimate * job.gpus)
        came = len(queue) > before
        while queue:
            place = nodes.place(queue[0].gpus)
            if place is None:
                break
            job = queue.pop(0)
            ended[job.number] = now + job.duration
            heapq.heappush(ends, (ended[job.number], job.number, place))
        # In the next second those that came in this one are no longer new.
        again = now + 1 if policy == QSSF and came and queue else None
