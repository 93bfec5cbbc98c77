"""The market as facts of a round."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone

from scheduler.core.cells.compiling import compiled
from scheduler.core.model import loan_terms as core
from scheduler.core.model.cell_specification import VirtualCells
from scheduler.core.round.guarantees.reliance import owned
from scheduler.models import PolicyMemory
from scheduler.rounds.preview import effects
from scheduler.rounds.snapshot import read_snapshot
from tests import builders as facts_of
from tests.core.lending.test_stories import NODE, lent_node
from tests.scheduler.builders import (
    make_account,
    make_borrow_rule,
    make_cells,
    make_lend_rule,
    make_loan,
    make_node,
    make_offer,
    make_vc,
)

pytestmark = pytest.mark.django_db


def test_without_offers_loans_and_rules_there_is_no_market():
    make_node(gpus=2)
    make_account(make_vc("speech"), 3)
    assert read_snapshot(1).lending is None


def test_rows_are_read_and_guarantees_are_those_in_force():
    make_node("p100-1", gpus=4, gpu_model="P100")
    node = make_node("v100-1", gpus=4)
    speech, vision = make_vc("speech", guaranteed={"P100": 4, "V100": 4}), make_vc("vision")
    document = {
        "types": {
            "SWITCH": {"of": "V100", "count": 2},
            "NODE": {"of": "SWITCH", "count": 2, "node": True},
        },
        "physical": [{"type": "NODE", "nodes": [node.name]}],
        "virtual_clusters": {"speech": {"cells": {"NODE": 1}}},
    }
    make_cells(document)
    make_account(vision, 2.5)
    lending = make_lend_rule(speech, {"P100": 2}, cells={"SWITCH": 1}, price=7)
    make_lend_rule(speech, {"P100": 2}, removed_at=timezone.now())
    borrowing = make_borrow_rule(vision, gpu_models=["P100"], price=9)
    offer = make_offer(
        speech, {"P100": 1}, starts_in_hours=1, price=5, rule=lending, in_return={"gpus": {"P100": 1}}
    )
    make_offer(speech, {"P100": 1}, state="withdrawn")
    make_offer(speech, {"P100": 1}, hours=-1)
    loan = make_loan(speech, vision, {"V100": 2}, cells={"SWITCH": 1})
    coming = make_loan(speech, vision, {"P100": 1}, since_hours=-1)
    make_loan(speech, vision, {"P100": 2}, hours=-0.5)
    given_back = make_loan(speech, vision, {"P100": 3}, ended_at=timezone.now() - timedelta(seconds=5))
    PolicyMemory.objects.create(view=core.MARKET, memory={"at": 1.0})

    facts = read_snapshot(1)

    assert facts.memory[core.MARKET] == {"at": 1.0}
    found = facts.lending
    assert found is not None
    assert found.offers == (
        core.Offer(
            id=offer.id,
            lender="speech",
            lot=core.Lot(gpus={"P100": 1}),
            starts_at=offer.starts_at.timestamp(),
            ends_at=offer.ends_at.timestamp(),
            price=5,
            in_return=core.Lot(gpus={"P100": 1}),
            rule=lending.id,
        ),
    )
    lent = core.Loan(
        id=loan.id,
        lender="speech",
        borrower="vision",
        lot=core.Lot(cells={"SWITCH": 1}),
        starts_at=loan.starts_at.timestamp(),
        ends_at=loan.ends_at.timestamp(),
    )
    assert (found.loans[0], found.loans[1].id) == (lent, coming.id)
    assert [(each.id, each.ends_at) for each in found.ended] == [
        (given_back.id, given_back.ended_at.timestamp())
    ]
    assert found.lend_rules == (
        core.LendRule(
            id=lending.id,
            virtual_cluster="speech",
            lot=core.Lot(gpus={"P100": 2}, cells={"SWITCH": 1}),
            idle_seconds=600.0,
            lend_seconds=3_600.0,
            price=7,
        ),
    )
    assert found.borrow_rules == (
        core.BorrowRule(
            id=borrowing.id,
            virtual_cluster="vision",
            gpu_models=("P100",),
            most_gpus=4,
            waiting_seconds=60.0,
            price=9,
        ),
    )
    assert found.balances == {"vision": 2_500}
    assert {vc.name: vc.guaranteed for vc in facts.virtual_clusters} == {
        "speech": {"P100": 4, "V100": 2},
        "vision": {"V100": 2},
    }
    assert facts.cells is not None
    assert {name: each.cells for name, each in facts.cells.virtual_clusters.items()} == {
        "speech": {"SWITCH": 1},
        "vision": {"SWITCH": 1},
    }
    assert {vc.name: vc.guaranteed for vc in owned(facts).virtual_clusters} == {
        "speech": {"P100": 4, "V100": 4},
        "vision": {},
    }


def test_another_division_by_cells_is_tried_with_what_is_lent():
    """The borrower's job runs on a node that the specification gives to its lender."""
    job = facts_of.make_job(1, 8, virtual_cluster="vision")
    facts = lent_node([job], cells=True)
    facts = replace(facts, running=(facts_of.make_running(job, range(100, 108)),))
    own = owned(facts).cells
    told = {"virtual_cluster": "vision", "running": 1, "lapsing": 0, "jobs": []}
    assert effects(facts, compiled(own)) == [told]
    taken = replace(own, virtual_clusters={"labs": VirtualCells(cells={NODE: 2})})
    assert effects(facts, compiled(taken)) == [told | {"lapsing": 1, "jobs": [1]}]
