"""Tiresias, and Optimus that knows the truth, as Pollux's authors compare with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.reproduction.pollux.jobs import Nodes, TickJob
from scheduler.core.sim.scaling import Placement, divided
from scheduler.simulation.errors import InputError

#: GPU-seconds after which a job of Tiresias's goes into the second queue.
TIRESIAS_THRESHOLD = 3600 * 16


class Tiresias:
    """The GPUs that jobs ask for; two queues, in order of arrival; whoever does not fit is passed over."""

    chooses_batch = False

    def __init__(self) -> None:
        self._queues: tuple[list[str], list[str]] = ([], [])
        self._executed: dict[str, int] = {}
        self._running: dict[str, bool] = {}
        self._seen_at: dict[str, int] = {}

    def decide(self, jobs: Sequence[TickJob], room: Sequence[int], now: float) -> Mapping[str, Nodes]:
        by_name, instant = {job.name: job for job in jobs}, int(now)
        for queue in self._queues:
            queue[:] = [name for name in queue if name in by_name]
        for job in jobs:
            if job.replicas > sum(room):
                raise InputError(f"{job.name} asks for {job.replicas} GPUs, and there are {sum(room)} in all")
            if job.name not in self._running:
                self._queues[0].append(job.name)
            elif self._running[job.name]:
                passed = instant - self._seen_at[job.name]
                self._executed[job.name] = self._executed.get(job.name, 0) + passed
                served = self._executed[job.name] * job.replicas
                if served >= TIRESIAS_THRESHOLD and job.name in self._queues[0]:
                    self._queues[0].remove(job.name)
                    self._queues[1].append(job.name)
            self._seen_at[job.name] = instant
        line = [*self._queues[0], *self._queues[1]]
        left = sum(room)
        for name in line:
            self._running[name] = by_name[name].replicas <= left
            left -= by_name[name].replicas if self._running[name] else 0
        kept = {name: by_name[name].nodes for name in line if self._running[name] and by_name[name].nodes}
        new = [(name, by_name[name].replicas) for name in line if self._running[name] and name not in kept]
        return placed(kept, new, room)


class Optimus:
    """Each GPU to the job whose remaining time it shortens most, by true iteration times and epochs left."""

    chooses_batch = False

    def decide(self, jobs: Sequence[TickJob], room: Sequence[int], now: float) -> Mapping[str, Nodes]:
        left, count, gain = sum(room), dict[str, int](), dict[str, float]()
        by_name = {job.name: job for job in jobs}
        remaining = {job.name: _iterations_left(job) for job in jobs}

        def worth(job: TickJob, replicas: int) -> float:
            if replicas + 1 > _most(job) or left < 1:
                return 0.0
            shorter = _seconds(job, replicas) - _seconds(job, replicas + 1)
            return shorter * remaining[job.name]

        for job in jobs:
            if left < 1:
                count[job.name], gain[job.name] = 0, 0.0
                continue
            count[job.name] = 1
            left -= 1
            gain[job.name] = worth(job, 1)
        while left > 0 and max(gain.values()) > 0:
            name = max(gain, key=lambda name: gain[name])
            count[name] += 1
            gain[name] = worth(by_name[name], count[name])
            left -= 1
        kept = {job.name: job.nodes for job in jobs if job.nodes and len(job.nodes) == count[job.name]}
        new = [(job.name, count[job.name]) for job in jobs if count[job.name] and job.name not in kept]
        return placed(kept, sorted(new, key=lambda each: each[1]), room)


def placed(
    kept: Mapping[str, Nodes], new: Sequence[tuple[str, int]], room: Sequence[int]
) -> dict[str, Nodes]:
    """Return the nodes of everyone: of those that are new, in turn, from the node with the most GPUs left."""
    free = list(room)
    for node in [node for nodes in kept.values() for node in nodes]:
        free[node] -= 1
    found = dict(kept)
    for name, replicas in new:
        given: list[int] = []
        while len(given) < replicas:
            emptiest = max(range(len(free)), key=lambda node: free[node])
            taken = min(free[emptiest], replicas - len(given))
            given += [emptiest] * taken
            free[emptiest] -= taken
        found[name] = tuple(given)
    return found


def _most(job: TickJob) -> int:
    assert job.batch is not None
    return 1 if job.application.name == "ncf" else job.batch // job.application.min_local_batch


def _iterations_left(job: TickJob) -> float:
    application, last = job.application, job.application.epochs_to_train - 1
    assert job.batch is not None
    if last <= job.epoch:
        return 1.0
    return application.iterations_at(job.batch, last) - application.iterations_at(job.batch, job.epoch)


def _seconds(job: TickJob, replicas: int) -> float:
    """Return the time of an iteration with so many replicas on as few nodes of four as possible."""
    assert job.batch is not None
    packed: Placement = (4,) * (replicas // 4) + ((replicas % 4,) if replicas % 4 else ())
    local, accumulation = divided(job.application, job.batch, replicas, 2 if replicas == 1 else 1)
    step, sync = job.application.step_seconds(packed, local)
    return step + (step - sync) * accumulation
