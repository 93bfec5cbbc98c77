"""Snapshots with a market, for tests: what virtual clusters own, and what is in force of it."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.core.model.loan_terms import (
    BorrowRule,
    Lending,
    LendRule,
    Loan,
    LoanId,
    Lot,
    Millicredits,
    Offer,
    OfferId,
    RuleId,
)
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.round.guarantees.reliance import relying_on
from tests.builders import NOW


def with_market(
    owned: Snapshot,
    loans: Sequence[Loan] = (),
    offers: Sequence[Offer] = (),
    lends: Sequence[LendRule] = (),
    borrows: Sequence[BorrowRule] = (),
    balances: dict[str, Millicredits] | None = None,
) -> Snapshot:
    """The facts of a cluster with this market; `owned` has what virtual clusters own themselves."""
    lending = Lending(
        offers=tuple(offers),
        loans=tuple(loans),
        lend_rules=tuple(lends),
        borrow_rules=tuple(borrows),
        balances=balances or {},
    )
    return relying_on(owned, lending)


def make_offer(number: int = 1, lender: str = "speech", lot: Lot | None = None, **terms: object) -> Offer:
    """Four V100 for the next hour, for nothing."""
    fields = {"lot": lot or Lot(gpus={"V100": 4}), "ends_at": NOW + 3_600, **terms}
    return Offer(id=OfferId(number), lender=lender, **fields)  # type: ignore[arg-type]


def make_loan(number: int = 1, lender: str = "speech", borrower: str = "vision", **terms: object) -> Loan:
    """Four V100 from an hour ago for two hours."""
    fields = {"lot": Lot(gpus={"V100": 4}), "starts_at": NOW - 3_600, "ends_at": NOW + 3_600, **terms}
    return Loan(id=LoanId(number), lender=lender, borrower=borrower, **fields)  # type: ignore[arg-type]


def lends(number: int = 1, vc: str = "speech", lot: Lot | None = None, **terms: object) -> LendRule:
    """Lend up to eight V100 for an hour after five minutes."""
    fields = {"idle_seconds": 300.0, "lend_seconds": 3_600.0, **terms}
    rule = RuleId(number)
    return LendRule(id=rule, virtual_cluster=vc, lot=lot or Lot(gpus={"V100": 8}), **fields)  # type: ignore[arg-type]


def borrows(number: int = 9, vc: str = "vision", **terms: object) -> BorrowRule:
    """Borrow up to eight GPUs at once for jobs that have waited for a minute, for up to two credits."""
    fields = {"most_gpus": 8, "waiting_seconds": 60.0, "price": 2_000, **terms}
    return BorrowRule(id=RuleId(number), virtual_cluster=vc, **fields)  # type: ignore[arg-type]
