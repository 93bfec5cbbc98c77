"""Budgets in virtual time: jobs on GPUs use them up, and a new period brings them back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from scheduler.core.model.snapshot import Budget, Tenant
from scheduler.core.sim.agenda import Agenda

#: Hours below this are rounding.
_NOTHING_HOURS = 1e-9


@dataclass(slots=True)
class _Purse:
    """What a tenant has left, counted up to an instant."""

    budget: Budget
    #: In the budget's unit.
    left: float
    counted_at: float
    #: It was told that nothing is left.
    is_spent: bool
    #: Grows whenever its end is foreseen anew, so that ends foreseen before are known to be void.
    version: int = 0


class Spending:
    """What tenants use, and what of their budgets is left; `tell` hears of each that runs out or is renewed.

    It is called with the tenant's name, whether its budget is spent, and when it is renewed.
    """

    def __init__(
        self,
        tenants: Iterable[Tenant],
        prices: Mapping[str, float],
        agenda: Agenda,
        tell: Callable[[str, bool, float | None], None],
    ) -> None:
        self._prices, self._agenda, self._tell = prices, agenda, tell
        self._purses: dict[str, _Purse] = {}
        #: GPUs that are used now, by tenant and model.
        self._gpus: dict[str, Counter[str]] = {}
        self.take_in(tenants)

    def take_in(self, tenants: Iterable[Tenant]) -> None:
        """Take in new and changed budgets; of those that are known already goes on what is left."""
        for tenant in tenants:
            known, budget = self._purses.get(tenant.name), tenant.budget
            if budget is None:
                self._purses.pop(tenant.name, None)
            elif known is None or known.budget != budget:
                is_spent = tenant.budget_spent and budget.left <= _NOTHING_HOURS
                purse = _Purse(budget, budget.left, self._agenda.now, is_spent)
                self._purses[tenant.name] = purse
                for renewal in budget.renewals:
                    if renewal > self._agenda.now:
                        self._agenda.note(renewal, partial(self._renew, tenant.name, purse))
                self._foresee(tenant.name, purse)

    def change(self, tenant: str, gpu_model: str, gpus: float) -> None:
        """So many more GPUs are used from now on, fewer where negative."""
        purse = self._purses.get(tenant)
        if purse is not None:
            self._count(tenant, purse)
        self._gpus.setdefault(tenant, Counter())[gpu_model] += gpus  # type: ignore[assignment]
        if purse is not None:
            self._foresee(tenant, purse)

    def _hourly(self, tenant: str, budget: Budget) -> float:
        """Return what is used up in an hour."""
        used: Mapping[str, float] = self._gpus.get(tenant, {})
        return sum(
            [
                gpus * (self._prices.get(model, 1.0) if budget.by_price else 1.0)
                for model, gpus in used.items()
            ]
        )

    def _count(self, tenant: str, purse: _Purse) -> None:
        hours = (self._agenda.now - purse.counted_at) / 3_600
        purse.left -= hours * self._hourly(tenant, purse.budget)
        purse.counted_at = self._agenda.now

    def _foresee(self, tenant: str, purse: _Purse) -> None:
        """Plan the instant at which nothing will be left, as things are."""
        purse.version += 1
        if purse.is_spent:
            return
        hourly = self._hourly(tenant, purse.budget)
        if purse.left <= _NOTHING_HOURS:
            hours = 0.0
        elif hourly > 0:
            hours = purse.left / hourly
        else:
            return
        instant = self._agenda.now + 3_600 * hours
        self._agenda.note(instant, partial(self._run_out, tenant, purse, purse.version))

    def _run_out(self, tenant: str, purse: _Purse, version: int) -> bool:
        if purse.version != version or self._purses.get(tenant) is not purse:
            return False
        self._count(tenant, purse)
        purse.is_spent = True
        renewals = [instant for instant in purse.budget.renewals if instant > self._agenda.now]
        self._tell(tenant, True, min(renewals, default=None))
        return True

    def _renew(self, tenant: str, purse: _Purse) -> bool:
        if self._purses.get(tenant) is not purse:
            return False
        purse.left, purse.counted_at = purse.budget.amount, self._agenda.now
        purse.is_spent = False
        self._tell(tenant, False, None)
        self._foresee(tenant, purse)
        return True
