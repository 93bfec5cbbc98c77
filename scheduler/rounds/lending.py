"""The market between virtual clusters, as facts of a round."""

from collections.abc import Iterable
from typing import Any

from scheduler.core.lending.idle import longest_gap
from scheduler.core.model import snapshot as core
from scheduler.core.model.loan_terms import BorrowRule, Lending, LendRule, Loan, Offer
from scheduler.core.round.guarantees.reliance import relying_on
from scheduler.virtual_clusters.market.selectors import lot_of
from scheduler.wiring.jsonb import read_jsonb

_OFFERS = """
SELECT o.id, v.name, o.lot, extract(epoch FROM o.starts_at)::float8, extract(epoch FROM o.ends_at)::float8,
       o.price, o.in_return, o.rule_id
FROM scheduler_offer o JOIN tenants_virtualcluster v ON v.id = o.lender_id
WHERE o.state = 'open' AND o.ends_at > to_timestamp(%s) ORDER BY o.id
"""
_LOANS = """
SELECT l.id, lender.name, borrower.name, o.lot, o.in_return, extract(epoch FROM l.starts_at)::float8,
       extract(epoch FROM coalesce(l.ended_at, l.ends_at))::float8, o.rule_id
FROM scheduler_loan l JOIN scheduler_offer o ON o.id = l.offer_id
JOIN tenants_virtualcluster lender ON lender.id = o.lender_id
JOIN tenants_virtualcluster borrower ON borrower.id = l.borrower_id
WHERE coalesce(l.ended_at, l.ends_at) > to_timestamp(%s) ORDER BY l.id
"""
_RULES = """
SELECT r.id, v.name, r.kind, r.lot, r.idle_seconds, r.lend_seconds, r.gpu_models, r.most_gpus,
       r.waiting_seconds, r.price
FROM scheduler_marketrule r JOIN tenants_virtualcluster v ON v.id = r.virtual_cluster_id
WHERE r.removed_at IS NULL ORDER BY r.id
"""
_BALANCES = """
SELECT v.name, a.balance FROM scheduler_creditaccount a
JOIN tenants_virtualcluster v ON v.id = a.virtual_cluster_id ORDER BY v.name
"""


def with_lending(snapshot: core.Snapshot, cursor: Any) -> core.Snapshot:
    """Return a snapshot of what virtual clusters own, with the market and the guarantees in force now.

    Where nothing is offered or lent and there are no rules, there is no market and nothing changes.
    """
    cursor.execute(_OFFERS, [snapshot.now])
    offers = tuple(map(_offer, cursor.fetchall()))
    # Loans that have just ended are the reason why guarantees lapse.
    cursor.execute(_LOANS, [snapshot.now - longest_gap(snapshot.round_seconds)])
    loans = tuple(map(_loan, cursor.fetchall()))
    cursor.execute(_RULES)
    rules = tuple(map(_rule, cursor.fetchall()))
    if not offers and not loans and not rules:
        return snapshot
    cursor.execute(_BALANCES)
    lending = Lending(
        offers=offers,
        loans=tuple([loan for loan in loans if loan.ends_at > snapshot.now]),
        ended=tuple([loan for loan in loans if loan.ends_at <= snapshot.now]),
        lend_rules=tuple([rule for rule in rules if isinstance(rule, LendRule)]),
        borrow_rules=tuple([rule for rule in rules if isinstance(rule, BorrowRule)]),
        balances=dict(cursor.fetchall()),
    )
    return relying_on(snapshot, lending)


def _offer(row: Iterable[Any]) -> Offer:
    number, lender, lot, starts_at, ends_at, price, in_return, rule = row
    return Offer(
        id=number,
        lender=lender,
        lot=lot_of(read_jsonb(lot)),
        starts_at=starts_at,
        ends_at=ends_at,
        price=price,
        in_return=None if in_return is None else lot_of(read_jsonb(in_return)),
        rule=rule,
    )


def _loan(row: Iterable[Any]) -> Loan:
    number, lender, borrower, lot, in_return, starts_at, ends_at, rule = row
    return Loan(
        id=number,
        lender=lender,
        borrower=borrower,
        lot=lot_of(read_jsonb(lot)),
        in_return=None if in_return is None else lot_of(read_jsonb(in_return)),
        starts_at=starts_at,
        ends_at=ends_at,
        rule=rule,
    )


def _rule(row: Iterable[Any]) -> LendRule | BorrowRule:
    number, vc, kind, lot, idle, lend, models, most, waiting, price = row
    if kind == "lend":
        return LendRule(
            id=number,
            virtual_cluster=vc,
            lot=lot_of(read_jsonb(lot)),
            idle_seconds=idle,
            lend_seconds=lend,
            price=price,
        )
    return BorrowRule(
        id=number,
        virtual_cluster=vc,
        gpu_models=tuple(read_jsonb(models)),
        most_gpus=most,
        waiting_seconds=waiting,
        price=price,
    )
