"""The cluster over time: waiting jobs and idle GPUs, sampled after every round."""

from __future__ import annotations

from collections import Counter

from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.cluster import Cluster
from scheduler.core.model.snapshot import Job
from scheduler.core.sim.result import Sample


class ClusterSampler:
    """Counts kept as jobs come and go, so that a sample costs little."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []
        #: Waiting jobs by the size of their largest replica.
        self._waiting: Counter[int] = Counter()
        self._waiting_gpus = self._waiting_jobs = self._running_jobs = 0

    def add_waiting(self, job: Job) -> None:
        """Note that the job waits from now on."""
        self._count(job, 1)

    def start(self, job: Job) -> None:
        """Note that a waiting job runs from now on."""
        self._count(job, -1)
        self._running_jobs += 1

    def drop_running(self) -> None:
        """Note that a running job has left its GPUs."""
        self._running_jobs -= 1

    def drop_waiting(self, job: Job) -> None:
        """Note that a waiting job is gone."""
        self._count(job, -1)

    def _count(self, job: Job, change: int) -> None:
        self._waiting[_largest(job)] += change
        self._waiting_jobs += change
        self._waiting_gpus += change * job.gpus

    def sample(self, now: float, cluster: Cluster, capacity: Capacity, held_gpus: int) -> None:
        """Record the present state."""
        waiting = [size for size, jobs in self._waiting.items() if jobs and size]
        # If no job waits, the measure is whether a job that fills a node would fit.
        largest = max(waiting or [1, *(fleet.largest_node for fleet in cluster.fleets.values())])
        idle = stranded = 0
        for offered, nodes in capacity.idle_nodes():
            idle += offered * nodes
            stranded += offered % largest * nodes
        self.samples.append(
            Sample(
                at=now,
                usable_gpus=sum([fleet.total_usable for fleet in cluster.fleets.values()]),
                held_gpus=held_gpus,
                running_jobs=self._running_jobs,
                waiting_jobs=self._waiting_jobs,
                waiting_gpus=self._waiting_gpus,
                fragmentation=stranded / idle if idle else 0.0,
            )
        )


def _largest(job: Job) -> int:
    return max([task.gpus for task in job.tasks])
