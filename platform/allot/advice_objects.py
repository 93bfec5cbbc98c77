"""What the REST API answers about private clusters and advice, as types (see `allot.objects`)."""

from __future__ import annotations

from typing import Literal, TypedDict

from allot.cell_objects import CellDocument
from allot.objects import CheckedField

WorkState = Literal["waiting", "running", "done", "failed"]


class Delays(TypedDict):
    """Queueing delays here and in the private cluster."""

    real_mean_seconds: float
    private_mean_seconds: float
    real_p95_seconds: float
    private_p95_seconds: float


class DelayPoint(TypedDict):
    at: str
    real_seconds: float
    private_seconds: float


class Anomaly(TypedDict):
    """A job that waited longer here; of others' jobs, name and reason are left out."""

    job: int
    name: str
    tenant: str | None
    gpus: int
    submitted_at: str
    real_delay_seconds: float
    private_delay_seconds: float
    extra_seconds: float
    hard_affinity: bool
    cause: Literal["fragmentation", "hardware", "reclaim", "order", "quota", "lent", "other"]
    message: str
    round: int | None


class Anomalies(TypedDict):
    """A virtual cluster's guaranteed jobs here, and in a private cluster of what it is promised."""

    virtual_cluster: str
    state: Literal["never", "waiting", "done", "failed"]
    problem: str
    made_at: str | None
    since: str | None
    until: str | None
    jobs: int
    never: int
    delay: Delays | None
    series: list[DelayPoint]
    tolerance_seconds: float
    count: int
    total_extra_seconds: float
    hard_affinity_count: int
    anomalies: list[Anomaly]
    assumption: str


class AdviceFigures(TypedDict):
    cells: dict[str, int]
    gpus: int
    delay_mean_seconds: float
    delay_p95_seconds: float
    utilisation: float
    cost_per_day: float | None


class AdviceRow(TypedDict):
    virtual_cluster: str
    jobs: int
    today: AdviceFigures
    advised: AdviceFigures
    why: str


class AdviceTotals(TypedDict):
    gpus: int
    delay_mean_seconds: float
    utilisation: float
    cost_per_day: float | None


class AdviceTotalsBoth(TypedDict):
    today: AdviceTotals
    advised: AdviceTotals


class AdviceCurvePoint(TypedDict):
    cells: dict[str, int]
    gpus: int
    delay_mean_seconds: float


class Advice(TypedDict):
    """Which cells each virtual cluster should get, by what its jobs would have waited with them."""

    id: str
    state: WorkState
    problem: str
    fields: list[CheckedField]
    asked_at: str
    asked_by: str
    days: float
    jobs: int
    made_at: str | None
    assumption: str
    rows: list[AdviceRow]
    totals: AdviceTotalsBoth | None
    curves: dict[str, list[AdviceCurvePoint]]
    based_on_version: int
    applied_at: str | None
    specification: CellDocument | None
