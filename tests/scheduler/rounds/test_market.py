"""What rules decided in a round is carried out as far as it still holds, each deed alone."""

import os
import time

import psycopg
import pytest
from django.db import connection

from scheduler.core.model.loan_terms import MARKET, Lot, MarketAction
from scheduler.core.model.plan import LedgerLine as Line
from scheduler.core.model.plan import Plan
from scheduler.models import CreditTransfer, LedgerLine, Loan, Offer
from scheduler.rounds.apply import apply_plan
from scheduler.rounds.ledger import lines_that_differ
from scheduler.rounds.snapshot import read_snapshot
from scheduler.virtual_clusters import services as virtual_cluster_services
from tests.scheduler.builders import (
    balance_of,
    make_account,
    make_borrow_rule,
    make_lend_rule,
    make_node,
    make_offer,
    make_vc,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def clusters():
    make_node("p100-1", gpus=4, gpu_model="P100")
    speech, vision = make_vc("speech", guaranteed={"P100": 4}), make_vc("vision")
    make_account(vision, 10)
    return speech, vision


def offer_by(rule, *, gpus: int = 1, **said) -> MarketAction:
    said = {"lot": Lot(gpus={"P100": gpus}), "ends_at": time.time() + 3_600, "price": 1_000, **said}
    return MarketAction(kind="offer", virtual_cluster="speech", rule=rule.id, **said)


def act(kind: str, virtual_cluster: str, rule, offer: Offer) -> MarketAction:
    return MarketAction(kind=kind, virtual_cluster=virtual_cluster, rule=rule.id, offer=offer.id)


def carried_out(*actions: MarketAction):
    """Apply a plan of these deeds, with a line of the ledger each."""
    lines = tuple(
        Line(kind=one.kind, party=one.virtual_cluster, message=str(n)) for n, one in enumerate(actions)
    )
    plan = Plan(round_number=9, market=actions, ledger={MARKET: lines} if actions else {})
    applied = apply_plan(read_snapshot(9), plan)
    assert lines_that_differ(plan, applied.dropped) == []
    return applied.dropped


def test_rules_offer_withdraw_and_take_in_a_round(clusters):
    speech, vision = clusters
    lending, borrowing = make_lend_rule(speech, {"P100": 4}, price=500), make_borrow_rule(vision, price=2_000)
    idle = make_offer(speech, {"P100": 1}, rule=lending)
    wanted = make_offer(speech, {"P100": 1}, rule=lending, price=2_000)
    dropped = carried_out(
        act("withdraw", "speech", lending, idle),
        act("take", "vision", borrowing, wanted),
        offer_by(lending, gpus=2, price=500),
    )
    assert dropped == []
    idle.refresh_from_db()
    assert (idle.state, idle.closed_by) == ("withdrawn", f"rule {lending.id}")
    loan = Loan.objects.get()
    assert (loan.offer, loan.taken_by, loan.round_number) == (wanted, f"rule {borrowing.id}", 9)
    assert CreditTransfer.objects.get(kind="payment").round_number == 9
    made = Offer.objects.latest("id")
    assert (made.gpus, made.price, made.rule, made.made_by) == (
        {"P100": 2},
        500,
        lending,
        f"rule {lending.id}",
    )
    # The round has said so already; its lines are the only ones.
    assert list(LedgerLine.objects.order_by("position").values_list("kind", "person", "round_number")) == [
        ("withdraw", "", 9),
        ("take", "", 9),
        ("offer", "", 9),
    ]


def test_what_no_longer_holds_is_dropped_and_the_rest_stands(clusters):
    speech, vision = clusters
    lending, borrowing = make_lend_rule(speech, {"P100": 4}), make_borrow_rule(vision, price=9_000)
    removed = make_lend_rule(speech, {"P100": 1}, removed_at="2026-11-21T00:00Z")
    taken = make_offer(speech, {"P100": 1}, state="taken", closed_by="user vera")
    by_hand = make_offer(speech, {"P100": 1})
    dear = make_offer(speech, {"P100": 1}, price=9_001)
    too_dear = make_offer(speech, {"P100": 1}, price=9_000, hours=9)
    dropped = carried_out(
        act("take", "vision", borrowing, taken),
        act("take", "vision", borrowing, dear),
        act("take", "vision", borrowing, too_dear),
        act("take", "gone", borrowing, too_dear),
        act("take", "speech", borrowing, too_dear),
        act("withdraw", "speech", lending, by_hand),
        offer_by(removed),
        offer_by(lending, gpus=9),
        offer_by(lending),
    )
    whys = [one["why"] for one in dropped]
    assert [one["position"] for one in dropped] == list(range(8))
    for why, words in zip(
        whys,
        (
            "was taken by user vera",
            "costs more than rule",
            "credits and vision has 10",
            "no longer exists",
            "no rule",
            "was not made by rule",
            "no rule",
            "speech owns 4 P100, not 9",
        ),
        strict=True,
    ):
        assert words in why
    assert Offer.objects.latest("id").rule == lending
    assert list(LedgerLine.objects.values_list("kind", "position")) == [("offer", 8)]
    assert balance_of(vision) == 10_000
    assert not Loan.objects.exists()


def test_a_failure_in_the_database_costs_one_deed(clusters, monkeypatch):
    lending = make_lend_rule(clusters[0], {"P100": 4})
    broken = iter([None, {"gpus": {"P100": 1}, "cells": {}}])
    monkeypatch.setattr(
        "scheduler.virtual_clusters.market.services.offers.lot_document", lambda lot: next(broken)
    )
    (dropped,) = carried_out(offer_by(lending), offer_by(lending))
    assert (dropped["position"], dropped["why"]) == (0, "the database refused it: IntegrityError")
    assert Offer.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_round_never_waits_for_who_changes_guarantees(clusters):
    lending = make_lend_rule(clusters[0], {"P100": 4})
    url = os.environ["DATABASE_URL"].rpartition("/")[0] + "/" + connection.settings_dict["NAME"]
    with psycopg.connect(url) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", [virtual_cluster_services._GUARANTEES_LOCK])
        dropped = carried_out(offer_by(lending))
    assert dropped[0]["why"] == "guarantees are being changed at this moment"
    assert carried_out(offer_by(lending)) == []
