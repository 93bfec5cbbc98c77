"""One broken row keeps no sweep from handling all others."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.utils import timezone

from scheduler.agents.maintenance import services as maintenance
from scheduler.agents.reservations import services as reservations
from scheduler.agents.serving_pools import services as serving_pools
from scheduler.jobs.attempts.services import cpu_trials, hang_detection
from scheduler.jobs.budgets import services as budgets
from scheduler.jobs.services import input_workers
from scheduler.models import (
    Attempt,
    Budget,
    CpuSensitivity,
    InputPool,
    MaintenanceWindow,
    Node,
    NodeMetrics,
    ProgressPoint,
    Reservation,
    ServingPool,
)
from scheduler.models.metrics import Resolution
from scheduler.telemetry.metrics import services as metrics
from scheduler.wiring.sweeps import for_each
from tenants.selectors import viewer_of
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_node, make_tenant, make_user

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


def breaks_for(broken: object, act: Callable[..., object]) -> Callable[..., object]:
    """Return `act`, which fails where its first argument is this one."""

    def acts(first: object, *others: object, **named: object) -> object:
        if first == broken:
            raise RuntimeError(f"{first} is broken")
        return act(first, *others, **named)

    return acts


def test_what_fails_is_named_and_the_others_are_done(caplog: pytest.LogCaptureFixture) -> None:
    done: list[int] = []
    for_each("the watering of plant", [1, 2, 3], breaks_for(2, done.append))
    assert done == [1, 3]
    assert "the watering of plant 2 failed" in caplog.text


@pytest.mark.parametrize(("is_usable", "tried"), [(True, 3), (False, 1)])
def test_a_sweep_ends_when_the_database_is_away_and_not_for_a_deadlock(
    monkeypatch: pytest.MonkeyPatch, is_usable: bool, tried: int
) -> None:
    things: list[int] = []

    def act(thing: int) -> None:
        things.append(thing)
        raise OperationalError("deadlock detected")

    monkeypatch.setattr(connection, "is_usable", lambda: is_usable)
    if is_usable:
        for_each("plant", [1, 2, 3], act)
    else:
        with pytest.raises(OperationalError):
            for_each("plant", [1, 2, 3], act)
    assert len(things) == tried


def test_a_maintenance_window_begins_though_one_before_it_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    windows = [
        MaintenanceWindow.objects.create(
            reason="new fans",
            nodes=[make_node().name],
            starts_at=timezone.now() - HOUR,
            ends_at=timezone.now() + HOUR,
            made_by="user olga",
            made_at=timezone.now() - 2 * HOUR,
        )
        for _ in range(2)
    ]
    monkeypatch.setattr(maintenance, "_begun", breaks_for(windows[0].id, maintenance._begun))
    maintenance.windows_advance()
    states = list(MaintenanceWindow.objects.order_by("id").values_list("state", flat=True))
    assert states == ["announced", "open"]


def test_input_workers_are_matched_though_those_of_another_attempt_cannot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, attempts = timezone.now(), [running({}) for _ in range(2)]
    for attempt in attempts:
        InputPool.objects.create(attempt=attempt, desired=1, requested=1, requested_since=now)
        Attempt.objects.filter(id=attempt.id).update(state="ended", outcome="succeeded", ended_at=now)
    monkeypatch.setattr(input_workers, "_match", breaks_for(attempts[0].id, input_workers._match))
    input_workers.input_workers_match()
    assert list(InputPool.objects.order_by("attempt_id").values_list("is_open", flat=True)) == [True, False]


def running(spec: dict[str, object], **columns: Any) -> Attempt:
    """An attempt that has run for an hour, of a job with these fields in its specification."""
    job = make_job()
    job.spec |= spec
    job.save()
    return make_attempt(
        job, gpus_of(make_node(gpus=1)), state="running", running_at=timezone.now() - HOUR, **columns
    )


def test_a_silent_job_is_stopped_though_another_one_has_a_broken_rule() -> None:
    rules = ({"silent": "for long", "then": "stop"}, {"silent": 60, "then": "stop"})
    attempts = [running({"watch": rule}) for rule in rules]
    ProgressPoint.objects.create(
        attempt=attempts[1], sequence=1, at=timezone.now() - timedelta(minutes=2), step=7
    )
    hang_detection.watch_jobs()
    assert [Attempt.objects.get(id=each.id).state for each in attempts] == ["running", "stopping"]


def test_idle_gpus_are_found_though_another_job_cannot_be_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hang_detection, "idle_gpu_seconds", lambda attempt, below_percent: 3_000.0)
    rules = [{"silent": None, "then": "stop", "idle_gpus": {"seconds": 60, "below_percent": 5}}] * 2
    attempts = [running({"watch": rule}) for rule in rules]
    broken = breaks_for(attempts[0].id, hang_detection._act)
    monkeypatch.setattr(hang_detection, "_act", broken)
    hang_detection.watch_idle_gpus()
    assert [Attempt.objects.get(id=each.id).state for each in attempts] == ["running", "stopping"]


def test_a_trial_ends_though_another_one_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = [running({"trial": {"seconds": 60.0}}, is_trial=True, step=1) for _ in range(2)]
    broken = breaks_for(attempts[0].id, hang_detection._end_trial)
    monkeypatch.setattr(hang_detection, "_end_trial", broken)
    hang_detection.end_trials()
    assert [Attempt.objects.get(id=each.id).state for each in attempts] == ["running", "stopping"]


def test_a_budget_is_watched_though_that_of_another_tenant_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    operator = viewer_of(make_user(operator=True))
    terms: dict[str, Any] = {"amount": 1.0, "unit": "gpu_hours", "period": "week", "action": "warn"}
    for _ in range(2):
        budgets.budget_set(by=operator, owner=budgets.Owner(make_tenant()), **terms)
    rows = list(Budget.objects.order_by("pk"))
    looked_at: list[Budget] = []
    look = breaks_for(rows[0], lambda budget, now: looked_at.append(budget))
    monkeypatch.setattr(budgets, "_look_at", look)
    budgets.watch_budgets()
    assert looked_at == rows[1:]


def test_trials_of_cpus_end_though_those_of_another_job_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = [running({}), running({})]
    for attempt in attempts:
        CpuSensitivity.objects.create(
            tenant=attempt.job.tenant,
            application="decode",
            gpu_model="V100",
            trials={},
            attempt=attempt,
            updated_at=timezone.now() - HOUR,
        )
    monkeypatch.setattr(cpu_trials, "_ask_for", breaks_for(attempts[0].job, lambda job, curve: None))
    cpu_trials.cpus_settle()
    assert [row.attempt for row in CpuSensitivity.objects.order_by("id")] == [attempts[0], None]


def test_a_reservation_is_repaired_though_another_one_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    now = timezone.now()
    made = [
        reservations.reservation_create(
            name="paper",
            tenant=make_tenant(),
            gpu_model="V100",
            gpus=8,
            starts_at=now + HOUR,
            ends_at=now + 2 * HOUR,
            actor="user olga",
        )
        for _ in map(make_node, ("a1", "a2"))
    ]
    Node.objects.update(state="lost")
    spare = make_node("a3")
    monkeypatch.setattr(reservations, "_repair", breaks_for(made[0].id, reservations._repair))
    reservations.reservations_repair()
    assert [row.nodes for row in Reservation.objects.order_by("id")] == [["a1"], [spare.name]]


def test_a_node_returns_to_its_pool_though_another_one_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = ServingPool.objects.create(name="chat", return_seconds=300)
    loan: dict[str, Any] = {
        "loan_state": "returning",
        "return_by": timezone.now(),
        "return_stops_at": timezone.now(),
    }
    nodes = [make_node(serving_pool=pool, **loan) for _ in range(2)]
    monkeypatch.setattr(serving_pools, "_give_back", breaks_for(nodes[0], serving_pools._give_back))
    serving_pools.watch_serving_pools()
    assert list(Node.objects.order_by("id").values_list("loan_state", flat=True)) == ["returning", "serving"]


NOW = datetime(2026, 3, 1, 12, 30, 5, tzinfo=UTC)
SOUND: dict[str, object] = {"host": [], "gpus": {}, "parts": {}, "occupied": {}}


def store(node: Node, *, minutes_ago: int, values: dict[str, object]) -> None:
    NodeMetrics.objects.create(
        node=node,
        seconds=Resolution.READING,
        at=NOW - timedelta(minutes=minutes_ago),
        simulated=False,
        values=values,
    )


def test_readings_are_rolled_up_though_those_of_one_node_cannot_be_read() -> None:
    broken, sound = make_node(), make_node()
    for minutes_ago in (2, 1):
        store(broken, minutes_ago=minutes_ago, values=SOUND | {"gpus": 7})
        store(sound, minutes_ago=minutes_ago, values=SOUND)
    metrics.metrics_roll_up(NOW)
    made = NodeMetrics.objects.filter(seconds=Resolution.MINUTE).values_list("node_id", flat=True)
    assert list(made) == [sound.id] * 2


def test_a_minute_is_rolled_up_though_an_earlier_one_cannot_be() -> None:
    node = make_node()
    store(node, minutes_ago=2, values={"parts": 7})
    store(node, minutes_ago=1, values=SOUND)
    metrics.metrics_roll_up(NOW)
    assert NodeMetrics.objects.get(seconds=Resolution.MINUTE).at == NOW.replace(minute=29, second=0)
