"""The measures of a simulation: plain frozen values, ready for JSON.

docs/simulator-report.md describes every field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.simulation.report.distribution import Distribution
from scheduler.simulation.report.tenancy import TenantShare
from scheduler.simulation.report.timeline import ClusterUse


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The jobs of the window (all without one) by their outcome; the kinds add up to `measured`."""

    #: In the whole workload.
    workload: int
    #: In the window.
    measured: int
    #: Ran and ended; completion times are those of these jobs.
    ended: int
    #: Cancelled before they ever ran.
    ended_waiting: int
    #: Still running when the simulation ended; below, still waiting.
    running: int
    waiting: int
    #: Jobs this cluster can never run.
    never: int
    #: Ended, but had no work to do; these jobs have no slowdown and no rho.
    without_work: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The jobs of the window with one gang size, virtual cluster or tenant."""

    name: str
    jobs: int
    ended: int
    gpu_hours: float
    completion_seconds: Distribution | None
    queueing_seconds: Distribution | None
    mean_rho: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusHours:
    """GPU-hours of all jobs of one final status; useful + overhead + lost = gpu_hours."""

    status: str
    jobs: int
    gpu_hours: float
    useful_gpu_hours: float
    overhead_gpu_hours: float
    lost_gpu_hours: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EndKind:
    """The stays on GPUs that ended in one way ("preempted", "moved", ...)."""

    end: str
    stays: int
    gpu_hours: float
    #: Starting, restoring, writing checkpoints.
    overhead_gpu_hours: float
    #: Reference work that was done and then lost, times the gang's size.
    lost_work_gpu_hours: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Interruptions:
    """Preemptions and migrations of all jobs, and the cost of all overheads and losses together."""

    preemptions: int
    preempted_jobs: int
    most_preemptions: int
    migrations: int
    overhead_gpu_hours: float
    lost_gpu_hours: float
    #: (overhead + lost) / held; 0 when nothing was held.
    cost_share: float
    ends: tuple[EndKind, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fairness:
    """Fairness, as `fairness` defines it; rho is over the jobs of the window that ended."""

    rho: Distribution | None
    #: The part of these jobs with rho > 1.
    rho_above_one: float | None
    #: Jain's index of the GPU-time of each tenant, over all jobs.
    jain_gpu_time: float | None
    #: Jain's index of the part of its entitlement that each tenant had.
    jain_of_parts: float | None
    #: See `tenancy`.
    tenants: tuple[TenantShare, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """One policy's figures: those of single jobs over the window, those of the cluster over the whole run."""

    policy: str
    placer: str
    #: How guarantees are stated: "counts" of GPUs, or "cells".
    division: str
    workload: str
    cluster: str
    seed: int
    round_seconds: float
    gpus_by_model: Mapping[str, int]
    #: The measured jobs, by index from 0: [first, end); None for all.
    window: tuple[int, int] | None
    jobs: Counts
    completion_seconds: Distribution | None
    queueing_seconds: Distribution | None
    #: Completion time / run time alone.
    slowdown: Distribution | None
    fairness: Fairness
    by_gang_size: tuple[Group, ...]
    by_virtual_cluster: tuple[Group, ...]
    by_tenant: tuple[Group, ...]
    #: First submission to last end of all jobs; None when a job had not ended.
    makespan_seconds: float | None
    #: Virtual time that was simulated.
    span_seconds: float
    cluster_use: ClusterUse | None
    gpu_hours: float
    #: The node-hours in service; None where they were not counted.
    node_hours: float | None
    #: "fixed", or "autoscaled".
    nodes: str
    by_status: tuple[StatusHours, ...]
    interruptions: Interruptions
    rounds: int
    elapsed_seconds: float
    decide_seconds: float
    cut_short: str
    degraded: Mapping[str, str]
    notes: tuple[str, ...]
