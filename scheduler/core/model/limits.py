"""What the admins of a tenant allow one of its users."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class UserLimits:
    """The most that the jobs of a user hold at once in a tenant; None: no limit besides the tenant's."""

    user: str
    gpus: int | None = None
    cpus: float | None = None
    memory_bytes: int | None = None
    #: As of a tenant's budget.
    budget_spent: bool = False
    budget_renewed_at: float | None = None

    def has_spent(self, now: float) -> bool:
        """Whether the user's budget still holds back what is to start."""
        return self.budget_spent and (self.budget_renewed_at is None or now < self.budget_renewed_at)
