"""What the REST API answers about speeds, as types (see `allot.objects`)."""

from __future__ import annotations

from typing import Literal, TypedDict

Source = Literal["corrected", "measured", "declared", "estimated", "assumed"]


class Measured(TypedDict):
    average: float
    deviation: float
    samples: int
    updated_at: str


class Corrected(TypedDict):
    value: float
    reason: str
    by: str
    at: str


class SpeedCell(TypedDict):
    """One GPU model's in a row. `value` is in samples a second, relative to alone beside a partner."""

    gpu_model: str
    value: float | None
    source: Source | None
    samples: int
    confidence: float
    relative: float | None
    measured: Measured | None
    declared: float | None
    correction: Corrected | None


class SpeedRow(TypedDict):
    tenant: str
    application: str
    gpus: int
    spread: bool
    partner: str
    may_correct: bool
    speeds: list[SpeedCell]


class SpeedChange(TypedDict):
    application: str
    gpu_model: str
    gpus: int
    spread: bool
    partner: str
    before: float | None
    after: float


class SpeedImport(TypedDict):
    dry_run: bool
    layout: Literal["csv", "gavel"]
    added: int
    changed: int
    unchanged: int
    unknown_models: list[str]
    renamed: list[dict[str, str]]
    changes: list[SpeedChange]


class JobModelSpeed(TypedDict):
    gpu_model: str
    price_per_hour: float
    accepted: bool
    speed: float | None
    relative: float | None
    source: Source | None
    samples: int
    confidence: float
    target_share: float | None
    received_seconds: float | None
    received_share: float | None
    attained_gpu_seconds: float
    attained_share: float | None
    runs_now: bool


class JobSpeeds(TypedDict):
    """Why a job is on its GPU model."""

    job: int
    tenant: str
    application: str
    gpus: int
    view: str
    policy: str
    objective: str | None
    decided_at: str | None
    models: list[JobModelSpeed]
