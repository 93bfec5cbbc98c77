"""For which jobs there are GPUs now, before any policy has chosen: by counting, not by placing."""

from __future__ import annotations

from collections import Counter

from scheduler.core.fitting.demand import least_gpus, models_of
from scheduler.core.model.snapshot import GpuId, Job
from scheduler.core.round.facts import Facts


class IdleNow:
    """Counts what is idle, what guaranteed jobs may reclaim, and what is left of each guarantee."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        #: GPUs that are held or promised, and those of them that are so for guaranteed jobs.
        self._taken: dict[str, set[GpuId]] = {}
        self._guaranteed: dict[str, set[GpuId]] = {}
        #: By virtual cluster and model: what its guaranteed jobs have.
        self._had: Counter[tuple[str, str]] = Counter()
        for running in facts.running.values():
            usable = [gpu for gpu in running.gpus if facts.is_usable(gpu)]
            self._taken.setdefault(running.gpu_model, set()).update(usable)
            if facts.is_guaranteed(running):
                self._guaranteed.setdefault(running.gpu_model, set()).update(usable)
                first = facts.jobs.get(running.jobs[0])
                if first is not None:
                    self._had[first.virtual_cluster, running.gpu_model] += len(running.gpus)

    def are_enough_for(self, job: Job) -> bool:
        """Whether a job that waits might start without the end of any job that has a claim as good."""
        if job.has_parts:
            # GPUs that others have may have room for it.
            return True
        return any(self._open(job, model) >= least_gpus(job) for model in models_of(job, self._facts.cluster))

    def _open(self, job: Job, model: str) -> int:
        usable = self._facts.cluster.fleets[model].total_usable
        if not job.guaranteed:
            return usable - len(self._taken.get(model, ()))
        vc = self._facts.virtual_clusters[job.virtual_cluster]
        left = vc.guaranteed.get(model, 0) - self._had[job.virtual_cluster, model]
        return min(left, usable - len(self._guaranteed.get(model, ())))
