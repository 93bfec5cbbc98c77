"""Which jobs may share GPUs, by their virtual cluster's setting, memory, and measurements.

A virtual cluster shares never, where measured, or freely. With "where measured", two applications do not
share, alone or within a larger group, if they were measured to make less progress together than by taking
turns. Pairs that were not measured share only if the policy knows their profiles. A prediction from two
profiles is not a measurement, and is made only for jobs that may share freely. The memory that jobs are known
to use must fit into the smallest GPU that they may be on, as far as both are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from scheduler.core.building_blocks.policy import View
from scheduler.core.fitting.demand import models_of
from scheduler.core.model.gpu_parts import SHARE_FREE, SHARE_MEASURED, SHARE_NEVER
from scheduler.core.model.interference import GroupSpeeds, PairSpeeds
from scheduler.core.model.snapshot import Job
from scheduler.core.model.training import Profile
from scheduler.core.perf.interference import predicted

#: The speed of each of two jobs beside the other, relative to alone.
Speeds = tuple[float, float]


def shares_gpus(view: View, job: Job) -> bool:
    """Whether it shares whole GPUs with any other job."""
    is_allowed = view.sharing.get(job.virtual_cluster, SHARE_MEASURED) != SHARE_NEVER
    return is_allowed and not job.has_parts


class CoLocation:
    """What a view knows about sharing."""

    def __init__(self, view: View) -> None:
        self._view = view
        cluster = view.capacity.cluster
        #: The least memory of a GPU of each model, where it is known of all of them.
        self._memory = {
            model: min([gpu.memory_bytes for node in fleet.nodes for gpu in node.gpus], default=0)
            for model, fleet in cluster.fleets.items()
        }
        known: list[PairSpeeds | GroupSpeeds] = [*view.pair_speeds, *view.group_speeds]
        self._harmful = {(*sorted(each.applications), each.gpus) for each in known if sum(each.speeds) <= 1}
        #: The lowest speed measured of the first of two applications beside the second, by number of GPUs.
        self._measured: dict[tuple[str, str, int], float] = {}
        for pair in view.pair_speeds:
            for own, other in ((0, 1), (1, 0)):
                key = pair.applications[own], pair.applications[other], pair.gpus
                self._measured[key] = min(self._measured.get(key, 1.0), pair.speeds[own])
        self._foretold: dict[tuple[Profile | None, Profile | None], Speeds | None] = {}

    @property
    def is_unlimited(self) -> bool:
        """Whether nothing known forbids any two jobs that share at all to share with each other."""
        is_measured = SHARE_MEASURED in self._view.sharing.values() or not self._view.sharing
        knows_memory = any(self._memory.values()) and any(
            job.profile is not None and job.profile.memory_bytes for job in self._view.jobs.values()
        )
        return not knows_memory and not (is_measured and self._harmful)

    def shares(self, job: Job) -> bool:
        """Whether it shares whole GPUs with any other job."""
        return shares_gpus(self._view, job)

    def may_share(self, jobs: Sequence[Job]) -> bool:
        """Whether these jobs, which all share, may have the same GPUs."""
        if not self._fits(jobs):
            return False
        if not self._harmful:
            return True
        return not any(
            (*sorted([job.application for job in some]), some[0].gpus) in self._harmful
            and SHARE_MEASURED in [self._switch(job) for job in some]
            for size in range(2, len(jobs) + 1)
            for some in combinations(jobs, size)
        )

    def measured(self, job: Job, other: Job) -> float | None:
        """Return the lowest speed measured of a job beside another; None where it was not measured."""
        if not (job.application and other.application):
            return None
        return self._measured.get((job.application, other.application, job.gpus))

    def foretold(self, pairs: Sequence[tuple[Job, Job]]) -> list[Speeds | None]:
        """Return how fast the jobs of each pair are expected to be beside each other.

        None: the two were measured, may not share freely, or have profiles that do not suffice.
        """
        keys = [
            (one.profile, other.profile) if self._may_be_foretold(one, other) else None
            for one, other in pairs
        ]
        fresh = [key for key in dict.fromkeys(keys) if key is not None and key not in self._foretold]
        firsts, seconds = [one for one, _ in fresh], [other for _, other in fresh]
        answers = predicted(self._view.interference, firsts + seconds, seconds + firsts)
        for place, key in enumerate(fresh):
            one, other = answers[place], answers[place + len(fresh)]
            self._foretold[key] = None if one is None or other is None else (one, other)
        return [None if key is None else self._foretold[key] for key in keys]

    def _may_be_foretold(self, one: Job, other: Job) -> bool:
        return (
            bool(self._view.interference)
            and self._switch(one) == self._switch(other) == SHARE_FREE
            and (one.application, other.application, one.gpus) not in self._measured
            and self._fits((one, other))
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
