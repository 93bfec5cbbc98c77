"""The assumed speed of an elastic job with more or fewer GPUs, by its measured goodput.

A forecast does not know the truth. It assumes that the goodput facts of a job hold to its end, at the best
batch for the GPUs that it has. The rate of the job is the goodput there relative to that of its own gang,
near to each other on the same GPU model. A job of fixed world size keeps its batch, and its ranks share
devices: d of W devices make d / W of its progress. The rate of every other job is as in `Speeds`: linear
where no table has it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler.core.building_blocks.elastic.speedups import relative_goodput
from scheduler.core.model.snapshot import FIXED_WORLD, Job, JobId
from scheduler.core.sim.speeds import Speeds


def scales_by_facts(job: Job) -> bool:
    """Return whether the job's speed with more or fewer GPUs is known."""
    is_known = job.goodput is not None or job.elastic_mode == FIXED_WORLD
    return job.elastic is not None and is_known


@dataclass(frozen=True, slots=True, kw_only=True)
class GoodputSpeeds(Speeds):
    """Rates by the goodput facts of jobs. Each id must refer to only one job."""

    #: By job, its own GPUs, GPU model, the GPUs that it has, and whether these are on several nodes.
    known: dict[tuple[JobId, int, str, int, bool], float | None] = field(default_factory=dict, repr=False)

    def alone(self, job: Job, gpu_model: str, gpus: int, nodes: int) -> float:
        """Return the seconds of work, measured for the job's own gang, done in a second."""
        if job.goodput is None or job.elastic is None or job.elastic_mode == FIXED_WORLD:
            return Speeds.alone(self, job, gpu_model, gpus, nodes)
        key = job.id, job.gpus, gpu_model, gpus, nodes > 1
        if key not in self.known:
            own_is_spread = job.gpus > self.gpus_per_node
            self.known[key] = relative_goodput(
                job, gpu_model, gpus, is_spread=nodes > 1, own_is_spread=own_is_spread
            )
        rate = self.known[key]
        return Speeds.alone(self, job, gpu_model, gpus, nodes) if rate is None else rate
