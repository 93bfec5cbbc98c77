"""Offers, loans and rules: what is refused and why, who pays what, and what the clock does by itself."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from threading import Barrier
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import Sum
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.core.model.loan_terms import Lot
from scheduler.models import CreditAccount, CreditTransfer, Event, LedgerLine, Loan, MarketRule, Offer
from scheduler.models.market import BANK
from scheduler.virtual_clusters import services as virtual_cluster_services
from scheduler.virtual_clusters.cells.services import cells_apply
from scheduler.virtual_clusters.market.selectors import market_now
from scheduler.virtual_clusters.market.services import credits, loans
from scheduler.virtual_clusters.market.services.loans import loan_end, market_settle, offer_take
from scheduler.virtual_clusters.market.services.offers import offer_make, offer_withdraw
from scheduler.virtual_clusters.market.services.rules import Borrowing, Lending, rule_make, rule_remove
from scheduler.virtual_clusters.market.services.terms import MOST_OPEN_OFFERS, Terms
from scheduler.virtual_clusters.services import (
    VirtualClusterSettings,
    virtual_cluster_delete,
    virtual_cluster_set,
)
from scheduler.wiring.clock import database_now
from tenants.errors import ApplicationError, Conflict, Invalid, NotAllowed, NotFound
from tenants.models import Membership, Tenant, VirtualCluster
from tenants.selectors import Viewer, viewer_of
from tests.effort import examples
from tests.scheduler.builders import (
    balance_of,
    make_account,
    make_cells,
    make_lend_rule,
    make_loan,
    make_member,
    make_node,
    make_offer,
    make_tenant,
    make_user,
    make_vc,
)

pytestmark = pytest.mark.django_db


class Market:
    """Speech owns four P100, vision four V100 and ten credits; both have an owner."""

    def __init__(self) -> None:
        make_node("p100-1", gpus=4, gpu_model="P100")
        make_node("v100-1", gpus=8, gpu_model="V100")
        speech, vision = make_tenant("speech"), make_tenant("vision")
        self.speech = make_vc("speech", members=[speech], guaranteed={"P100": 4})
        self.vision = make_vc("vision", members=[vision], guaranteed={"V100": 4})
        self.lena = viewer_of(make_member(speech, "lena", role="admin"))
        self.vera = viewer_of(make_member(vision, "vera", role="admin"))
        self.olga = viewer_of(make_user("olga", operator=True))
        make_account(self.vision, 10)

    def offer(self, *, by: Viewer | None = None, vc: VirtualCluster | None = None, **terms: object) -> Offer:
        terms = {"lot": Lot(gpus={"P100": 2}), "ends_at": in_hours(2), **terms}
        return offer_make(by=by or self.lena, virtual_cluster=vc or self.speech, terms=Terms(**terms))

    def take(self, offer: Offer, *, by: Viewer | None = None) -> Loan:
        return offer_take(by=by or self.vera, offer_id=offer.id, virtual_cluster=self.vision)


@pytest.fixture
def market() -> Market:
    return Market()


def in_hours(hours: float):
    return timezone.now() + timedelta(hours=hours)


def fields_of(error: ApplicationError) -> dict[str, str]:
    return {one.field: f"{one.problem}; {one.expected}" for one in error.fields}


def test_an_offer_is_taken_paid_and_told(market):
    offer = market.offer(price=1_500)
    assert (offer.gpus, offer.state, offer.made_by) == ({"P100": 2}, "open", "user lena")
    version = market.vision.version
    loan = market.take(offer)
    # Two GPUs for two hours at 1.5 credits, less the moments since the offer was made.
    paid = 10_000 - balance_of(market.vision)
    assert 5_990 < paid <= 6_000
    assert balance_of(market.speech) == paid
    transfer = CreditTransfer.objects.get(kind="payment")
    assert (transfer.loan, transfer.by, transfer.amount) == (loan, "user vera", paid)
    offer.refresh_from_db()
    assert (offer.state, offer.closed_by) == ("taken", "user vera")
    assert loan.begun
    assert list(Event.objects.order_by("id").values_list("kind", flat=True)) == ["offer.offer", "loan.take"]
    made, taken = LedgerLine.objects.order_by("id")
    assert (made.kind, made.party, made.given, made.price) == ("offer", "speech", {"P100": 2}, 1_500)
    assert (taken.kind, taken.party, taken.counterparty) == ("take", "vision", "speech")
    assert (taken.gpus, taken.person, taken.details["paid"]) == ({"P100": 2}, "user vera", paid / 1_000)
    market.vision.refresh_from_db()
    assert market.vision.version > version
    with pytest.raises(Conflict, match=rf"Offer {offer.id} was taken by user vera at "):
        market.take(offer)
    with pytest.raises(Conflict, match="was taken"):
        offer_withdraw(by=market.lena, offer=offer)


@pytest.mark.parametrize(
    ("terms", "error", "field", "words"),
    [
        ({"lot": Lot(gpus={"P100": 5})}, Invalid, "lot.gpus.P100", "speech owns 4 P100, not 5; at most 4"),
        ({"lot": Lot(gpus={"V100": 1})}, Invalid, "lot.gpus.V100", "speech owns 0 V100"),
        ({"lot": Lot(gpus={"P10": 1})}, Invalid, "lot.gpus.P10", 'did you mean "P100"'),
        ({"lot": Lot(gpus={"P100": 0})}, Invalid, "lot.gpus.P100", "0 is less than 1"),
        ({"lot": Lot(cells={"NODE": 1})}, Invalid, "lot.cells.NODE", "there are no cells of type NODE"),
        ({"lot": Lot()}, Invalid, "lot", "is empty"),
        ({"in_return": Lot()}, Invalid, "in_return", "is empty"),
        ({"in_return": Lot(gpus={"K80": 1})}, Invalid, "in_return.gpus.K80", "no GPU model 'K80'"),
        ({"ends_at": -1}, Invalid, "ends_at", "is past"),
        ({"starts_at": -1}, Invalid, "starts_at", "is past"),
        ({"starts_at": 3, "ends_at": 2}, Invalid, "ends_at", "is not later than starts_at"),
        ({"ends_at": 90 * 24 + 1}, Invalid, "ends_at", "more than 90 days after the beginning"),
        ({"starts_at": 91 * 24, "ends_at": 92 * 24}, Invalid, "starts_at", "more than 90 days ahead"),
        # Three are lent to vision for an hour from now on, and one is offered already.
        ({"lot": Lot(gpus={"P100": 2})}, Conflict, "lot.gpus.P100", "to vision until"),
        ({"lot": Lot(gpus={"P100": 4}), "starts_at": 1.5}, Conflict, "lot.gpus.P100", "an open offer"),
    ],
)
def test_an_offer_that_can_not_be_kept_is_refused(market, terms, error, field, words):
    make_loan(market.speech, market.vision, {"P100": 3}, hours=1)
    market.offer(lot=Lot(gpus={"P100": 1}), ends_at=in_hours(9))
    given = {
        name: in_hours(value) if isinstance(value, int | float) else value for name, value in terms.items()
    }
    with pytest.raises(error) as caught:
        market.offer(**given)
    assert words in fields_of(caught.value)[field]
    assert Offer.objects.filter(state="open").count() == 1


def test_what_is_borrowed_is_not_lent_on_and_each_has_so_many_offers(market, monkeypatch):
    make_loan(market.speech, market.vision, {"P100": 2})
    with pytest.raises(Invalid, match="vision owns 0 P100"):
        market.offer(by=market.vera, vc=market.vision)
    make_lots = [make_offer(market.speech, {"P100": 1}) for _ in range(2)]
    monkeypatch.setattr("scheduler.virtual_clusters.market.services.terms.MOST_OPEN_OFFERS", len(make_lots))
    assert len(make_lots) < MOST_OPEN_OFFERS
    with pytest.raises(Conflict, match="has 2 open offers; withdraw some"):
        market.offer(lot=Lot(gpus={"P100": 1}), starts_at=in_hours(3), ends_at=in_hours(4))


def test_owners_alone_act_for_a_virtual_cluster(market):
    shared = make_vc("shared", members=[make_tenant("blue"), make_tenant("red")], guaranteed={"V100": 2})
    both = viewer_of(make_user())
    for tenant in ("speech", "blue", "red"):
        role = "member" if tenant == "speech" else "admin"
        make_member_of(both, tenant, role)
    both = viewer_of(both.user)
    offer = make_offer(market.speech, {"P100": 1})
    loan = make_loan(market.speech, market.vision, {"P100": 1})
    refused: list[Callable[[], object]] = [
        lambda: market.offer(by=market.vera),
        lambda: market.offer(by=both),
        lambda: market.offer(by=both, vc=shared),
        lambda: market.take(offer, by=market.lena),
        lambda: offer_withdraw(by=market.vera, offer=offer),
        lambda: loan_end(by=market.lena, loan_id=loan.id),
        lambda: rule_make(by=both, virtual_cluster=shared, terms=Borrowing(most_gpus=1, waiting_seconds=1.0)),
        lambda: rule_remove(by=market.vera, rule_id=make_lend_rule(market.speech, {"P100": 1}).id),
    ]
    for deed in refused:
        with pytest.raises(NotAllowed):
            deed()
    with pytest.raises(NotAllowed, match="for virtual cluster shared only operators act: it has 2 members"):
        market.offer(by=both, vc=shared)
    lot = Lot(gpus={"V100": 1})
    assert market.offer(by=market.olga, vc=shared, lot=lot).made_by == "user olga"


def make_member_of(viewer: Viewer, tenant: str, role: str) -> None:
    Membership.objects.create(user=viewer.user, tenant=Tenant.objects.get(name=tenant), role=role)


def test_a_take_that_can_not_be_kept_changes_nothing(market):
    dear = make_offer(market.speech, {"P100": 2}, price=100_000, starts_in_hours=1)
    with pytest.raises(Conflict, match=r"takes 200 credits and vision has 10") as caught:
        market.take(dear)
    assert fields_of(caught.value) == {"credits": "200 are more than vision has; at most 10"}
    barter = make_offer(market.speech, {"P100": 1}, in_return={"gpus": {"V100": 5}, "cells": {}})
    with pytest.raises(Conflict, match="vision owns 4 V100, not 5"):
        market.take(barter)
    own = make_offer(market.vision, {"V100": 1})
    with pytest.raises(Conflict, match="is vision's own"):
        market.take(own)
    late = make_offer(market.speech, {"P100": 1}, hours=-0.001)
    with pytest.raises(Conflict, match="has expired"):
        market.take(late)
    # An operator has lent all of it meanwhile, whatever the offer promised.
    make_loan(market.speech, make_vc("third"), {"P100": 4})
    with pytest.raises(Conflict, match="owns 4 to lend: loan"):
        market.take(make_offer(market.speech, {"P100": 1}))
    with pytest.raises(NotFound):
        offer_take(by=market.vera, offer_id=2**40, virtual_cluster=market.vision)
    assert Loan.objects.filter(borrower=market.vision).count() == 0
    assert balance_of(market.vision) == 10_000
    assert set(Offer.objects.exclude(loan__isnull=False).values_list("state", flat=True)) == {"open"}


def test_the_borrower_gives_back_and_an_operator_refunds(market):
    loan = market.take(market.offer(price=1_000))
    there = balance_of(market.vision)
    loan_end(by=market.vera, loan_id=loan.id)
    assert balance_of(market.vision) == there
    loan.refresh_from_db()
    assert loan.ended_by == "user vera"
    with pytest.raises(Conflict, match=f"Loan {loan.id} ended at"):
        loan_end(by=market.olga, loan_id=loan.id)

    later = market.take(market.offer(price=1_000, starts_at=in_hours(1), lot=Lot(gpus={"P100": 3})))
    # Rounded up to a thousandth of a credit.
    assert balance_of(market.vision) in (there - 3_000, there - 3_001)
    loan_end(by=market.olga, loan_id=later.id)
    assert balance_of(market.vision) == there
    spent = market.take(market.offer(price=1_000, lot=Lot(gpus={"P100": 1})))
    credits.credits_grant(
        by=market.olga,
        virtual_cluster=market.speech,
        millicredits=500 - balance_of(market.speech),
        reason="spent",
    )
    before = balance_of(market.vision)
    loan_end(by=market.olga, loan_id=spent.id)
    assert balance_of(market.vision) == before + 500
    assert balance_of(market.speech) == 0
    line = LedgerLine.objects.latest("id")
    assert (line.kind, line.party, line.given) == ("end", "vision", {"P100": 1})
    assert line.details["refunded"] == 0.5
    assert "0.5 of 2 credits were refunded, not 1.999: speech has no more" in line.message
    assert CreditAccount.objects.aggregate(sum=Sum("balance")) == {"sum": 0}


def test_rules_are_made_and_removed_with_their_open_offers(market):
    desired = Lending(lot=Lot(gpus={"P100": 3}), idle_seconds=60.0, lend_seconds=3_600.0, price=500)
    rule = rule_make(by=market.lena, virtual_cluster=market.speech, terms=desired)
    assert (rule.kind, rule.lot, rule.price) == ("lend", {"gpus": {"P100": 3}, "cells": {}}, 500)
    for lot, words in (({"P100": 5}, "owns 4 P100, not 5"), ({"P9": 1}, "no GPU model 'P9'")):
        too_much = Lending(lot=Lot(gpus=lot), idle_seconds=60.0, lend_seconds=60.0)
        with pytest.raises(Invalid, match=words):
            rule_make(by=market.lena, virtual_cluster=market.speech, terms=too_much)
    unknown = Borrowing(gpu_models=("P9",), most_gpus=1, waiting_seconds=0.0)
    with pytest.raises(Invalid, match="no GPU model 'P9'"):
        rule_make(by=market.vera, virtual_cluster=market.vision, terms=unknown)
    offers = [make_offer(market.speech, {"P100": 1}, rule=rule) for _ in range(2)]
    loan = market.take(offers[0])
    rule_remove(by=market.lena, rule_id=rule.id)
    assert [Offer.objects.get(id=offer.id).state for offer in offers] == ["taken", "withdrawn"]
    loan.refresh_from_db()
    assert loan.ended_at is None
    with pytest.raises(NotFound, match="was removed"):
        rule_remove(by=market.lena, rule_id=rule.id)
    assert MarketRule.objects.get().removed_at is not None


def test_what_loans_rely_on_can_not_be_taken_away(market):
    loan = make_loan(market.speech, market.vision, {"P100": 3})
    less = VirtualClusterSettings(name="speech", guaranteed={"P100": 2})
    with pytest.raises(Conflict) as caught:
        virtual_cluster_set(virtual_cluster=market.speech, desired=less, actor="user olga")
    assert f"loan {loan.id} of 3 P100 from speech to vision" in fields_of(caught.value)["guaranteed.P100"]
    for vc in (market.speech, market.vision):
        with pytest.raises(Conflict, match=f"takes part in the market \\(loan {loan.id}\\)"):
            virtual_cluster_delete(virtual_cluster=vc, actor="user olga")
    Loan.objects.update(ended_at=timezone.now())
    virtual_cluster_set(virtual_cluster=market.speech, desired=less, actor="user olga")
    with pytest.raises(Conflict, match="loans or transfers in its history"):
        virtual_cluster_delete(virtual_cluster=market.speech, actor="user olga")
    alone = make_vc("alone")
    offer = make_offer(alone, {"P100": 1})
    with pytest.raises(Conflict, match=f"offer {offer.id}"):
        virtual_cluster_delete(virtual_cluster=alone, actor="user olga")
    offer_withdraw(by=market.olga, offer=offer)
    virtual_cluster_delete(virtual_cluster=alone, actor="user olga")
    for name in ("market", "bank"):
        with pytest.raises(Invalid, match="used by the platform itself"):
            virtual_cluster_services.virtual_cluster_create(
                desired=VirtualClusterSettings(name=name), actor="user olga"
            )


def test_the_clock_closes_offers_begins_and_ends_loans(market):
    over = make_offer(market.speech, {"P100": 1}, hours=-0.1)
    stays = make_offer(market.speech, {"P100": 1})
    begun = make_loan(market.speech, market.vision, {"P100": 1}, since_hours=0.5)
    coming = make_loan(market.speech, market.vision, {"P100": 1}, since_hours=-1)
    ended = make_loan(market.speech, market.vision, {"P100": 1}, since_hours=2, hours=-0.5)
    for _ in range(2):
        market_settle()
    assert [Offer.objects.get(id=one.id).state for one in (over, stays)] == ["expired", "open"]
    for loan in (begun, coming, ended):
        loan.refresh_from_db()
    assert [loan.begun for loan in (begun, coming)] == [True, False]
    assert [loan.ended_at for loan in (begun, coming, ended)] == [None, None, ended.ends_at]
    told = Event.objects.order_by("id").values_list("kind", "actor")
    assert list(told) == [("offer.expire", ""), ("loan.begin", ""), ("loan.end", "")]
    assert list(LedgerLine.objects.order_by("id").values_list("kind", "person")) == [
        ("expire", ""),
        ("end", ""),
    ]


def test_a_clock_that_ran_ahead_ends_no_loan(market, monkeypatch):
    loan = make_loan(market.speech, market.vision, {"P100": 1})
    with monkeypatch.context() as ahead:
        ahead.setattr(loans, "database_now", lambda: in_hours(24))
        market_settle()
    loan.refresh_from_db()
    assert loan.ended_at == loan.ends_at
    assert market_now(database_now()).in_force.gpus["vision"] == {"P100": 1, "V100": 4}
    assert loan_end(by=market.vera, loan_id=loan.id).ended_by == "user vera"
    assert market_now(database_now()).in_force.gpus["vision"] == {"V100": 4}


CELLS = {
    "types": {"PAIR": {"of": "V100", "count": 2}, "NODE": {"of": "PAIR", "count": 4, "node": True}},
    "physical": [{"type": "NODE", "name": "v100-1", "nodes": ["v100-1"]}],
}


def test_cells_are_lent_and_kept_while_they_are(market):
    document = {**CELLS, "virtual_clusters": {"vision": {"cells": {"PAIR": 2}}}}
    make_cells(document)
    offer = market.offer(by=market.vera, vc=market.vision, lot=Lot(cells={"PAIR": 1}))
    assert offer.gpus == {"V100": 2}
    with pytest.raises(Invalid, match="GPU model V100 is divided by cells"):
        market.offer(by=market.vera, vc=market.vision, lot=Lot(gpus={"V100": 2}))
    loan = offer_take(by=market.lena, offer_id=offer.id, virtual_cluster=market.speech)
    fewer = {**CELLS, "virtual_clusters": {"vision": {"cells": {}}, "speech": {"cells": {"PAIR": 2}}}}
    with pytest.raises(Invalid) as caught:
        cells_apply(document=fewer, version=1, actor="user olga")
    words = fields_of(caught.value)["virtual_clusters.vision.cells.PAIR"]
    assert f"loan {loan.id} of 1 PAIR from vision to speech" in words
    other = {**document, "virtual_clusters": {"vision": {"cells": {"PAIR": 1}}}}
    cells_apply(document=other, version=1, actor="user olga")


# -- whatever people do ------------------------------------------------------------------------------

#: Who owns what.
OWNED = {"speech": "P100", "vision": "V100", "third": "V100"}
CLUSTER, PLACE = st.sampled_from(sorted(OWNED)), st.integers(0, 5)
DEED = st.one_of(
    st.tuples(st.just("offer"), CLUSTER, st.integers(1, 3), st.integers(0, 2_000)),
    st.tuples(st.just("take"), CLUSTER, PLACE),
    st.tuples(st.just("take"), CLUSTER, PLACE),
    st.tuples(st.just("end"), st.booleans(), PLACE),
    st.tuples(st.just("grant"), CLUSTER, st.integers(-9_000, 9_000)),
    st.tuples(st.just("withdraw"), PLACE),
)


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(deeds=st.lists(DEED, min_size=3, max_size=9))
def test_credits_and_guarantees_are_neither_made_nor_lost(market, deeds):
    with transaction.atomic():
        third = make_vc("third", guaranteed={"V100": 2, "P100": 0})
        clusters = {vc.name: vc for vc in (market.speech, market.vision, third)}
        for name, vc in clusters.items():
            make_account(vc, 10)
            done(market, clusters, "offer", name, 1, 1_000)
        for deed in deeds:
            with suppress(Conflict, Invalid, NotAllowed):
                done(market, clusters, *deed)
        held = list(CreditAccount.objects.exclude(id=BANK).values_list("balance", flat=True))
        assert CreditAccount.objects.aggregate(sum=Sum("balance")) == {"sum": 0}
        assert all(balance >= 0 for balance in held)
        in_force = market_now(database_now()).in_force.gpus
        assert all(count >= 0 for gpus in in_force.values() for count in gpus.values())
        assert sum(map(Counter, in_force.values()), Counter()) == {"P100": 4, "V100": 6}
        transaction.set_rollback(True)


def done(market: Market, clusters: dict[str, VirtualCluster], kind: str, *said: Any) -> None:
    """Do one deed as an operator, or as one who may not, on the offer or loan at a place."""
    if kind == "offer":
        name, gpus, price = said
        lot = Lot(gpus={OWNED[name]: gpus})
        market.offer(by=market.olga, vc=clusters[name], lot=lot, price=price)
    elif kind == "grant":
        name, amount = said
        credits.credits_grant(by=market.olga, virtual_cluster=clusters[name], millicredits=amount, reason="")
    elif kind == "end":
        refunding, place = said
        if loan := at(place, Loan):
            loan_end(by=market.olga if refunding else market.vera, loan_id=loan.id)
    elif offer := at(said[-1], Offer):
        if kind == "take":
            offer_take(by=market.olga, offer_id=offer.id, virtual_cluster=clusters[said[0]])
        else:
            offer_withdraw(by=market.olga, offer=offer)


def at(place: int, model: Any) -> Any:
    """Return one of the rows, the same for the same place; None while there are none."""
    rows = list(model.objects.order_by("id"))
    return rows[place % len(rows)] if rows else None


# -- at the same moment ------------------------------------------------------------------------------


def both_at_once(deeds: list[Callable[[], object]]) -> list[str]:
    """Do them in threads with connections of their own; return what became of each."""
    together = Barrier(len(deeds))

    def run(deed: Callable[[], object]) -> str:
        try:
            together.wait()
            deed()
        except Conflict as error:
            return str(error)
        finally:
            connection.close()
        return "done"

    with ThreadPoolExecutor(len(deeds)) as pool:
        return sorted(pool.map(run, deeds))


@pytest.mark.django_db(transaction=True)
def test_of_two_takers_one_has_it_and_nobody_overdraws():
    market = Market()
    third = make_vc("third", guaranteed={"V100": 2})
    make_account(third, 10)
    offer = market.offer(price=2_000)
    refused, done = both_at_once(
        [
            lambda vc=vc: offer_take(by=market.olga, offer_id=offer.id, virtual_cluster=vc)
            for vc in (market.vision, third)
        ]
    )
    assert done == "done"
    assert refused.startswith(f"Offer {offer.id} was taken by user olga")
    assert Loan.objects.count() == CreditTransfer.objects.filter(kind="payment").count() == 1

    # Each costs seven of ten credits, or of the two that are left.
    credits.credits_grant(
        by=market.olga,
        virtual_cluster=market.vision,
        millicredits=10_000 - balance_of(market.vision) or 1,
        reason="",
    )
    offers = [make_offer(market.speech, {"P100": 1}, price=3_500) for _ in range(2)]
    answers = both_at_once([lambda one=one: market.take(one) for one in offers])
    assert answers[1] == "done"
    assert "credits and vision has" in answers[0]
    assert CreditAccount.objects.aggregate(sum=Sum("balance")) == {"sum": 0}
    assert balance_of(market.vision) > 0
