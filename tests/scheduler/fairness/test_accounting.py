"""Accounts of stored rounds: samples, states and violations, whatever happens to rounds and clocks."""

from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import OperationalError, connection

from scheduler import tasks
from scheduler.core.model import codec
from scheduler.core.model.snapshot import Member, Snapshot, VirtualCluster
from scheduler.forecasts.fairness import services as fairness_services
from scheduler.forecasts.fairness.services import account_for_rounds
from scheduler.models import FairnessProgress, FairnessSample, FairnessState, FairnessViolation, Round
from scheduler.rounds.run import run_round
from scheduler.wiring import wakeups
from tests.builders import NOW as LONG_AGO
from tests.builders import make_job, make_running, make_snapshot
from tests.scheduler.builders import make_job as make_job_row
from tests.scheduler.builders import make_node as make_node_row
from tests.scheduler.builders import make_tenant, make_vc

pytestmark = pytest.mark.django_db

#: The begin of a minute.
NOW = LONG_AGO - LONG_AGO % 60
SHARED = VirtualCluster(
    name="shared", guaranteed={"V100": 8}, members=(Member(tenant="speech"), Member(tenant="vision"))
)


def facts(vision: int, *, at: float, came: float = NOW, **fields) -> Snapshot:
    """Vision, which came at NOW and could use four GPUs, has some of eight; speech has the others."""
    mine = [make_job(n, tenant="vision", virtual_cluster="shared", submitted_at=came) for n in range(1, 5)]
    theirs = [make_job(n, tenant="speech", virtual_cluster="shared") for n in range(11, 19)]
    holders = [*mine[:vision], *theirs][:8]
    running = [make_running(job, [100 + place]) for place, job in enumerate(holders)]
    fields = {"virtual_clusters": [SHARED], "jobs": [*mine, *theirs], "running": running, **fields}
    return make_snapshot(now=at, **fields)


def store(snapshots, first: int = 1) -> None:
    Round.objects.bulk_create(
        Round(
            number=number,
            started_at=datetime.fromtimestamp(snapshot.now, UTC),
            state="applied",
            snapshot=codec.dumps_snapshot(replace(snapshot, round_number=number)),
        )
        for number, snapshot in enumerate(snapshots, start=first)
    )


def account(snapshots, first: int = 1) -> int:
    store(snapshots, first)
    while account_for_rounds():
        pass
    return first + len(snapshots)


def every(seconds: int, until: int, since: int = 0, **how) -> list[Snapshot]:
    return [facts(at=NOW + second, **how) for second in range(since, until + 1, seconds)]


@pytest.fixture
def all_at_once(monkeypatch):
    monkeypatch.setattr(fairness_services, "MOST_AT_ONCE", 1_000)


def test_a_round_that_cannot_be_accounted_for_keeps_no_later_one_from_it(all_at_once, monkeypatch):
    def broken(snapshot: Snapshot, memory: Any) -> Any:
        if snapshot.round_number == 2:
            raise ZeroDivisionError
        return account_of(snapshot, memory)

    account_of = fairness_services.account_of
    monkeypatch.setattr(fairness_services, "account_of", broken)
    account(every(5, 10, vision=4))
    progress = FairnessProgress.objects.get()
    assert (progress.round_number, progress.at.timestamp()) == (3, NOW + 10)


def test_who_is_kept_from_its_part_is_listed_until_it_has_had_it_for_a_while(all_at_once):
    number = account(every(5, 25, vision=0))
    assert not FairnessViolation.objects.exists()
    number = account(every(5, 60, since=30, vision=0), number)
    violation = FairnessViolation.objects.get()
    assert (violation.virtual_cluster, violation.tenant, violation.worst) == ("shared", "vision", 0.0)
    assert violation.began_at.timestamp() == NOW + 30
    assert violation.round_number == 7
    # Four GPUs for a minute, less what came before the first round.
    assert violation.lost_gpu_seconds == pytest.approx(4 * 60)
    assert violation.cause == "just_arrived"
    row = next(row for row in FairnessState.objects.get().tenants if row["tenant"] == "vision")
    assert (row["better_off_alone"], row["gain"], row["envies"], row["envy"]) == (True, 0.0, "speech", 1.0)
    assert (row["own_part"], row["received"], row["entitled_mean"]) == ({"V100": 4}, {}, 4)

    # From now on it has its part; the mean over ten minutes is good enough when half a minute is left of it.
    number = account(every(5, 595, since=65, vision=4), number)
    assert FairnessViolation.objects.get().ended_at is None
    account(every(5, 680, since=600, vision=4), number)
    ended = FairnessViolation.objects.get()
    assert NOW + 600 <= ended.ended_at.timestamp() <= NOW + 665
    assert ended.lost_gpu_seconds == pytest.approx(4 * 60)
    row = next(row for row in FairnessState.objects.get().tenants if row["tenant"] == "vision")
    assert (row["better_off_alone"], row["received_mean"]) == (False, pytest.approx(4, abs=0.3))


def test_samples_are_sums_by_the_minute(all_at_once):
    account(every(5, 120, vision=2))
    rows = list(FairnessSample.objects.filter(tenant="vision").order_by("at"))
    assert [row.at.timestamp() - NOW for row in rows] == [0, 60, 120]
    # The first round has none before it; each minute has the intervals that end in it.
    assert [row.seconds for row in rows] == [55, 60, 5]
    middle = rows[1]
    assert (middle.own_gpu_seconds, middle.demand_gpu_seconds, middle.received_gpu_seconds) == (240, 240, 120)
    assert (middle.here_gpu_seconds, middle.alone_gpu_seconds) == (120, 240)
    assert middle.received == {"V100": 120}
    assert (middle.tier_demand_gpu_seconds, middle.useful_gpu_seconds) == (240, 120)
    assert middle.rho_worst >= middle.rho_mean > 0
    theirs = FairnessSample.objects.get(tenant="speech", at=middle.at)
    assert (theirs.borrowed_gpu_seconds, theirs.received_gpu_seconds) == (120, 360)
    assert theirs.envy == 0


