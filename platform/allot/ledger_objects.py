"""What the REST API answers about the ledger and fairness, as types (see `allot.objects`)."""

from __future__ import annotations

from typing import Any, TypedDict


class Line(TypedDict):
    """A line of the ledger; docs/ledger.md has the kinds."""

    id: int
    at: str
    round_number: int | None
    view: str
    position: int
    kind: str
    party: str
    counterparty: str
    jobs: list[int]
    gpus: dict[str, float]
    given: dict[str, float]
    price: float | None
    seconds: float | None
    rho_before: float | None
    rho_after: float | None
    message: str
    details: dict[str, Any]
    person: str


class Replay(TypedDict):
    """A line decided once more."""

    same: bool
    line: Line | None
    round_number: int
    seconds: float


class TenantFairness(TypedDict):
    tenant: str
    weight: float
    jobs_running: int
    jobs_waiting: int
    demand_gpus: float
    own_part: dict[str, float]
    entitled: dict[str, float]
    received: dict[str, float]
    received_mean: float
    entitled_mean: float
    rho_worst: float | None
    rho_mean: float | None
    envy: float
    envies: str | None
    borrowed: float
    lent: float
    traded_in: dict[str, float]
    traded_out: dict[str, float]
    paid: float
    speed_here: float
    speed_alone: float
    gain: float | None
    better_off_alone: bool


class Fairness(TypedDict):
    """How a virtual cluster is divided."""

    at: str | None
    window_seconds: float
    policy: str
    tenants: list[TenantFairness]
    open_violations: int


class Violation(TypedDict):
    id: int
    virtual_cluster: str
    tenant: str
    began_at: str
    ended_at: str | None
    worst: float
    lost_gpu_seconds: float
    cause: str
    message: str
    round_number: int
