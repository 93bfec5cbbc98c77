"""Sets the number of nodes in service by how well jobs use them (Pollux, OSDI'21, section 4.2.3).

The utility of a number of nodes is the sum of the jobs' speedups over one GPU under the best allocation of
those nodes, divided by their GPUs: 1 where every GPU adds as much as a job's first one. It falls with the
number of nodes, since jobs scale less than perfectly and are finite in number. While the utility is within
bounds, nothing changes. Otherwise the number of nodes becomes the one whose utility is nearest to the middle
of the bounds, found by bisection. The default bounds are those of the published code (petuum/adaptdl).

Deviations: whatever policy decides, the search of policy `pollux` finds an allocation for the waiting and
running jobs, as if none had a place yet. The speed of jobs that are not elastic or not measured is in
proportion to their GPUs. A job that gets no GPUs counts with the fewest that it needs; otherwise GPUs that
idle because a gang is too large for them would argue for fewer nodes. There are always enough nodes for the
largest job that fits on the maximum. Nodes are of one GPU model, come at once and are never lent by serving
pools.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Protocol

from scheduler.core.building_blocks.elastic.arrangement import Gang
from scheduler.core.building_blocks.elastic.pools import most_replicas
from scheduler.core.building_blocks.elastic.speedups import goodput_model_of, speedup_table
from scheduler.core.fitting.demand import all_sizes_of, least_gpus
from scheduler.core.goodput.batch import GoodputModel
from scheduler.core.model.snapshot import Job, JobId, Node, NodeId, Running, Snapshot
from scheduler.core.policies.pollux.solving import GREEDY, Cycle, solve
from scheduler.core.round.engine import RoundEngine
from scheduler.core.sim.event_queue import EventQueue
from scheduler.core.sim.rules import Autoscaling, Rules

#: If nothing has run for this long and no event is scheduled, waiting jobs will never start.
_IN_VAIN_SECONDS = 86_400.0


class Scaled(Protocol):
    """The parts of the simulated cluster that autoscaling needs."""

    round_engine: RoundEngine

    @property
    def rules(self) -> Rules: ...

    def reconfigure(self, change: Callable[[Snapshot], Snapshot]) -> None: ...

    def close_nodes(self, numbers: Collection[NodeId]) -> None: ...


class Autoscaler:
    """Takes nodes out of service and puts them back, and counts the time for which each is in service.

    A node that should leave takes no new work, and its jobs go on elsewhere; it leaves once its GPUs are
    free. All nodes are in service until the first check, at the beginning.
    """

    def __init__(self, cluster: Scaled, terms: Autoscaling, events: EventQueue) -> None:
        self._cluster, self._terms, self._events = cluster, terms, events
        #: Nodes closed by autoscaling, and when each of those that have left did so.
        self._closed: set[NodeId] = set()
        self._out_since: dict[NodeId, float] = {}
        #: The (start, end) of the absences of nodes that have come back.
        self._absences: list[tuple[float, float]] = []
        #: When a job last ran.
        self._last_use = events.now
        events.schedule(events.now, self._look, repeats=True)

    @property
    def closed(self) -> frozenset[NodeId]:
        """The nodes that take no work: those that have left, and those that will once they are empty."""
        return frozenset(self._closed)

    @property
    def out(self) -> frozenset[NodeId]:
        """The nodes that have left."""
        return frozenset(self._out_since)

    def out_seconds(self, now: float) -> float:
        """Return the node-seconds until then that nodes were out of service."""
        absences = [*self._absences, *((since, now) for since in self._out_since.values())]
        return sum(max(min(until, now) - since, 0.0) for since, until in absences)

    def _look(self) -> bool:
        facts, now = self._cluster.round_engine.facts, self._events.now
        if facts.running:
            self._last_use = now
        is_over = not self._events.finite and (not facts.jobs or now - self._last_use > _IN_VAIN_SECONDS)
        if is_over:
            return False
        self._events.schedule(now + self._terms.every_seconds, self._look, repeats=True)
        for node in facts.frame.nodes:
            if node.id in self._closed and node.schedulable:
                self._put_back([node.id])  # Something else has opened it.
        nodes = self._in_order()
        rooms = [sum(gpu.healthy for gpu in node.gpus) for node in nodes]
        serving = sum(node.id not in self._closed for node in nodes)
        jobs = [job for job in facts.jobs.values() if not (job.held or job.cancelling or job.awaits)]
        number = nodes_needed(self._terms, rooms, serving, jobs, facts.current)
        opened = [node.id for node in nodes[:number] if node.id in self._closed]
        closed = [node.id for node in nodes[number:] if node.id not in self._closed]
        if opened:
            self._put_back(opened)
            self._cluster.reconfigure(partial(_open, frozenset(opened)))
        if closed:
            self._closed.update(closed)
            self._cluster.close_nodes(closed)
            self._leave()
        # Without jobs nothing changes.
        return bool((opened or closed) and facts.jobs)

    def _in_order(self) -> list[Node]:
        """Return the nodes that can serve, those that should stay first.

        Nodes with the most GPUs in use come first, and closed nodes last.
        """
        facts = self._cluster.round_engine.facts
        held = self._held()
        able = [
            node
            for node in facts.frame.nodes
            if (node.takes_work or node.id in self._closed) and any(gpu.healthy for gpu in node.gpus)
        ]
        return sorted(
            able,
            key=lambda node: (
                node.id in self._closed,
                node.id in self._out_since,
                -sum(gpu.id in held for gpu in node.gpus),
                node.id,
            ),
        )

    def _held(self) -> set[int]:
        facts = self._cluster.round_engine.facts
        return {gpu for held in facts.running.values() if held.phase == "held" for gpu in held.gpus}

    def _put_back(self, numbers: Collection[NodeId]) -> None:
        for number in numbers:
            self._closed.discard(number)
            if number in self._out_since:
                self._absences.append((self._out_since.pop(number), self._events.now))

    def _leave(self, pause_seconds: float = 0.0) -> bool:
        """Let empty closed nodes leave, and the others once they are empty."""
        held, now = self._held(), self._events.now
        staying = False
        for node in self._cluster.round_engine.facts.frame.nodes:
            if node.id in self._closed and node.id not in self._out_since:
                if any(gpu.id in held for gpu in node.gpus):
                    staying = True
                else:
                    self._out_since[node.id] = now
        if staying:
            # A job that leaves at this instant may do so after this event; so check again soon.
            self._events.schedule(now + pause_seconds, partial(self._leave, 1.0))
        return False


def _open(numbers: frozenset[NodeId], facts: Snapshot) -> Snapshot:
    nodes = [replace(node, schedulable=True) if node.id in numbers else node for node in facts.nodes]
    return replace(facts, nodes=tuple(nodes))


def nodes_needed(
    terms: Autoscaling,
    rooms: Sequence[int],
    serving: int,
    jobs: Sequence[Job],
    running: Mapping[JobId, Running],
) -> int:
    """Return how many nodes should be in service instead of `serving`.

    `rooms` has the GPUs of all nodes, those in service first.
    """
    most = min(len(rooms), terms.max_nodes or len(rooms))
    least = min(terms.min_nodes, most)
    possible = [job for job in jobs if _has_room(job, rooms[:most])]
    while least < most and not all(_has_room(job, rooms[:least]) for job in possible):
        least += 1
    serving = min(max(serving, least), most)
    if least == most:
        return most
    if not possible:
        return least

    @cache
    def utility_of(number: int) -> float:
        return utility(rooms[:number], possible, running)

    if terms.low_utility <= utility_of(serving) <= terms.high_utility:
        return serving
    target = (terms.low_utility + terms.high_utility) / 2
    low, high = least, most
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if utility_of(middle) <= target else (middle + 1, high)
    # If even the maximum is in full use, all are needed.
    around = [number for number in (low - 1, low) if number >= least and utility_of(low) <= target] or [most]
    return min(around, key=lambda number: (abs(utility_of(number) - target), number))


def utility(rooms: Sequence[int], jobs: Sequence[Job], running: Mapping[JobId, Running]) -> float:
    """Return the sum of the jobs' speedups over one GPU on nodes with `rooms` GPUs each.

    A job that cannot run on one GPU is compared with its best size. A job that gets no GPUs counts with the
    fewest that it needs.
    """
    total = sum(rooms)
    fitting = [job for job in jobs if least_gpus(job) <= total]
    unmet = float(sum(least_gpus(job) for job in jobs if least_gpus(job) > total))
    if not fitting:
        return unmet / max(total, 1)
    fitting.sort(key=lambda job: (-job.priority, job.submitted_at, job.id))
    gangs = tuple([_gang(job, running.get(job.id), total) for job in fitting])
    models = tuple([_model_of(job) for job in fitting])
    rigid = tuple([job.elastic is None for job in fitting])
    cycle = Cycle(
        room=tuple(rooms),
        limit=total,
        gangs=gangs,
        models=models,
        is_rigid=rigid,
        # No job has a place yet, so restarts cost nothing.
        ages=(1.0,) * len(gangs),
        restarts=(0,) * len(gangs),
        weights=(1.0,) * len(gangs),
        power=-1.0,
        restart_seconds=0.0,
        apart=True,
        most_nodes=len(rooms),
    )
    speedups = speedup_table(models, gangs, 1.0, (False,) * len(gangs))
    found = 0.0
    for number, row in enumerate(solve(cycle, GREEDY, seed=0).rows):
        if row:
            of_one = float(speedups[int(len(row) > 1), number, sum(row.values())])
            found += of_one * gangs[number].replica_gpus
        else:
            unmet += least_gpus(fitting[number])
    return (found + unmet) / total


def _model_of(job: Job) -> GoodputModel | None:
    """Return how the job scales on the only GPU model."""
    models = () if job.goodput is None else tuple(job.goodput.parameters)
    return goodput_model_of(job, models[0]) if models else None


def _gang(job: Job, running: Running | None, limit: int) -> Gang:
    each = _replica_gpus(job)
    sizes = tuple([gpus // each for gpus in all_sizes_of(job) if gpus <= limit])
    if job.elastic is not None:
        bound = most_replicas(job, running)
        sizes = tuple([size for size in sizes if size <= bound]) or sizes[:1]
    return Gang(replica_gpus=each, sizes=sizes)


def _replica_gpus(job: Job) -> int:
    return job.tasks[0].gpus if len(job.tasks) == 1 else 1


def _has_room(job: Job, rooms: Sequence[int]) -> bool:
    """Whether the fewest GPUs of a job fit on empty nodes."""
    each = _replica_gpus(job)
    return sum(room // each for room in rooms) * each >= least_gpus(job)
