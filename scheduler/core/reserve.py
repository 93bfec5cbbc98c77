"""Step 2, reserve: what each virtual cluster may use this round, by counts of GPUs per model.

A guaranteed view may use any usable GPU that no guaranteed job of another virtual cluster holds, up to its
guarantee per model; those of opportunistic jobs may be reclaimed. The spare view, which serves the
opportunistic jobs of every virtual cluster, gets what the guaranteed views leave.

Counts do not promise *shapes*: a guarantee of eight GPUs may find them scattered over eight nodes. The
virtual cluster that uses the smallest part of its guarantee goes first, so that when failures leave less
than is guaranteed, no one gains from its name.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

from scheduler.core.admit import Admission
from scheduler.core.capacity import EVICTING, Capacity
from scheduler.core.facts import Facts
from scheduler.core.holding import Holding, Part
from scheduler.core.packing import Layer
from scheduler.core.policy import View
from scheduler.core.snapshot import Job, JobId, Running, VirtualCluster

#: The view that serves opportunistic jobs; no virtual cluster may have this name.
SPARE = "spare"

UNKNOWN = float("inf")


def survey(facts: Facts, admission: Admission) -> Capacity:
    """Return what the whole cluster has to offer before anyone was served."""
    layers: dict[str, list[Layer]] = {}
    evictable: dict[tuple[str, int], list[tuple[Holding, Part]]] = {}
    claims: dict[str, list[Part]] = {model: [] for model in facts.cluster.models}
    leaving: dict[str, list[Part]] = {model: [] for model in facts.cluster.models}
    for running in facts.running:
        holding = facts.holdings[running.allocation]
        if running.allocation in facts.stale:
            continue
        ends = running.stopping or running.allocation in admission.endings
        # A promise that is dropped leaves nothing behind: its GPUs still have the holder they had.
        if ends and running.phase == "planned":
            continue
        (leaving if ends else claims)[holding.model] += holding.parts
        if holding.evictable and not ends:
            for part in holding.parts:
                evictable.setdefault((holding.model, part.node), []).append((holding, part))
    for candidates in evictable.values():
        candidates.sort(key=lambda candidate: candidate[0].disturbance)
    for model, fleet in facts.cluster.fleets.items():
        releasing = Layer(
            list(fleet.usable),
            [node.cpus or UNKNOWN for node in fleet.nodes],
            [node.memory_bytes or UNKNOWN for node in fleet.nodes],
            fleet.largest_node,
        )
        for part in claims[model]:
            releasing.remove(part.node, part.mask, part.cpus, part.memory)
        idle, evicting = releasing.copy(), releasing.copy()
        for part in leaving[model]:
            idle.remove(part.node, part.mask, part.cpus, part.memory)
        layers[model] = [idle, releasing, evicting]
    for (model, node), candidates in evictable.items():
        usable = facts.cluster.fleets[model].usable[node]
        for _, part in candidates:
            layers[model][EVICTING].add(node, part.mask & usable, part.cpus, part.memory)
    return Capacity(facts.cluster, layers, evictable)


def _view_of(job: Job) -> str:
    return job.virtual_cluster if job.guaranteed else SPARE


class Reservation:
    """Cuts the views out of what is left of the cluster."""

    def __init__(self, facts: Facts, admission: Admission) -> None:
        self.facts = facts
        self._jobs: dict[str, dict[JobId, Job]] = {SPARE: {}}
        for job in admission.admitted.values():
            self._jobs.setdefault(_view_of(job), {})[job.id] = job
        self._running: dict[str, list[Running]] = {}
        for running in facts.running:
            jobs = [admission.admitted[job] for job in running.jobs if job in admission.admitted]
            views = {_view_of(job) for job in jobs}
            if facts.is_live(running) and len(jobs) == len(running.jobs) and len(views) == 1:
                self._running.setdefault(views.pop(), []).append(running)

    def order(self) -> Iterator[VirtualCluster]:
        """Yield the virtual clusters, those that use the smallest part of their guarantee first."""

        def use(vc: VirtualCluster) -> tuple[float, str]:
            used = sum(self.used(vc.name).values())
            return used / max(sum(vc.guaranteed.values()), 1), vc.name

        yield from sorted(self.facts.snapshot.virtual_clusters, key=use)

    def used(self, name: str) -> dict[str, int]:
        """Return the GPUs that a view's jobs hold, by model."""
        used: dict[str, int] = {}
        for running in self._running.get(name, ()):
            holding = self.facts.holdings[running.allocation]
            used[holding.model] = used.get(holding.model, 0) + holding.gpus
        return used

    def guaranteed(self, vc: VirtualCluster, cluster: Capacity) -> View:
        """Return the view of a virtual cluster's guaranteed jobs."""
        # What runs may stay when an operator lowers the guarantee; nothing new starts above it.
        used = self.used(vc.name)
        limits = {model: max(vc.guaranteed.get(model, 0), used.get(model, 0)) for model in cluster.models}
        own = self._own(vc.name, cluster)
        return View(
            name=vc.name,
            guaranteed=True,
            members=vc.members,
            default_time_limit_seconds=vc.default_time_limit_seconds,
            capacity=cluster.narrowed(limits, own, may_evict=True),
            **self._common(vc.name, own),
        )

    def spare(self, cluster: Capacity) -> View:
        """Return the view of the opportunistic jobs of every virtual cluster."""
        own = self._own(SPARE, cluster)
        capacity = cluster.narrowed(None, own, may_evict=False)
        return View(name=SPARE, guaranteed=False, members=(), capacity=capacity, **self._common(SPARE, own))

    def _own(self, name: str, cluster: Capacity) -> list[Holding]:
        """Return what the view's jobs hold and no view before it has reclaimed."""
        holdings = [self.facts.holdings[running.allocation] for running in self._running.get(name, ())]
        return [holding for holding in holdings if not cluster.was_dropped(holding)]

    def _common(self, name: str, own: Sequence[Holding]) -> dict[str, Any]:
        snapshot = self.facts.snapshot
        held = [holding.running for holding in own if holding.running is not None]
        return {
            "now": snapshot.now,
            "round_seconds": snapshot.round_seconds,
            "jobs": self._jobs.get(name, {}),
            "running": {job: running for running in held for job in running.jobs},
            "rng": random.Random(f"{snapshot.round_number}:{name}"),
        }
