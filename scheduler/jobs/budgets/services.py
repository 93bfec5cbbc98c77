"""Budgets of tenants, and of members in them: their use, reported at thresholds, and enforced where they are
set to "hold".

What was used is computed from the allocations, those that run included: each GPU counts from when it was held
until it was given back, and for jobs that share it an equal part for each of them meanwhile.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from django.db import connection, transaction
from django.db.models import QuerySet

from scheduler.models.budgets import (
    Budget,
    BudgetAction,
    BudgetPeriod,
    BudgetUnit,
    Terms,
    UserBudget,
    UserQuota,
)
from scheduler.models.events import Event
from scheduler.models.selectors.money import currency
from scheduler.wiring.clock import database_now
from scheduler.wiring.sweeps import for_each
from scheduler.wiring.wakeups import request_round_on_commit
from tenants.errors import FieldError, Invalid, NotFound
from tenants.models import ANY_MODEL, Membership, Role, Tenant
from tenants.selectors import Viewer, quota_of
from tenants.times import iso

#: In percent; each is reported once in a period.
THRESHOLDS = (50, 80, 100)
#: The forecast until the period's end continues the average use of this last while.
_PACE = timedelta(days=1)
# Sharing attempts and their times are looked up once for each attempt, before there is a row for each GPU.
_USED = """
WITH own AS (
    SELECT a.id, a.allocation_id, least(l.released_at, a.ended_at, %(until)s) AS own_end,
           greatest(a.starting_at, %(since)s) AS start,
           CASE WHEN %(by_price)s THEN coalesce(m.price_per_hour, 1) ELSE 1 END AS price
    FROM scheduler_job j
    JOIN scheduler_attempt a ON a.job_id = j.id
    JOIN scheduler_allocation l ON l.id = a.allocation_id
    LEFT JOIN scheduler_gpumodel m ON m.name = l.gpu_model
    WHERE j.tenant_id = %(tenant)s AND (%(user)s::bigint IS NULL OR j.submitted_by_id = %(user)s)
      AND (j.ended_at IS NULL OR j.ended_at > %(since)s)
      AND a.starting_at < %(until)s
), part AS MATERIALIZED (
    -- From one coming or going of those beside it to the next it has an equal part.
    SELECT own.allocation_id, price, cut.at AS start,
           coalesce(lead(cut.at) OVER (PARTITION BY own.id ORDER BY cut.at), own_end) AS own_end,
           (SELECT count(*) FROM scheduler_attempt b
            WHERE b.allocation_id = own.allocation_id AND b.starting_at <= cut.at
                  AND (b.ended_at IS NULL OR b.ended_at > cut.at)) AS sharers
    FROM own, LATERAL (
        SELECT own.start AS at
        UNION SELECT change.at
        FROM scheduler_attempt b, LATERAL (VALUES (b.starting_at), (b.ended_at)) AS change (at)
        WHERE b.allocation_id = own.allocation_id AND b.id <> own.id
              AND change.at > own.start AND change.at < own.own_end
    ) cut
    WHERE own_end > own.start
), held AS (
    -- A part of a GPU costs its part.
    SELECT price * g.request / 1000 / greatest(sharers, 1) AS price, start,
           least(g.released_at, own_end) AS own_end
    FROM part JOIN scheduler_allocatedgpu g USING (allocation_id)
)
SELECT coalesce(sum(price * extract(epoch FROM own_end - start)::float8), 0) / 3600
FROM held WHERE own_end > start
"""


class Owner(NamedTuple):
    """Whose jobs a budget counts."""

    tenant: Tenant
    #: None: all of the tenant's.
    membership: Membership | None = None

    @property
    def budget(self) -> Budget | UserBudget | None:
        """The budget, if there is one."""
        if self.membership is None:
            return Budget.objects.filter(tenant=self.tenant).first()
        return UserBudget.objects.filter(membership=self.membership).first()

    @property
    def words(self) -> str:
        """Whose it is, at the beginning of a sentence."""
        if self.membership is None:
            return f"Tenant {self.tenant.name}"
        return f"User {self.membership.user.username} of tenant {self.tenant.name}"


def _owner_of(budget: Budget | UserBudget) -> Owner:
    if isinstance(budget, Budget):
        return Owner(budget.tenant)
    return Owner(budget.membership.tenant, budget.membership)


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """The start and end of the time that counts; without an end if the budget is for all time."""

    starts_at: datetime
    ends_at: datetime | None


def period_of(period: str, at: datetime) -> Period:
    """Return the calendar period, by UTC, that an instant is in."""
    day = at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if period == BudgetPeriod.WEEK:
        monday = day - timedelta(days=day.weekday())
        return Period(starts_at=monday, ends_at=monday + timedelta(days=7))
    if period == BudgetPeriod.MONTH:
        first = day.replace(day=1)
        return Period(starts_at=first, ends_at=(first + timedelta(days=32)).replace(day=1))
    return Period(starts_at=datetime.min.replace(tzinfo=UTC), ends_at=None)


def used(owner: Owner, unit: str, since: datetime, until: datetime) -> float:
    """Return the GPU-hours that the jobs of a tenant, or of a member there, held in a time, or their cost."""
    values: dict[str, Any] = {
        "tenant": owner.tenant.pk,
        "user": None if owner.membership is None else owner.membership.user_id,
        "since": since,
        "until": until,
        "by_price": unit == BudgetUnit.COST,
    }
    with connection.cursor() as cursor:
        cursor.execute(_USED, values)
        return float(cursor.fetchone()[0])


def budget_state(owner: Owner) -> dict[str, Any]:
    """Return the budget, what of it is used, and what is expected, JSON-ready.

    Without a budget, it has the GPU-hours of the month.
    """
    budget = owner.budget
    now = database_now()
    unit = budget.unit if budget else BudgetUnit.GPU_HOURS
    period = period_of(budget.period if budget else BudgetPeriod.MONTH, now)
    since = max(period.starts_at, budget.starts_at) if budget else period.starts_at
    spent = used(owner, unit, since, now)
    per_second = used(owner, unit, now - _PACE, now) / _PACE.total_seconds()
    left = None if period.ends_at is None else (period.ends_at - now).total_seconds()
    return {
        "budget": _terms(budget) if budget else None,
        "used": spent,
        "counts_from": iso(since),
        "ends_at": iso(period.ends_at),
        "used_last_day": per_second * _PACE.total_seconds(),
        "expected": None if left is None else spent + per_second * left,
        "reached_at": _reached_at(budget, spent, per_second, now, period.ends_at),
        "currency": currency(),
        "is_holding": bool(budget and budget.action == BudgetAction.HOLD and budget.is_spent),
    }


def _reached_at(
    budget: Terms | None, spent: float, per_second: float, now: datetime, ends_at: datetime | None
) -> str | None:
    """Return when the budget will be used up at the present rate; None: not in this period."""
    if budget is None or spent >= budget.amount or per_second <= 0:
        return None
    seconds = (budget.amount - spent) / per_second
    # Beyond some years it is not a forecast.
    if seconds > timedelta(days=3_650).total_seconds():
        return None
    reached_at = now + timedelta(seconds=seconds)
    return None if ends_at is not None and reached_at >= ends_at else iso(reached_at)


@transaction.atomic
def budget_set(
    *,
    by: Viewer,
    owner: Owner,
    amount: float,
    unit: str,
    period: str,
    action: str,
    starts_at: datetime | None = None,
) -> None:
    """Give a tenant, or a member, a budget that counts from the period's beginning, or from now where there
    are none. A member's is at most the tenant's, in the same unit and period."""
    _require(by, owner)
    if owner.membership is not None:
        _keep(owner.membership)
        _require_within(owner.tenant, amount, unit, period)
    now = database_now()
    current = period_of(period, now)
    default = now if period == BudgetPeriod.NONE else current.starts_at
    terms = {
        "amount": amount,
        "unit": unit,
        "period": period,
        "action": action,
        "starts_at": starts_at or default,
        "period_starts_at": current.starts_at,
        "period_ends_at": current.ends_at,
        "told_percent": 0,
        "is_spent": False,
    }
    budget: Budget | UserBudget
    if owner.membership is None:
        budget, _ = Budget.objects.update_or_create(tenant=owner.tenant, defaults=terms)
    else:
        budget, _ = UserBudget.objects.update_or_create(membership=owner.membership, defaults=terms)
    _look_at(budget, now)
    request_round_on_commit()


@transaction.atomic
def budget_remove(*, by: Viewer, owner: Owner) -> None:
    _require(by, owner)
    budget = owner.budget
    if budget is not None:
        budget.delete()
        request_round_on_commit()


def _keep(membership: Membership) -> None:
    """Lock a membership, so that it does not end meanwhile."""
    if Membership.objects.select_for_update(no_key=True).filter(pk=membership.pk).first() is None:
        raise NotFound(f"{membership.user.username!r} is no longer a member.")


def _require(by: Viewer, owner: Owner) -> None:
    if owner.membership is None:
        by.require_operator()
    else:
        by.require(owner.tenant, Role.ADMIN)


def _require_within(tenant: Tenant, amount: float, unit: str, period: str) -> None:
    """Refuse a member's budget that the tenant's does not cover, or that cannot be compared with it."""
    has = Budget.objects.select_for_update().filter(tenant=tenant).first()
    if has is None:
        return
    whole = f"the budget of tenant {tenant.name}"
    problems = [
        FieldError(name, f"is {given}, and {whole} has {its}", its)
        for name, given, its in (("unit", unit, str(has.unit)), ("period", period, str(has.period)))
        if given != its
    ]
    if not problems and amount > has.amount:
        problem = f"{amount:,.12g} is more than {whole}, {has.amount:,.12g}"
        problems = [FieldError("amount", problem, f"at most {has.amount:.12g}")]
    if problems:
        raise Invalid.of(*problems)


def watch_budgets() -> None:
    """Look at each budget: report thresholds, hold back or release."""
    owners: tuple[QuerySet[Budget] | QuerySet[UserBudget], ...] = (
        Budget.objects.select_related("tenant"),
        UserBudget.objects.select_related("membership__tenant", "membership__user"),
    )
    for budgets in owners:
        numbers = budgets.order_by("pk").values_list("pk", flat=True)
        for_each(f"the watch of {budgets.model.__name__}", numbers, partial(_watch, budgets))


@transaction.atomic
def _watch(budgets: QuerySet[Budget] | QuerySet[UserBudget], number: int) -> None:
    if budget := budgets.select_for_update(of=("self",)).filter(pk=number).first():
        _look_at(budget, database_now())


def _look_at(budget: Budget | UserBudget, now: datetime) -> None:
    period = period_of(budget.period, now)
    if period.starts_at != budget.period_starts_at:
        budget.period_starts_at, budget.period_ends_at = period.starts_at, period.ends_at
        budget.told_percent = 0
    was_spent = budget.is_spent
    spent = used(_owner_of(budget), budget.unit, max(period.starts_at, budget.starts_at), now)
    budget.is_spent = spent >= budget.amount
    reached = max([line for line in THRESHOLDS if spent * 100 >= line * budget.amount], default=0)
    if reached > budget.told_percent:
        budget.told_percent = reached
        _tell(budget, reached, spent, now)
    budget.save()
    if budget.is_spent != was_spent and budget.action == BudgetAction.HOLD:
        request_round_on_commit()


def _tell(budget: Budget | UserBudget, percent: int, spent: float, now: datetime) -> None:
    owner = _owner_of(budget)
    words = "GPU-hours" if budget.unit == BudgetUnit.GPU_HOURS else "in cost"
    until = f" until {budget.period_ends_at:%-d %B %Y}" if budget.period_ends_at else ""
    message = (
        f"{owner.words} has used {spent:,.1f} of {budget.amount:,.12g} {words} of its budget"
        f"{until}, {percent} % or more."
    )
    if percent >= 100 and budget.action == BudgetAction.HOLD:
        message += " Its waiting jobs do not start; running jobs continue."
    whose = {} if owner.membership is None else {"user": owner.membership.user.username}
    Event.objects.create(
        at=now,
        kind="budget.reached",
        subject="tenant",
        subject_id=owner.tenant.pk,
        tenant=owner.tenant,
        actor="budgets",
        message=message,
        data={**_terms(budget), **whose, "percent": percent, "used": spent},
    )


def _terms(budget: Terms) -> Mapping[str, Any]:
    return {
        "amount": budget.amount,
        "unit": str(budget.unit),
        "period": str(budget.period),
        "action": str(budget.action),
        "starts_at": iso(budget.starts_at),
    }


# -- what members may hold at once ------------------------------------------------------------------


@transaction.atomic
def user_quota_set(
    *,
    by: Viewer,
    membership: Membership,
    gpus: int | None = None,
    cpus: float | None = None,
    memory_bytes: int | None = None,
) -> None:
    """Replace the quota of a member; None: no limit besides the tenant's."""
    tenant = membership.tenant
    by.require(tenant, Role.ADMIN)
    tenant = Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
    _keep(membership)
    given: dict[str, float | None] = {"gpus": gpus, "cpus": cpus, "memory_bytes": memory_bytes}
    has: dict[str, float | None] = {
        "gpus": quota_of(tenant).get(ANY_MODEL),
        "cpus": tenant.quota_cpus,
        "memory_bytes": tenant.quota_memory_bytes,
    }
    problems = [
        FieldError(
            name,
            f"{amount:,.12g} is more than tenant {tenant.name} may hold, {most:,.12g}",
            f"at most {most:.12g}",
        )
        for name, amount in given.items()
        if amount is not None and (most := has[name]) is not None and amount > most
    ]
    if problems:
        raise Invalid.of(*problems)
    if given == dict.fromkeys(given):
        UserQuota.objects.filter(membership=membership).delete()
    else:
        UserQuota.objects.update_or_create(membership=membership, defaults=given)
    request_round_on_commit()
