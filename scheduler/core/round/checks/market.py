"""Part of step 7, check: virtual clusters do only what their rules allow, from the raw snapshot alone."""

from __future__ import annotations

from collections import Counter

from scheduler.core.cells.compiling import compiled
from scheduler.core.lending.lots import cost, gpus_of
from scheduler.core.model.errors import PlanError
from scheduler.core.model.loan_terms import (
    BorrowRule,
    LendRule,
    Loan,
    Lot,
    MarketAction,
    Offer,
    OfferId,
    RuleId,
)
from scheduler.core.model.plan import Plan
from scheduler.core.model.snapshot import Snapshot


def check_market(snapshot: Snapshot, plan: Plan) -> None:
    """Raise PlanError unless each mutation follows its owner's rule, on its terms, and can be paid."""
    if not plan.market:
        return
    lending = snapshot.lending
    if lending is None:
        raise PlanError("something is lent, and there is no market")
    layout = None if snapshot.cells is None else compiled(snapshot.cells)
    lends = {rule.id: rule for rule in lending.lend_rules}
    borrows = {rule.id: rule for rule in lending.borrow_rules}
    offers = {offer.id: offer for offer in lending.offers}
    lent: dict[RuleId, Counter[str]] = {rule: Counter() for rule in lends}
    before: list[Offer | Loan] = [*lending.offers, *lending.loans]
    for made in before:
        if made.rule in lent and made.ends_at > snapshot.now:
            lent[made.rule].update(_counts(made.lot))
    spent: Counter[str] = Counter()
    for mutation in plan.market:
        if mutation.kind == "offer":
            _check_offer(mutation, lends.get(mutation.rule), lent)
            continue
        offer = offers.pop(OfferId(-1) if mutation.offer is None else mutation.offer, None)
        if offer is None:
            raise PlanError(
                f"{mutation.kind} of offer {mutation.offer}, which is not open or has another mutation"
            )
        if mutation.kind == "take":
            _check_take(mutation, borrows.get(mutation.rule), offer)
            gpus, seconds = sum(gpus_of(offer.lot, layout).values()), offer.ends_at - snapshot.now
            spent[mutation.virtual_cluster] += cost(offer.price, gpus, seconds)
            continue
        if offer.rule != mutation.rule or offer.lender != mutation.virtual_cluster:
            raise PlanError(f"offer {offer.id} is withdrawn by rule {mutation.rule}, which did not make it")
        lent[mutation.rule].subtract(_counts(offer.lot))
    for vc, amount in spent.items():
        if amount > lending.balances.get(vc, 0):
            raise PlanError(f"virtual cluster {vc} would spend {amount}, more than it has")


def _check_offer(mutation: MarketAction, rule: LendRule | None, lent: dict[RuleId, Counter[str]]) -> None:
    if rule is None or rule.virtual_cluster != mutation.virtual_cluster or mutation.lot is None:
        raise PlanError(f"{mutation.virtual_cluster} offers something without a rule of its own")
    if mutation.price < rule.price:
        raise PlanError(f"rule {rule.id} would lend for {mutation.price}, less than it says")
    lent[rule.id].update(_counts(mutation.lot))
    most = _counts(rule.lot)
    for name, count in lent[rule.id].items():
        if count > most.get(name, 0):
            raise PlanError(f"rule {rule.id} would lend {count} {name}, more than it says")


def _check_take(mutation: MarketAction, rule: BorrowRule | None, offer: Offer) -> None:
    if (
        rule is None
        or rule.virtual_cluster != mutation.virtual_cluster
        or offer.lender == mutation.virtual_cluster
    ):
        raise PlanError(f"{mutation.virtual_cluster} takes offer {offer.id} without a rule of its own")
    if offer.price > rule.price:
        raise PlanError(f"rule {rule.id} would pay {offer.price}, more than it says")


def _counts(lot: Lot) -> dict[str, int]:
    return {**lot.gpus, **lot.cells}
