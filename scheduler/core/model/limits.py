"""Limits on what the jobs of a tenant, or of one of its users, may use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A budget of a tenant's jobs; once it is spent, no more of them start."""

    #: GPU-hours, or their cost, for a whole period.
    amount: float
    #: What is left in the present period.
    left: float
    by_price: bool = False
    #: The instants at which the budget is renewed, ascending; none: never.
    renewals: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UserLimits:
    """What admins of a tenant allow one of its users there: the most that the user's jobs hold at once. None:
    no limit besides the tenant's."""

    user: str
    gpus: int | None = None
    cpus: float | None = None
    memory_bytes: int | None = None
    #: As of a tenant's budget.
    budget_spent: bool = False
    budget_renewed_at: float | None = None

    def has_spent(self, now: float) -> bool:
        """Whether the user's spent budget still holds back new jobs."""
        return self.budget_spent and (self.budget_renewed_at is None or now < self.budget_renewed_at)
