"""Money: what the database itself refuses; grants; and allowances, however clocks jump."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models import Sum

from scheduler.models import Allowance, CreditAccount, CreditTransfer
from scheduler.models.market import BANK
from scheduler.virtual_clusters.market.services import credits
from scheduler.virtual_clusters.market.services.credits import (
    MOST_MILLICREDITS,
    allowance_remove,
    allowance_set,
    allowances_pay,
    credits_grant,
)
from tenants.errors import Conflict, NotAllowed, NotFound
from tenants.models import AuditEntry
from tenants.selectors import viewer_of
from tests.scheduler.builders import balance_of, make_account, make_user, make_vc

pytestmark = pytest.mark.django_db

TRANSFER = """
INSERT INTO scheduler_credittransfer (at, kind, debit_id, credit_id, amount, reason, by, due_at)
VALUES (now(), %(kind)s, %(debit)s, %(credit)s, %(amount)s, '', 'user olga', %(due)s)
"""


@pytest.fixture
def accounts() -> tuple[CreditAccount, CreditAccount]:
    """One with five credits, one with none."""
    return make_account(make_vc("rich"), 5), make_account(make_vc("poor"))


def sql(statement: str, **values: object) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement, values or None)


def test_a_transfer_is_written_to_both_accounts(accounts):
    rich, poor = accounts
    sql(TRANSFER, kind="grant", debit=BANK, credit=poor.id, amount=1_500, due=None)
    sql(TRANSFER, kind="taken_back", debit=rich.id, credit=BANK, amount=4_000, due=None)
    held = {row.id: row for row in CreditAccount.objects.all()}
    assert {id: row.balance for id, row in held.items()} == {BANK: -2_500, rich.id: 1_000, poor.id: 1_500}
    assert {id: row.granted for id, row in held.items()} == {BANK: -2_500, rich.id: 1_000, poor.id: 1_500}
    assert held[rich.id].version > rich.version


@pytest.mark.parametrize(
    ("kind", "debit", "credit", "amount", "due", "named"),
    [
        ("taken_back", "rich", "bank", 5_001, None, "balance_is_not_negative"),
        ("grant", "bank", "rich", 0, None, "transfer_is_positive"),
        ("taken_back", "rich", "bank", -5, None, "transfer_is_positive"),
        ("grant", "bank", "bank", 5, None, "transfer_has_two_sides"),
        ("grant", "rich", "poor", 5, None, "transfer_is_of_its_kind"),
        ("payment", "rich", "poor", 5, None, "transfer_is_of_its_kind"),
        ("gift", "bank", "poor", 5, None, "transfer_is_of_its_kind"),
        ("allowance", "bank", "poor", 5, None, "allowance_has_a_period"),
        ("grant", "bank", "poor", 5, "2026-11-21", "allowance_has_a_period"),
    ],
)
def test_the_database_refuses_a_transfer_that_can_not_be(accounts, kind, debit, credit, amount, due, named):
    ids = {"bank": BANK, "rich": accounts[0].id, "poor": accounts[1].id}
    with pytest.raises(IntegrityError, match=named):
        sql(TRANSFER, kind=kind, debit=ids[debit], credit=ids[credit], amount=amount, due=due)
    assert CreditAccount.objects.aggregate(sum=Sum("balance")) == {"sum": 0}
    assert CreditTransfer.objects.count() == 1


def test_one_allowance_a_period(accounts):
    values = {"kind": "allowance", "debit": BANK, "credit": accounts[1].id, "amount": 7, "due": "2026-11-21"}
    sql(TRANSFER, **values)
    with pytest.raises(IntegrityError, match="one_allowance_per_period"):
        sql(TRANSFER, **values)


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("UPDATE scheduler_credittransfer SET amount = 1", "neither changed nor deleted"),
        ("DELETE FROM scheduler_credittransfer", "neither changed nor deleted"),
        (
            "UPDATE scheduler_creditaccount SET balance = balance + 1, granted = granted + 1",
            "transfers alone",
        ),
        ("UPDATE scheduler_creditaccount SET id = 99 WHERE id = 0", "transfers alone"),
        (
            "INSERT INTO scheduler_creditaccount (id, balance, granted, earned, spent, version)"
            " VALUES (99, 5, 5, 0, 0, 1)",
            "begins with nothing",
        ),
        (
            "INSERT INTO scheduler_creditaccount (id, balance, granted, earned, spent, version)"
            " VALUES (99, 0, 0, 0, 0, 1)",
            "one_bank",
        ),
        (
            "SET CONSTRAINTS ALL IMMEDIATE; DELETE FROM scheduler_creditaccount WHERE balance > 0",
            "foreign key",
        ),
    ],
)
def test_nobody_writes_a_balance_or_rewrites_the_past(accounts, statement, named):
    with pytest.raises(IntegrityError, match=named):
        sql(statement)


def test_operators_grant_and_take_back_what_is_there():
    operator, vc = viewer_of(make_user("olga", operator=True)), make_vc("vision")
    credits_grant(by=operator, virtual_cluster=vc, millicredits=5_000, reason="welcome")
    credits_grant(by=operator, virtual_cluster=vc, millicredits=-1_500, reason="too much")
    assert balance_of(vc) == 3_500
    with pytest.raises(Conflict, match=r"takes 4 credits and vision has 3\.5"):
        credits_grant(by=operator, virtual_cluster=vc, millicredits=-4_000, reason="")
    with pytest.raises(Conflict, match="more than 1,000,000,000 credits"):
        credits_grant(by=operator, virtual_cluster=vc, millicredits=MOST_MILLICREDITS, reason="")
    with pytest.raises(NotAllowed):
        credits_grant(by=viewer_of(make_user()), virtual_cluster=vc, millicredits=1, reason="")
    assert balance_of(vc) == 3_500
    assert AuditEntry.objects.filter(action="credits.create").count() == 2


@pytest.fixture
def clock(monkeypatch):
    """Set what time it is, in hours since noon."""
    noon = datetime(2026, 11, 21, 12, tzinfo=UTC)

    def at(hours: float) -> None:
        now = noon + timedelta(hours=hours)
        monkeypatch.setattr(credits, "database_now", lambda: now)
        allowances_pay()

    return at


def test_an_allowance_is_paid_once_a_period(clock):
    operator, vc = viewer_of(make_user(operator=True)), make_vc()
    clock(0)
    allowance_set(by=operator, virtual_cluster=vc, millicredits=10, every_seconds=3_600)
    paid = []
    # On time, twice at once, late, after a night's downtime, back by a jump of the clock, ahead, and back.
    for hours in (0, 0.5, 1, 1, 2.9, 3.1, 15.5, 15.9, 16, 3.5, 16.2, 17, 500, 17.5, 18, 19, 500.5, 501):
        clock(hours)
        paid.append(balance_of(vc) // 10)
    assert paid == [1, 1, 2, 2, 3, 4, 5, 5, 6, 6, 6, 7, 8, 8, 9, 10, 10, 11]
    dues = CreditTransfer.objects.values_list("due_at", flat=True)
    assert all(due.minute == 0 for due in dues)
    assert len(set(dues)) == len(dues) == 11


def test_a_changed_allowance_keeps_its_turn(clock):
    operator, vc = viewer_of(make_user(operator=True)), make_vc()
    clock(0)
    allowance_set(by=operator, virtual_cluster=vc, millicredits=10, every_seconds=7_200)
    clock(0.5)
    allowance_set(by=operator, virtual_cluster=vc, millicredits=30, every_seconds=3_600)
    clock(1.4)
    assert balance_of(vc) == 10
    clock(1.5)
    assert balance_of(vc) == 40
    allowance_remove(by=operator, virtual_cluster=vc)
    clock(9)
    assert balance_of(vc) == 40
    with pytest.raises(NotFound):
        allowance_remove(by=operator, virtual_cluster=vc)


def test_an_allowance_fills_an_account_and_no_more(clock):
    vc = make_vc()
    account = make_account(vc, (MOST_MILLICREDITS - 7) / 1_000)
    Allowance.objects.create(
        account=account, millicredits=10, every_seconds=60, next_at=datetime(2026, 11, 21, 12, tzinfo=UTC)
    )
    for hours in (0, 1):
        clock(hours)
        assert balance_of(vc) == MOST_MILLICREDITS
