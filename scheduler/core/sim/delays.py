"""Delays in the shared cluster beside those in a private one: plain values, for reports and tables.

`anomalies` defines and computes them. Times are in seconds, instants as in the facts compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler.core.model.reason_kinds import Cause
from scheduler.core.model.snapshot import JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """One job here and there, in seconds."""

    job: JobId
    tenant: str
    gpus: int
    submitted_at: float
    real_seconds: float
    private_seconds: float
    #: The whole wait, including waits after preemptions.
    real_waiting_seconds: float
    private_waiting_seconds: float
    #: Whether it needs GPUs near each other: a replica of several GPUs, or a required topology level.
    hard_affinity: bool

    @property
    def extra_seconds(self) -> float:
        return self.real_seconds - self.private_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Why a job waited at the instant at which its private cluster would have started it."""

    cause: Cause = Cause.OTHER
    #: The reason that its users saw then.
    message: str = ""
    round_number: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """A job that waited longer here than there by more than the tolerance."""

    delay: Delay
    evidence: Evidence = field(default_factory=Evidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Delays of many jobs, in seconds."""

    mean: float
    p95: float
    #: Mean of the waiting in all.
    waiting_mean: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Mean delays of the jobs submitted from `at` until the next point."""

    at: float
    real_seconds: float
    private_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The guaranteed jobs of one virtual cluster, here and in its private cluster."""

    virtual_cluster: str
    jobs: int
    tolerance_seconds: float
    real: Spread
    private: Spread
    #: The worst first.
    anomalies: tuple[Anomaly, ...]
    series: tuple[Point, ...] = ()
    #: Jobs left out, because the private cluster could never run them.
    never: int = 0

    @property
    def total_extra_seconds(self) -> float:
        return sum(anomaly.delay.extra_seconds for anomaly in self.anomalies)

    @property
    def hard_affinity_count(self) -> int:
        return sum(anomaly.delay.hard_affinity for anomaly in self.anomalies)
