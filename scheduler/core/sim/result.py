"""The result of a simulation: a record for each job and each stay on GPUs, and the cluster over time.

Times are seconds of virtual time. Nothing here is averaged: reports and tests derive what they show.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from scheduler.core.model.snapshot import GpuId, JobId, NodeId
from scheduler.core.sim.delays import Comparison
from scheduler.core.sim.workload import Status

#: How a stay on GPUs ended; "running" when the simulation ended first.
StayEnd = Literal[
    "finished",
    "failed",
    "preempted",
    "drained",
    "moved",
    "resized",
    "cancelled",
    "time_limit",
    "lost",
    "running",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """One attempt: a job on certain GPUs, from when it held them until they were free again."""

    job: JobId
    gpu_model: str
    gpus: tuple[GpuId, ...]
    nodes: tuple[NodeId, ...]
    started_at: float
    ended_at: float
    end: StayEnd
    guaranteed: bool = True
    #: The mean part of each GPU that it had; less than 1 where it had parts.
    part: float = 1.0
    #: The jobs that had one of the same GPUs at the same time; while a simulation runs, those in its
    #: allocation.
    shared_with: tuple[JobId, ...] = ()
    #: The jobs whose placement took its GPUs, when it was preempted or moved for another.
    preempted_by: tuple[JobId, ...] = ()
    #: Seconds of the stay without progress: starting, restoring, writing a checkpoint.
    overhead_seconds: float = 0.0
    #: Seconds of reference work that were done and then lost.
    lost_seconds: float = 0.0

    @property
    def amount(self) -> float:
        """The number of GPUs that it had; a part of a GPU counts as a fraction."""
        return len(self.gpus) * self.part


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """The account of a job."""

    id: JobId
    tenant: str
    virtual_cluster: str
    application: str
    #: The GPUs that it asks for: a fraction where it has parts.
    gpus: float
    guaranteed: bool
    #: Jobs of a tenant that name the same search are one app; a job that names none is its own app.
    search: str = ""
    submitted_at: float
    #: Reference work, see `Truth.work_seconds`.
    work_seconds: float
    #: How it ended in the trace.
    status: Status
    #: Its own rate on the best model it accepts, alone and near: work_seconds / this = its run time alone.
    best_rate: float = 1.0
    first_started_at: float | None = None
    ended_at: float | None = None
    #: "succeeded", "failed", "cancelled", or "waiting" / "running" when the simulation ended first, or
    #: "never" for a job that this cluster can never run.
    outcome: str = "waiting"
    attempts: int = 0
    preemptions: int = 0
    migrations: int = 0
    #: Wall seconds on GPUs, and GPU-seconds held, overheads included.
    held_seconds: float = 0.0
    gpu_seconds: float = 0.0
    overhead_gpu_seconds: float = 0.0
    lost_gpu_seconds: float = 0.0

    @property
    def completion_seconds(self) -> float | None:
        """Job completion time (JCT): from submission to end."""
        return None if self.ended_at is None else self.ended_at - self.submitted_at

    @property
    def queueing_seconds(self) -> float | None:
        """The queueing delay: from submission to the first start."""
        return None if self.first_started_at is None else self.first_started_at - self.submitted_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The cluster from `at`, when a round was carried out, until the next sample: means over that time.

    Jobs end and arrive between rounds. If no time passed, it is the cluster as it was.
    """

    at: float
    #: GPUs of working nodes, and those of them that are held.
    usable_gpus: float
    held_gpus: float
    running_jobs: float
    waiting_jobs: float
    waiting_gpus: float
    #: The most jobs that waited at any time.
    most_waiting_jobs: int
    #: After the round, the part of the idle GPUs that the largest waiting replica cannot use; if none waits,
    #: one as large as a node.
    fragmentation: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One run: one policy on one workload on one cluster."""

    #: As on the command line, such as "tiresias:queues=2".
    policy: str
    placer: str
    workload: str
    cluster: str
    seed: int
    round_seconds: float
    gpus_by_model: Mapping[str, int]
    #: By the ids that stays have.
    node_names: Mapping[NodeId, str] = field(default_factory=dict)
    #: How guarantees are stated: "counts" of GPUs, or "cells".
    division: str = "counts"
    #: By virtual cluster, the GPUs it is guaranteed by model and its members' weights, at the beginning.
    guaranteed: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    members: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    #: By tenant and GPU model: how fast its jobs are there relative to each one's best model, averaged by
    #: their work; a model that is left out counts as equally fast.
    speeds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    jobs: tuple[JobRecord, ...]
    stays: tuple[Stay, ...]
    samples: tuple[Sample, ...]
    rounds: int
    #: The node-seconds in service, and those without autoscaling; None where they were not counted, because
    #: nodes of serving pools come and go.
    node_seconds: float | None = None
    all_node_seconds: float | None = None
    is_autoscaled: bool = False
    #: Samples of nodes that lent what guaranteed jobs did not use, those in which these used more than was
    #: kept for them, and the jobs that ran beyond what their node has.
    peak_samples: int = 0
    peaks_exceeded: int = 0
    jobs_beyond: int = 0
    #: Processor seconds of the whole run, and the part of them that its rounds took by the clock.
    elapsed_seconds: float
    decide_seconds: float
    #: Virtual time at the beginning and the end.
    began_at: float
    ended_at: float
    #: Why it ended before the last job; empty when it did not.
    cut_short: str = ""
    notes: tuple[str, ...] = ()
    #: The notes on what was not simulated.
    left_out: tuple[str, ...] = ()
    #: Rounds in which a view's policy failed, with the last message.
    degraded: Mapping[str, str] = field(default_factory=dict)
    #: Delays beside those in private clusters, by virtual cluster, if requested.
    private: tuple[Comparison, ...] = ()

    @property
    def has_run(self) -> bool:
        """Whether any job ever had GPUs."""
        return any(job.first_started_at is not None for job in self.jobs)

    @property
    def is_whole(self) -> bool:
        """Whether it ran to its end, no policy failed, and a job ran."""
        return not self.cut_short and not self.degraded and self.has_run