def test_of_a_backlog_some_rounds_are_left_out_and_the_newest_never_is():
    store(every(5, 495, vision=0))
    assert account_for_rounds() == fairness_services.MOST_AT_ONCE
    progress = FairnessProgress.objects.get()
    assert (progress.round_number, progress.at.timestamp()) == (100, NOW + 495)
    # From the first to the last that were looked at, each interval well below ten rounds.
    seconds = sum(FairnessSample.objects.filter(tenant="vision").values_list("seconds", flat=True))
    assert seconds == pytest.approx(495 - 35)
    assert account_for_rounds() == 0


def test_clocks_that_jump_and_rounds_that_are_lost_do_no_harm():
    times = [0, 5, 10, -3_000, -2_995, 40, 50_000, 50_005]
    account([facts(vision=0, at=NOW + at, came=NOW - 10_000) for at in times])
    rows = FairnessSample.objects.filter(tenant="vision")
    # 5 and 5; back: 0; 5; two leaps that count as ten rounds each; 5.
    assert sum(row.seconds for row in rows) == pytest.approx(5 + 5 + 0 + 5 + 50 + 50 + 5)
    assert all(row.alone_gpu_seconds >= 0 for row in rows)
    for violation in FairnessViolation.objects.all():
        assert violation.ended_at is None or violation.ended_at >= violation.began_at
        assert violation.lost_gpu_seconds >= 0


def test_who_leaves_is_not_kept_from_anything_any_more():
    number = account(every(5, 60, vision=0))
    assert FairnessViolation.objects.filter(ended_at=None).exists()
    account([make_snapshot(now=NOW + 65, virtual_clusters=[], jobs=[])], number)
    assert not FairnessViolation.objects.filter(ended_at=None).exists()
    assert not FairnessState.objects.exists()


def test_a_violation_that_comes_again_is_another_one(all_at_once):
    number = account(every(5, 60, vision=0))
    idle = facts(vision=0, at=NOW + 65, jobs=[], running=[])
    number = account([idle], number)
    account(every(5, 160, since=130, vision=0, came=NOW + 126), number)
    first, second = FairnessViolation.objects.order_by("id")
    assert first.ended_at.timestamp() == NOW + 65
    assert (second.began_at.timestamp(), second.ended_at) == (NOW + 160, None)


def test_real_rounds_are_accounted_for_and_asked_for():
    make_node_row(gpus=4)
    tenants = [make_tenant("speech"), make_tenant("vision")]
    vc = make_vc("shared", members={tenants[0]: 1.0, tenants[1]: 3.0}, guaranteed={"V100": 4})
    for tenant in tenants:
        make_job_row(tenant=tenant, virtual_cluster=vc, gpus=2)
    run_round()
    number = run_round()
    assert account_for_rounds() == 2
    state = FairnessState.objects.get()
    assert (state.virtual_cluster, state.round_number, state.policy) == ("shared", number, "fifo")
    vision = SimpleNamespace(**next(row for row in state.tenants if row["tenant"] == "vision"))
    assert (vision.own_part, vision.received, vision.jobs_running) == ({"V100": 3}, {"V100": 2}, 1)
    assert (vision.speed_here, vision.speed_alone) == (2, 2)


def test_a_round_asks_for_an_account_and_a_thousand_of_them_cost_one(
    monkeypatch, django_capture_on_commit_callbacks
):
    with wakeups._redis() as client:
        client.delete("allot:account-hinted", "allot:account-recent")
    sent = []
    monkeypatch.setattr(
        wakeups.current_app, "send_task", lambda name, **options: sent.append((name, options))
    )
    with django_capture_on_commit_callbacks(execute=True):
        number = run_round()
    wakeups.request_account()
    assert sent == [("scheduler.tasks.account_for_rounds", {"countdown": None})]
    # Far more than what an account costs on a busy machine, by which they are kept apart as well.
    monkeypatch.setattr(wakeups.ACCOUNT, "distance_ms", 600_000)
    tasks.account_for_rounds()
    assert FairnessProgress.objects.get().round_number == number
    wakeups.request_account()
    assert 0 < sent[1][1]["countdown"] <= 600
    with wakeups._redis() as client:
        client.delete("allot:account-recent")


@pytest.mark.django_db
def test_a_fault_of_the_database_is_not_taken_for_another_process_that_accounts() -> None:
    def fails(execute: Any, sql: str, *others: Any) -> Any:
        if "FOR UPDATE" in sql:
            raise OperationalError("the disk is full")
        return execute(sql, *others)

    with connection.execute_wrapper(fails), pytest.raises(OperationalError, match="the disk is full"):
        account_for_rounds()


@pytest.mark.django_db(transaction=True)
def test_rounds_that_another_process_accounts_for_are_left_to_it() -> None:
    FairnessProgress.objects.create(id=1)
    with closing(connection.copy()) as other, other.cursor() as cursor:
        cursor.execute("BEGIN; SELECT 1 FROM scheduler_fairnessprogress FOR UPDATE")
        assert account_for_rounds() == 0
