"""Money: what the database itself refuses, whoever asks for it."""

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models import Sum

from scheduler.models import CreditAccount, CreditTransfer
from scheduler.models.market import BANK
from tests.scheduler.builders import make_account, make_vc

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
