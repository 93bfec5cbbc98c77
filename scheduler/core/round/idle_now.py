"""For which jobs there are GPUs now, before any policy has chosen: by counting, not by placing."""

from __future__ import annotations

from scheduler.core.fitting.demand import least_gpus, models_of
from scheduler.core.model.snapshot import GpuId, Job
from scheduler.core.round.facts import Facts


class IdleNow:
    """Counts what is idle, what guaranteed jobs may reclaim, and what is left of each guarantee."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        #: By owner, priority and model: what is open to such a job.
        self._known: dict[tuple[str, int, str], int] = {}
        #: By model, and by owner (a virtual cluster, or "" for opportunistic jobs) and priority of those who
        #: have them: the usable GPUs that are had, and how many there are of each holder, usable or not.
        self._held: dict[str, dict[tuple[str, int], tuple[set[GpuId], list[int]]]] = {}
        for running in facts.running.values():
            first = facts.jobs.get(running.jobs[0])
            owner = first.virtual_cluster if first is not None and facts.is_guaranteed(running) else ""
            groups = self._held.setdefault(running.gpu_model, {})
            usable, counts = groups.setdefault((owner, facts.priority_of(running.jobs)), (set(), []))
            usable.update([gpu for gpu in running.gpus if facts.is_usable(gpu)])
            counts.append(len(running.gpus))

    def are_enough_for(self, job: Job) -> bool:
        """Whether a job that waits might start without the end of any job that has a claim as good."""
        if job.has_parts:
            # GPUs that others have may have room for it.
            return True
        return any(self._open(job, model) >= least_gpus(job) for model in models_of(job, self._facts.cluster))

    def _open(self, job: Job, model: str) -> int:
        """Return what is idle, or held by those who have to make room for the job."""
        key = job.virtual_cluster if job.guaranteed else "", job.priority, model
        if key not in self._known:
            self._known[key] = self._open_to(*key)
        return self._known[key]

    def _open_to(self, owner: str, highest: int, model: str) -> int:
        had, taken = 0, set[GpuId]()
        for (holder, priority), (usable, counts) in self._held.get(model, {}).items():
            if (owner and not holder) or (holder == owner and priority < highest):
                continue
            taken |= usable
            had += sum(counts) if holder == owner else 0
        left = self._facts.cluster.fleets[model].total_usable - len(taken)
        if not owner:
            return left
        return min(left, self._facts.virtual_clusters[owner].guaranteed.get(model, 0) - had)
