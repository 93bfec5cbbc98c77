"""Budgets: what was used, thresholds told once, and a tenant held back until the next period."""

from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.model import limits
from scheduler.forecasts.services.facts import facts_ahead
from scheduler.jobs.budgets import services as budget_services
from scheduler.jobs.budgets.services import (
    Owner,
    Period,
    budget_remove,
    budget_set,
    budget_state,
    period_of,
    used,
    watch_budgets,
)
from scheduler.models import AllocatedGpu, Allocation, Attempt, Budget, Event, GpuModel
from scheduler.models.budgets import BudgetPeriod
from scheduler.rounds.snapshot import read_snapshot
from tenants.models import Tenant
from tenants.selectors import Viewer, viewer_of
from tests.effort import examples
from tests.scheduler.builders import (
    gpus_of,
    held_since,
    make_attempt,
    make_job,
    make_node,
    make_tenant,
    make_user,
)

HOUR = timedelta(hours=1)


@given(
    st.integers(0, 4_000_000_000).map(lambda seconds: datetime.fromtimestamp(seconds, UTC)),
    st.sampled_from(["week", "month"]),
)
@settings(max_examples=examples(30))
def test_periods_follow_one_another_without_a_gap(at: datetime, name: str) -> None:
    period = period_of(name, at)
    assert period.ends_at is not None
    assert period.starts_at <= at < period.ends_at
    assert period_of(name, period.ends_at).starts_at == period.ends_at
    assert period_of(name, period.starts_at) == period
    assert period.starts_at.weekday() == 0 if name == BudgetPeriod.WEEK else period.starts_at.day == 1


def ran(tenant: Tenant, *, began: timedelta, ended: timedelta | None = None, gpus: int = 2) -> Attempt:
    """An attempt that began so long ago, and ended so long ago or runs."""
    now = timezone.now()
    job = make_job(tenant=tenant, gpus=gpus)
    attempt = make_attempt(job, gpus_of(make_node(gpus=gpus)))
    held_since(attempt, now - began)
    if ended is not None:
        at = now - ended
        AllocatedGpu.objects.filter(allocation=attempt.allocation).update(phase="released", released_at=at)
        Allocation.objects.filter(id=attempt.allocation_id).update(phase="released", released_at=at)
        Attempt.objects.filter(id=attempt.id).update(state="ended", outcome="succeeded", ended_at=at)
    return attempt


@pytest.mark.django_db
def test_each_gpu_counts_while_it_is_held_in_the_period_and_half_while_it_is_shared() -> None:
    red, now = make_tenant(), timezone.now()
    ran(red, began=5 * HOUR, ended=3 * HOUR)  # 4 GPU-hours, 2 of them within the last four hours
    leaving = ran(red, began=2 * HOUR, gpus=2)  # one GPU left an hour ago: 2 + 1
    first = AllocatedGpu.objects.filter(allocation=leaving.allocation).first()
    AllocatedGpu.objects.filter(id=first.id).update(phase="released", released_at=now - HOUR)
    ran(make_tenant(), began=5 * HOUR)
    assert used(Owner(red), "gpu_hours", now - 4 * HOUR, now) == pytest.approx(2 + 3, abs=0.01)
    # Two jobs of two tenants on the same two GPUs for three hours, the second one gone an hour ago.
    shared, blue = ran(red, began=3 * HOUR), make_tenant()
    other = make_job(tenant=blue, gpus=2)
    Attempt.objects.create(
        job=other, number=1, allocation=shared.allocation, state="ended", outcome="succeeded",
        planned_at=now - 3 * HOUR, starting_at=now - 3 * HOUR, ended_at=now - HOUR,
    )  # fmt: skip
    assert used(Owner(blue), "gpu_hours", now - 4 * HOUR, now) == pytest.approx(2, abs=0.01)
    assert used(Owner(red), "gpu_hours", now - 4 * HOUR, now) == pytest.approx(5 + 2 + 2, abs=0.01)
    GpuModel.objects.update(price_per_hour=2.5)
    assert used(Owner(red), "cost", now - 4 * HOUR, now) == pytest.approx(9 * 2.5, abs=0.05)


@pytest.mark.django_db
def test_who_came_later_and_who_came_after_that_pay_while_they_are_there() -> None:
    red, blue, now = make_tenant(), make_tenant(), timezone.now()
    host = ran(red, began=6 * HOUR, gpus=1)
    for number, (began, ended) in enumerate([(5, 4), (3, 0.5), (2, 1)], start=1):
        Attempt.objects.create(
            job=make_job(tenant=blue), number=number, allocation=host.allocation, state="ended",
            outcome="succeeded", planned_at=now - began * HOUR, starting_at=now - began * HOUR,
            ended_at=now - ended * HOUR,
        )  # fmt: skip
    # Alone for an hour and for another; one beside it for 1, 1 and a half hour, two for one.
    beside = 1 / 2 + 1 / 2 + 1 / 4
    assert used(Owner(red), "gpu_hours", now - 9 * HOUR, now) == pytest.approx(2.5 + beside + 1 / 3, abs=0.01)
    assert used(Owner(blue), "gpu_hours", now - 9 * HOUR, now) == pytest.approx(beside + 2 / 3, abs=0.01)


