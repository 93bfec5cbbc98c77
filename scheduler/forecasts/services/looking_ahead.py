"""The facts that forecasts and what-if questions begin from: a round's, and what a round need not know."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from scheduler.budgets.models import Budget, BudgetAction, BudgetUnit
from scheduler.budgets.services import period_of, used
from scheduler.core.model import snapshot as core
from scheduler.rounds.circuit_breaker import with_breakers_open
from scheduler.rounds.snapshot import read_snapshot

#: Renewals of budgets that are told; a forecast looks a month ahead.
_RENEWALS = 6


def facts_ahead(round_number: int) -> core.Snapshot:
    """Return the present facts with what is left of budgets, and a cheap policy wherever one decides now."""
    facts = with_breakers_open(read_snapshot(round_number))
    holding = Budget.objects.filter(action=BudgetAction.HOLD).select_related("tenant")
    now = datetime.fromtimestamp(facts.now, UTC)
    budgets = {budget.tenant.name: _fact_of(budget, now) for budget in holding}
    tenants = [replace(tenant, budget=budgets.get(tenant.name)) for tenant in facts.tenants]
    return replace(facts, tenants=tuple(tenants))


def _fact_of(budget: Budget, now: datetime) -> core.Budget:
    period = period_of(budget.period, now)
    spent = used(budget.tenant, budget.unit, max(period.starts_at, budget.starts_at), now)
    renewals: list[float] = []
    while period.ends_at is not None and len(renewals) < _RENEWALS:
        renewals.append(period.ends_at.timestamp())
        period = period_of(budget.period, period.ends_at + timedelta(seconds=1))
    return core.Budget(
        amount=budget.amount,
        left=budget.amount - spent,
        by_price=budget.unit == BudgetUnit.COST,
        renewals=tuple(renewals),
    )
