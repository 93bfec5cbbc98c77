"""Count which jobs could have GPUs now, before any policy has decided; nothing is placed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain

from scheduler.core.fitting.demand import least_gpus, models_of
from scheduler.core.model.snapshot import GpuId, Job
from scheduler.core.round.facts import Facts


class _Had:
    """The GPUs of one model that each owner has: a virtual cluster, or "" for opportunistic jobs."""

    def __init__(self) -> None:
        #: By owner and priority: the GPUs of each replica.
        self.by_owner: dict[str, dict[int, list[Sequence[GpuId]]]] = {}
        self._holders: dict[bool, Counter[GpuId]] = {}

    def add(self, owner: str, priority: int, replicas: Sequence[Sequence[GpuId]]) -> None:
        self.by_owner.setdefault(owner, {}).setdefault(priority, []).extend(replicas)

    def holders(self, model: str, facts: Facts, *, is_guaranteed: bool) -> Counter[GpuId]:
        """Return how many allocations, guaranteed or any, have each usable GPU.

        A GPU that is about to be free has several.
        """
        if is_guaranteed not in self._holders:
            owners = [own for owner, own in self.by_owner.items() if owner or not is_guaranteed]
            every = [gpus for own in owners for group in own.values() for gpus in group]
            found = self._holders[is_guaranteed] = Counter(chain.from_iterable(every))
            fleet = facts.cluster.fleets[model]
            some_are_not = fleet.total_usable < fleet.total or not facts.cluster.where.keys() >= found.keys()
            for gpu in [gpu for gpu in found if not facts.is_usable(gpu)] if some_are_not else ():
                del found[gpu]
        return self._holders[is_guaranteed]


class IdleNow:
    """Counts idle GPUs, those that guaranteed jobs may reclaim, and the rest of each guarantee."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        #: By owner, priority and model: the GPUs open to such a job.
        self._known: dict[tuple[str, int, str], int] = {}
        self._had = {model: _Had() for model in facts.cluster.fleets}
        for running in facts.running.values():
            had, job = self._had.get(running.gpu_model), facts.jobs.get(running.jobs[0])
            if had is None:
                continue  # The last GPUs of the model are gone.
            owner = job.virtual_cluster if job is not None and facts.is_guaranteed(running) else ""
            is_alone = job is not None and len(running.jobs) == 1
            priority = job.priority if job is not None and is_alone else facts.priority_of(running.jobs)
            had.add(owner, priority, running.replicas)

    def are_enough_for(self, job: Job) -> bool:
        """Return whether a waiting job might start without ending a job with an equal or better claim."""
        if job.has_parts:
            # GPUs that are in use may have room for it.
            return True
        return any(self._open(job, model) >= least_gpus(job) for model in models_of(job, self._facts.cluster))

    def _open(self, job: Job, model: str) -> int:
        """Return the GPUs that are idle or held only by jobs that have to make room for this one."""
        key = job.virtual_cluster if job.guaranteed else "", job.priority, model
        if key not in self._known:
            self._known[key] = self._open_to(*key)
        return self._known[key]

    def _open_to(self, owner: str, highest: int, model: str) -> int:
        had, facts = self._had[model], self._facts
        own, holders = had.by_owner.get(owner, {}), had.holders(model, facts, is_guaranteed=bool(owner))
        left = facts.cluster.fleets[model].total_usable - len(holders)
        lower = [gpus for priority, group in own.items() if priority < highest for gpus in group]
        if lower:
            # GPUs held only by jobs that make room are open, like idle ones.
            below = Counter(chain.from_iterable(lower))
            left += sum([holders[gpu] == count for gpu, count in below.items()])
        if not owner:
            return left
        held = sum([len(gpus) for priority, group in own.items() if priority >= highest for gpus in group])
        return min(left, facts.virtual_clusters[owner].guaranteed.get(model, 0) - held)