@pytest.fixture
def operator(db: None) -> Viewer:
    return viewer_of(make_user(operator=True))


def told() -> list[int]:
    events = Event.objects.filter(kind="budget.reached").order_by("id")
    return [event.data["percent"] for event in events]


def test_thresholds_are_told_once_in_a_period_and_the_last_one_holds_the_tenant_back(
    operator: Viewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    red, now = make_tenant("red"), timezone.now()
    # Whatever day it is: the period began yesterday.
    period = Period(starts_at=now - timedelta(days=1), ends_at=now + timedelta(days=1))
    monkeypatch.setattr(budget_services, "period_of", lambda *_: period)
    running = ran(red, began=HOUR)  # 2 GPU-hours by now
    terms = {"unit": "gpu_hours", "period": "week", "action": "hold", "starts_at": now - 2 * HOUR}
    budget_set(by=operator, owner=Owner(red), amount=2.4, **terms)
    watch_budgets()
    assert told() == [80]
    Attempt.objects.filter(id=running.id).update(starting_at=now - 1.5 * HOUR)
    watch_budgets()
    watch_budgets()
    assert told() == [80, 100]
    state = budget_state(Owner(red))
    assert state["is_holding"]
    assert state["used"] == pytest.approx(3, abs=0.01)
    assert state["reached_at"] is None
    tenant = {tenant.name: tenant for tenant in read_snapshot(1).tenants}["red"]
    assert tenant.budget_spent
    assert tenant.budget_renewed_at == (now + timedelta(days=1)).timestamp()

    # The next period: told anew, and let go.
    Budget.objects.update(period_starts_at=now - timedelta(days=7), starts_at=now)
    watch_budgets()
    assert told() == [80, 100]
    assert not budget_state(Owner(red))["is_holding"]
    assert not read_snapshot(2).tenants[0].budget_spent
    budget_remove(by=operator, owner=Owner(red))
    state = budget_state(Owner(red))
    assert state["budget"] is None
    assert state["used"] > 0


def test_forecasts_know_what_is_left_and_when_it_is_renewed(operator: Viewer) -> None:
    red, now = make_tenant(), timezone.now()
    ran(red, began=HOUR)  # 2 GPU-hours by now
    terms = {"amount": 10.0, "unit": "gpu_hours", "starts_at": now - 2 * HOUR}

    def ahead() -> limits.Budget | None:
        (tenant,) = [tenant for tenant in facts_ahead(1).tenants if tenant.name == red.name]
        return tenant.budget

    budget_set(by=operator, owner=Owner(red), action="hold", period="none", **terms)
    budget = ahead()
    assert budget is not None
    assert budget == limits.Budget(amount=10.0, left=pytest.approx(8, abs=0.01))
    budget_set(by=operator, owner=Owner(red), action="hold", period="month", **terms)
    budget = ahead()
    assert budget is not None
    days = [datetime.fromtimestamp(instant, UTC) for instant in budget.renewals]
    assert [day.day for day in days] == [1] * 6
    assert days == sorted(set(days))
    budget_set(by=operator, owner=Owner(red), action="warn", period="month", **terms)
    assert ahead() is None


def test_what_is_expected_follows_from_the_last_day(operator: Viewer) -> None:
    red, now = make_tenant(), timezone.now()
    ran(red, began=12 * HOUR, gpus=4)  # 48 GPU-hours a day
    terms = {"unit": "gpu_hours", "action": "warn", "starts_at": now - timedelta(days=1)}
    budget_set(by=operator, owner=Owner(red), amount=96.0, period="none", **terms)
    state = budget_state(Owner(red))
    assert (state["expected"], state["ends_at"]) == (None, None)
    assert state["used_last_day"] == pytest.approx(48, abs=0.01)
    reached = datetime.fromisoformat(state["reached_at"]) - now
    assert reached.total_seconds() == pytest.approx(86_400, abs=60)
    assert not told()[1:], "half of it, once"
    budget_set(by=operator, owner=Owner(red), amount=1e9, period="month", **terms)
    state = budget_state(Owner(red))
    left = datetime.fromisoformat(state["ends_at"]) - now
    assert state["expected"] == pytest.approx(state["used"] + left / timedelta(days=1) * 48, rel=0.01)
