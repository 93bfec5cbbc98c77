"""Budgets in virtual time: jobs on GPUs use them up, and a new period brings them back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from scheduler.core.model.limits import Budget
from scheduler.core.model.snapshot import Tenant
from scheduler.core.sim.event_queue import EventQueue, nothing

#: Hours below this are rounding.
_NOTHING_HOURS = 1e-9


@dataclass(slots=True)
class _Balance:
    """What a tenant has left, counted up to an instant."""

    budget: Budget
    #: In the budget's unit.
    left: float
    counted_at: float
    #: Whether it was reported as spent.
    is_spent: bool
    #: Grows whenever its end is rescheduled, which voids earlier scheduled ends.
    version: int = 0


class BudgetMeter:
    """The use of tenants and the rest of their budgets.

    `notify` is called for each budget that runs out or is renewed, with the tenant's name, whether the budget
    is spent, and when it is renewed.
    """

    def __init__(
        self,
        tenants: Collection[Tenant],
        prices: Mapping[str, float],
        events: EventQueue,
        notify: Callable[[str, bool, float | None], None],
    ) -> None:
        self._prices, self._events, self._notify = prices, events, notify
        self._balances: dict[str, _Balance] = {}
        #: GPUs in use now, by tenant and model.
        self._gpus: dict[str, Counter[str]] = {}
        self.take_in(tenants)
        for tenant in tenants:
            for renewed_at in (tenant.budget_renewed_at, *[user.budget_renewed_at for user in tenant.users]):
                if renewed_at is not None and renewed_at > events.now:
                    events.schedule(renewed_at, nothing)

    def take_in(self, tenants: Iterable[Tenant]) -> None:
        """Read new budgets, also those equal to the ones before them; others keep their rest."""
        for tenant in tenants:
            known, budget = self._balances.get(tenant.name), tenant.budget
            if budget is None:
                self._balances.pop(tenant.name, None)
            elif known is None or known.budget is not budget:
                is_spent = tenant.budget_spent and budget.left <= _NOTHING_HOURS
                balance = _Balance(budget, budget.left, self._events.now, is_spent)
                self._balances[tenant.name] = balance
                for renewal in budget.renewals:
                    if renewal > self._events.now:
                        self._events.schedule(renewal, partial(self._renew, tenant.name, balance))
                self._reschedule(tenant.name, balance)

    def change(self, tenant: str, gpu_model: str, gpus: float) -> None:
        """Count this many more GPUs from now on, fewer where negative."""
        balance = self._balances.get(tenant)
        if balance is not None:
            self._count(tenant, balance)
        self._gpus.setdefault(tenant, Counter())[gpu_model] += gpus  # type: ignore[assignment]
        if balance is not None:
            self._reschedule(tenant, balance)

    def _hourly(self, tenant: str, budget: Budget) -> float:
        """Return the present use per hour."""
        used: Mapping[str, float] = self._gpus.get(tenant, {})
        return sum(
            [
                gpus * (self._prices.get(model, 1.0) if budget.by_price else 1.0)
                for model, gpus in used.items()
            ]
        )

    def _count(self, tenant: str, balance: _Balance) -> None:
        hours = (self._events.now - balance.counted_at) / 3_600
        balance.left -= hours * self._hourly(tenant, balance.budget)
        balance.counted_at = self._events.now

    def _reschedule(self, tenant: str, balance: _Balance) -> None:
        """Schedule the instant at which nothing will be left at the present use."""
        balance.version += 1
        if balance.is_spent:
            return
        hourly = self._hourly(tenant, balance.budget)
        if balance.left <= _NOTHING_HOURS:
            hours = 0.0
        elif hourly > 0:
            hours = balance.left / hourly
        else:
            return
        instant = self._events.now + 3_600 * hours
        self._events.schedule(instant, partial(self._run_out, tenant, balance, balance.version))

    def _run_out(self, tenant: str, balance: _Balance, version: int) -> bool:
        if balance.version != version or self._balances.get(tenant) is not balance:
            return False
        self._count(tenant, balance)
        balance.is_spent = True
        renewals = [instant for instant in balance.budget.renewals if instant > self._events.now]
        self._notify(tenant, True, min(renewals, default=None))
        return True

    def _renew(self, tenant: str, balance: _Balance) -> bool:
        if self._balances.get(tenant) is not balance:
            return False
        balance.left, balance.counted_at = balance.budget.amount, self._events.now
        balance.is_spent = False
        self._notify(tenant, False, None)
        self._reschedule(tenant, balance)
        return True
