"""What forecasts and what-if questions begin from: a round's facts, with what a round need not know, and how
long jobs of each tenant and application ran, as parts of their time limits."""

import time
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from django.db import connection

from scheduler.core.model import limits
from scheduler.core.model import snapshot as core
from scheduler.core.serving_pools.load_curve import curve_of
from scheduler.core.serving_pools.steering import ServingPool
from scheduler.core.sim.run_times import RunTimes
from scheduler.jobs.budgets.services import Owner, period_of, used
from scheduler.models.budgets import Budget, BudgetAction, BudgetUnit
from scheduler.models.nodes import LoanState, Node
from scheduler.models.nodes import ServingPool as PoolRow
from scheduler.rounds.circuit_breaker import with_breakers_open
from scheduler.rounds.snapshot import read_snapshot

#: How many renewals of a budget a forecast knows; it looks a month ahead.
_RENEWALS = 6


def facts_ahead(round_number: int) -> core.Snapshot:
    """Return the present facts with what is left of budgets, and a cheap policy wherever one decides now."""
    facts = with_breakers_open(read_snapshot(round_number))
    holding = Budget.objects.filter(action=BudgetAction.HOLD).select_related("tenant")
    now = datetime.fromtimestamp(facts.now, UTC)
    budgets = {budget.tenant.name: _fact_of(budget, now) for budget in holding}
    tenants = [replace(tenant, budget=budgets.get(tenant.name)) for tenant in facts.tenants]
    return replace(facts, tenants=tuple(tenants))


def serving_pools() -> list[ServingPool]:
    """Return how serving pools lend their nodes from now on: by their curves, or until an instant."""
    until: dict[int, dict[core.NodeId, float]] = defaultdict(dict)
    ending = Node.objects.filter(loan_state=LoanState.LENT, lent_until__isnull=False)
    for node in ending:
        if node.serving_pool_id is not None and node.lent_until is not None:
            until[node.serving_pool_id][core.NodeId(node.id)] = node.lent_until.timestamp()
    return [
        ServingPool(
            name=pool.name,
            return_seconds=pool.return_seconds,
            curve=None if pool.nodes_needed is None else curve_of(pool.nodes_needed),
            lent_until=until.get(pool.id, {}),
        )
        for pool in PoolRow.objects.order_by("name")
    ]


def _fact_of(budget: Budget, now: datetime) -> limits.Budget:
    period = period_of(budget.period, now)
    spent = used(Owner(budget.tenant), budget.unit, max(period.starts_at, budget.starts_at), now)
    renewals: list[float] = []
    while period.ends_at is not None and len(renewals) < _RENEWALS:
        renewals.append(period.ends_at.timestamp())
        period = period_of(budget.period, period.ends_at + timedelta(seconds=1))
    return limits.Budget(
        amount=budget.amount,
        left=budget.amount - spent,
        by_price=budget.unit == BudgetUnit.COST,
        renewals=tuple(renewals),
    )


#: The most newest attempts that are read, so that the query costs the same however long the history is.
_ATTEMPTS = 5_000
#: Quantiles kept of each kind's run times.
_KEPT = 101
_GOOD_FOR_SECONDS = 60.0

# Those that ended by themselves or by their user: what was preempted or lost says nothing of run times.
_RUN_TIMES = """
SELECT t.name, coalesce(j.shape->>'application', ''),
       least(1.0, extract(epoch FROM a.ended_at - a.running_at)::float8
                  / coalesce(j.time_limit_seconds, v.default_time_limit_seconds))
FROM (SELECT job_id, outcome, running_at, ended_at FROM scheduler_attempt ORDER BY id DESC LIMIT %s) a
JOIN scheduler_job j ON j.id = a.job_id
JOIN tenants_tenant t ON t.id = j.tenant_id
JOIN tenants_virtualcluster v ON v.id = j.virtual_cluster_id
WHERE a.outcome IN ('succeeded', 'failed', 'cancelled') AND a.ended_at > a.running_at
"""

_read: tuple[float, RunTimes] | None = None


def known_run_times() -> RunTimes:
    """Return what `read_run_times` said, at most a minute ago."""
    global _read
    now = time.monotonic()
    if _read is None or now - _read[0] > _GOOD_FOR_SECONDS:
        _read = now, read_run_times()
    return _read[1]


def read_run_times() -> RunTimes:
    """Read the newest attempts that ended; their tenant, and all tenants, count with all their jobs too."""
    with connection.cursor() as cursor:
        cursor.execute(_RUN_TIMES, [_ATTEMPTS])
        rows = cursor.fetchall()
    parts: dict[tuple[str, str], list[float]] = defaultdict(list)
    for tenant, application, part in rows:
        for kind in {(tenant, application), (tenant, ""), ("", "")}:
            parts[kind].append(part)
    return RunTimes(parts={kind: _thinned(sorted(values)) for kind, values in parts.items()})


def _thinned(values: list[float]) -> list[float]:
    if len(values) <= _KEPT:
        return values
    return [values[number * (len(values) - 1) // (_KEPT - 1)] for number in range(_KEPT)]
