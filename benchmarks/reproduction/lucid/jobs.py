"""A job of the published simulator, and what comes of a workload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.reproduction.lucid.profiles import Configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class LucidJob:
    """A job; times in whole seconds from the workload's beginning."""

    number: int
    virtual_cluster: str
    submitted_at: int
    gpus: int
    duration: int
    configuration: Configuration
    #: Seconds, as its authors' models expect of it: that of QSSF, that of Lucid.
    qssf_estimate: int
    lucid_estimate: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """When jobs ended, by number, in seconds from the workload's beginning."""

    ended_at: dict[int, int]
    #: Jobs that ended while they were profiled, and that ever shared GPUs.
    ended_in_profiler: int = 0
    shared: int = 0

    def mean_seconds(self, jobs: Sequence[LucidJob]) -> float:
        """Return the mean completion time."""
        return sum([self.ended_at[job.number] - job.submitted_at for job in jobs]) / len(jobs)
