"""The cluster over time: waiting jobs and idle GPUs, a sample from each round to the next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.cluster import Cluster
from scheduler.core.model.snapshot import Job
from scheduler.core.sim.result import Sample


class ClusterSampler:
    """Counts kept as jobs come and go, so that a sample costs little."""

    def __init__(self, state: Callable[[], tuple[Cluster, int]]) -> None:
        """`state` returns the cluster and how many of its GPUs are held, both at present."""
        self._state = state
        #: The samples that have ended, and the one that has begun, as it was then.
        self._done: list[Sample] = []
        self._begun: Sample | None = None
        #: Since then: the seconds, and the sums over them of what the sample counts.
        self._seconds, self._sums = 0.0, (0.0,) * 5
        self._most_waiting = 0
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

    def sample(self, now: float, capacity: Capacity) -> None:
        """Begin a sample after a round, which left this capacity; the one before ends."""
        self._end()
        cluster, held_gpus = self._state()
        waiting = [size for size, jobs in self._waiting.items() if jobs and size]
        # If no job waits, the measure is whether a job that fills a node would fit.
        largest = max(waiting or [1, *(fleet.largest_node for fleet in cluster.fleets.values())])
        idle = stranded = 0
        for offered, nodes in capacity.idle_nodes():
            idle += offered * nodes
            stranded += offered % largest * nodes
        self._seconds, self._sums = 0.0, (0.0,) * 5
        self._begun = Sample(
            at=now,
            usable_gpus=_usable_gpus(cluster),
            held_gpus=held_gpus,
            running_jobs=self._running_jobs,
            waiting_jobs=self._waiting_jobs,
            waiting_gpus=self._waiting_gpus,
            most_waiting_jobs=self._waiting_jobs,
            fragmentation=stranded / idle if idle else 0.0,
        )
        self._most_waiting = self._waiting_jobs

    def let_pass(self, seconds: float) -> None:
        """Count the present state for these seconds."""
        usable, held, running, waiting, waiting_gpus = self._sums
        cluster, held_gpus = self._state()
        self._seconds += seconds
        self._sums = (
            usable + seconds * _usable_gpus(cluster),
            held + seconds * held_gpus,
            running + seconds * self._running_jobs,
            waiting + seconds * self._waiting_jobs,
            waiting_gpus + seconds * self._waiting_gpus,
        )
        self._most_waiting = max(self._most_waiting, self._waiting_jobs)

    @property
    def samples(self) -> Sequence[Sample]:
        """All of them in order, the present one up to now."""
        return self._done if self._begun is None else [*self._done, self._until_now(self._begun)]

    def _end(self) -> None:
        if self._begun is not None:
            self._done.append(self._until_now(self._begun))

    def _until_now(self, begun: Sample) -> Sample:
        if (seconds := self._seconds) > 0:
            usable, held, running, waiting, waiting_gpus = [total / seconds for total in self._sums]
            begun = replace(
                begun,
                usable_gpus=usable,
                held_gpus=held,
                running_jobs=running,
                waiting_jobs=waiting,
                waiting_gpus=waiting_gpus,
                most_waiting_jobs=self._most_waiting,
            )
        return begun


def _usable_gpus(cluster: Cluster) -> int:
    """Return the GPUs of working nodes."""
    return sum([fleet.total_usable for fleet in cluster.fleets.values()])


def _largest(job: Job) -> int:
    return max([task.gpus for task in job.tasks])
