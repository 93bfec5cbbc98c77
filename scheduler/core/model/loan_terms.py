"""Loans, offers and their terms: plain facts, parts of a snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NewType

from scheduler.core.model.cell_specification import VirtualCells

OfferId = NewType("OfferId", int)
LoanId = NewType("LoanId", int)
RuleId = NewType("RuleId", int)

#: Thousandths of a credit: sums of money are whole numbers.
Millicredits = int

#: The key of idle times in a round's memory; no virtual cluster may have this name.
MARKET = "market"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lot:
    """Guarantees that change hands together: GPUs of models divided by counts, cells of all others."""

    #: By GPU model.
    gpus: Mapping[str, int] = field(default_factory=dict)
    #: By type of cell, or "topmost type/type" where a type occurs in several chains.
    cells: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A lot that any other virtual cluster may take. Instants are Unix seconds."""

    id: OfferId
    lender: str
    lot: Lot
    #: None: from the moment it is taken.
    starts_at: float | None = None
    ends_at: float
    #: For a GPU and an hour.
    price: Millicredits = 0
    #: What the lender gets from the taker for the same time; None: only the price.
    in_return: Lot | None = None
    #: The rule that made it.
    rule: RuleId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Loan:
    """A lot that a borrower has from one instant until another; it then returns to its owner
    automatically.
    """

    id: LoanId
    lender: str
    borrower: str
    lot: Lot
    in_return: Lot | None = None
    starts_at: float
    ends_at: float
    #: The rule that made its offer.
    rule: RuleId | None = None

    def given_by(self, virtual_cluster: str) -> Lot | None:
        """Return what a virtual cluster gives away for the time of the loan; None: nothing."""
        if virtual_cluster == self.lender:
            return self.lot
        return self.in_return if virtual_cluster == self.borrower else None

    def got_by(self, virtual_cluster: str) -> Lot | None:
        """Return what a virtual cluster gets by the loan; None: nothing."""
        return self.given_by(self.other(virtual_cluster))

    def other(self, virtual_cluster: str) -> str:
        """Return the other side; empty where the virtual cluster is not a side."""
        sides = {self.lender: self.borrower, self.borrower: self.lender}
        return sides.get(virtual_cluster, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class LendRule:
    """Offer what stays idle, up to a lot, for a while; the offer ends when it is used again."""

    id: RuleId
    virtual_cluster: str
    lot: Lot
    #: How long it must have been idle.
    idle_seconds: float
    #: For how long it is lent.
    lend_seconds: float
    #: The least for a GPU and an hour.
    price: Millicredits = 0

    def offer(self, number: OfferId, lot: Lot, now: float) -> Offer:
        """Return the offer of a lot by this rule, made now."""
        return Offer(
            id=number,
            lender=self.virtual_cluster,
            lot=lot,
            ends_at=now + self.lend_seconds,
            price=self.price,
            rule=self.id,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BorrowRule:
    """Take offers while guaranteed jobs wait, the cheapest first."""

    id: RuleId
    virtual_cluster: str
    #: GPU models that are wanted; empty: those that the waiting jobs accept.
    gpu_models: tuple[str, ...] = ()
    #: The most GPUs of these models that the virtual cluster borrows at once, by any rule or by hand.
    most_gpus: int
    #: How long a job must have waited.
    waiting_seconds: float
    #: The most for a GPU and an hour.
    price: Millicredits = 0

    def takes(self, gpu_model: str) -> bool:
        """Return whether it borrows GPUs of the model."""
        return not self.gpu_models or gpu_model in self.gpu_models

    def may_serve(self, gpus: int, gpu_models: Iterable[str]) -> bool:
        """Return whether it could borrow `gpus` GPUs of one of the models at once."""
        return self.most_gpus >= gpus and any(map(self.takes, gpu_models))


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketAction:
    """What a rule makes a virtual cluster do in a round.

    "offer" has lot, end, price and rule; "withdraw" an offer that its rule made; "take" an offer and the rule
    by which it is taken.
    """

    kind: Literal["offer", "withdraw", "take"]
    virtual_cluster: str
    rule: RuleId
    lot: Lot | None = None
    ends_at: float | None = None
    price: Millicredits = 0
    offer: OfferId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lending:
    """The market between virtual clusters at one instant.

    The snapshot's guarantees and cells are those in force: lent GPUs already count for the borrower.
    """

    offers: tuple[Offer, ...] = ()
    #: Loans that have not ended; a loan that starts later counts for its lender until then.
    loans: tuple[Loan, ...] = ()
    #: Loans that ended recently, which explain why guarantees lapse now.
    ended: tuple[Loan, ...] = ()
    #: By virtual cluster its own guarantee, before loans: GPUs by model (including its cells' GPUs), and its
    #: cells.
    own_gpus: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    own_cells: Mapping[str, VirtualCells] = field(default_factory=dict)
    lend_rules: tuple[LendRule, ...] = ()
    borrow_rules: tuple[BorrowRule, ...] = ()
    #: What each virtual cluster can pay.
    balances: Mapping[str, Millicredits] = field(default_factory=dict)
