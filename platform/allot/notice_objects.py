"""What the REST API answers about notifications, webhooks and budgets, as types."""

from __future__ import annotations

from typing import Literal, TypedDict


class NotificationSettings(TypedDict):
    address: str
    can_send: bool
    jobs: Literal["all", "failures", "none"]
    tenants: bool
    cluster: bool
    problem: str


class AddressAnswer(TypedDict):
    address: str
    confirmation_sent: bool


class Webhook(TypedDict):
    id: int
    tenant: str | None
    url: str
    title: str
    topics: list[str]
    active: bool
    created_at: str
    created_by: str
    failures: int
    failing_since: str | None
    held_until: str | None
    old_secret_ends_at: str | None
    problem: str


class NewWebhook(Webhook):
    secret: str


class Delivery(TypedDict):
    id: int
    message: str
    topic: str
    body: str
    created_at: str
    state: Literal["waiting", "delivered", "given_up"]
    tries: int
    tried_at: str | None
    next_at: str
    until: str
    status: int | None
    reply: str
    seconds: float | None
    problem: str


class BudgetTerms(TypedDict):
    amount: float
    unit: Literal["gpu_hours", "cost"]
    period: Literal["month", "week", "none"]
    action: Literal["warn", "hold"]
    starts_at: str


class BudgetState(TypedDict):
    budget: BudgetTerms | None
    used: float
    counts_from: str
    ends_at: str | None
    used_last_day: float
    expected: float | None
    reached_at: str | None
    is_holding: bool
