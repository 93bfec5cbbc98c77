"""Which jobs may have the same GPUs: by the switch of their virtual clusters, memory, and what was measured.

A virtual cluster shares never, where measured, or freely. Where measured, two applications do not share that
made less progress together, when that was measured, than they would taking turns. Where nobody measured the
two, it is the policy that needs a measure: it lets no jobs share whose profiles it does not know. Of memory,
what jobs are known to use must fit into the smallest GPU that they may be on, as far as both are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from scheduler.core.building_blocks.policy import View
from scheduler.core.fitting.demand import models_of
from scheduler.core.model.gpu_parts import SHARE_MEASURED, SHARE_NEVER
from scheduler.core.model.snapshot import Job


class CoLocation:
    """What is known of sharing in a view."""

    def __init__(self, view: View) -> None:
        self._view = view
        cluster = view.capacity.cluster
        #: The least memory of a GPU of each model, where it is known of all of them.
        self._memory = {
            model: min([gpu.memory_bytes for node in fleet.nodes for gpu in node.gpus], default=0)
            for model, fleet in cluster.fleets.items()
        }
        self._harmful = {
            (*sorted(pair.applications), pair.gpus) for pair in view.pair_speeds if sum(pair.speeds) <= 1
        }

    @property
    def is_unlimited(self) -> bool:
        """Whether nothing is known by which two jobs that share at all could not share with each other."""
        is_measured = SHARE_MEASURED in self._view.sharing.values() or not self._view.sharing
        knows_memory = any(self._memory.values()) and any(
            job.profile is not None and job.profile.memory_bytes for job in self._view.jobs.values()
        )
        return not knows_memory and not (is_measured and self._harmful)

    def shares(self, job: Job) -> bool:
        """Whether it shares whole GPUs with anybody at all."""
        return self._switch(job) != SHARE_NEVER and all(task.part is None for task in job.tasks)

    def may_share(self, jobs: Sequence[Job]) -> bool:
        """Whether these, which all share, may have the same GPUs."""
        if not self._fits(jobs):
            return False
        if not self._harmful:
            return True
        return not any(
            (*sorted((one.application, other.application)), one.gpus) in self._harmful
            and SHARE_MEASURED in (self._switch(one), self._switch(other))
            for one, other in combinations(jobs, 2)
        )

    def _switch(self, job: Job) -> str:
        return self._view.sharing.get(job.virtual_cluster, SHARE_MEASURED)

    def _fits(self, jobs: Sequence[Job]) -> bool:
        used = [job.profile.memory_bytes if job.profile else None for job in jobs]
        models = models_of(jobs[0], self._view.capacity.cluster)
        least = min([self._memory.get(model, 0) for model in models], default=0)
        if not least:
            return True
        return sum([memory for memory in used if memory is not None]) <= least
