"""What the REST API answers about use over time and now, as types (see `allot.objects`)."""

from __future__ import annotations

from typing import Literal, TypedDict


class Series(TypedDict):
    """One measure of one GPU, replica or machine, or of all together where their fields are null."""

    kind: Literal["gpu", "host", "replica"]
    attempt: int | None
    node: str | None
    gpu: int | None
    rank: int | None
    #: With its unit, such as `power_watts`.
    measure: str
    #: [Unix seconds, mean, lowest, highest, readings]; none where there was no reading.
    points: list[list[float]]


class Metrics(TypedDict):
    since: str
    until: str
    resolution_seconds: int
    simulated: bool
    left_out: int
    series: list[Series]


class MeasuredAttempt(TypedDict):
    number: int
    started_at: str
    ended_at: str | None
    outcome: str


class JobMetrics(Metrics):
    attempts: list[MeasuredAttempt]


class JobUsage(TypedDict):
    """Sums over a running job's GPUs or replicas; null is not known."""

    job: int
    name: str
    tenant: str
    virtual_cluster: str
    attempt: int
    gpus: int
    gpu_model: str
    nodes: list[str]
    running_at: str | None
    utilisation_percent: float | None
    least_busy_percent: float | None
    gpu_memory_used_bytes: float | None
    power_watts: float | None
    cpus_used: float | None
    memory_used_bytes: float | None
    idle_seconds: float | None
    simulated: bool
