"""The market between virtual clusters in virtual time: what services do in the live loop.

Offers are made, taken and withdrawn, loans begin and end, credits change hands. Sums are whole millicredits,
and every transfer has two sides, so all accounts together, including the bank's, sum to 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from scheduler.core.lending.checking import problems
from scheduler.core.lending.idle import longest_gap
from scheduler.core.lending.in_force import Guarantees
from scheduler.core.lending.lots import cost, gpus_of
from scheduler.core.model.errors import SchedulingError
from scheduler.core.model.loan_terms import (
    BorrowRule,
    Lending,
    LendRule,
    Loan,
    LoanId,
    MarketAction,
    Millicredits,
    Offer,
    OfferId,
)

#: The account that grants come from; no virtual cluster has this name.
BANK = "bank"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """A transfer from one account to another."""

    at: float
    payer: str
    payee: str
    amount: Millicredits
    #: None for a grant.
    loan: LoanId | None = None


class Market:
    """Offers, loans, rules and accounts; `at` returns them as facts."""

    def __init__(self, lending: Lending) -> None:
        self.offers = {offer.id: offer for offer in lending.offers}
        self.loans = {loan.id: loan for loan in (*lending.ended, *lending.loans)}
        self.lend_rules, self.borrow_rules = list(lending.lend_rules), list(lending.borrow_rules)
        self.balances: Counter[str] = Counter(lending.balances)
        self.balances[BANK] = -sum(lending.balances.values())
        self.transfers: list[Transfer] = []

    def at(self, now: float, round_seconds: float) -> Lending:
        """Return the market at an instant."""
        remembered = now - longest_gap(round_seconds)
        loans = list(self.loans.values())
        return Lending(
            offers=tuple([offer for offer in self.offers.values() if offer.ends_at > now]),
            loans=tuple([loan for loan in loans if loan.ends_at > now]),
            ended=tuple([loan for loan in loans if remembered < loan.ends_at <= now]),
            lend_rules=tuple(self.lend_rules),
            borrow_rules=tuple(self.borrow_rules),
            balances={name: amount for name, amount in sorted(self.balances.items()) if name != BANK},
        )

    @property
    def longest_wait(self) -> float:
        """The longest time, in seconds, that a rule waits before it offers or borrows."""
        idle = [rule.idle_seconds for rule in self.lend_rules]
        return max([*idle, *[rule.waiting_seconds for rule in self.borrow_rules]], default=0.0)

    # What people do; SchedulingError states what prevents it

    def make(self, offer: Offer, own: Guarantees, now: float) -> Offer:
        """Make an offer; its number is assigned here."""
        offer = replace(offer, id=OfferId(1 + max(self.offers, default=0)))
        others = [each for each in self._open(now) if each.lender == offer.lender]
        self._refuse(problems(own, tuple(self.loans.values()), offer, now, offered=others))
        self.offers[offer.id] = offer
        return offer

    def take(self, number: OfferId, borrower: str, own: Guarantees, now: float) -> Loan:
        """Take an offer, and pay for it."""
        offer = self.offers.get(number)
        if offer is None or offer.ends_at <= now:
            raise SchedulingError(f"offer {number} is not open")
        loan = Loan(
            id=LoanId(1 + max(self.loans, default=0)),
            lender=offer.lender,
            borrower=borrower,
            lot=offer.lot,
            in_return=offer.in_return,
            starts_at=now if offer.starts_at is None else max(now, offer.starts_at),
            ends_at=offer.ends_at,
            rule=offer.rule,
        )
        self._refuse(problems(own, tuple(self.loans.values()), loan, now))
        gpus = sum(gpus_of(loan.lot, own.layout).values())
        amount = cost(offer.price, gpus, loan.ends_at - loan.starts_at)
        if amount > self.balances[borrower]:
            raise SchedulingError(
                f"offer {number} costs {amount / 1_000:g} credits and {borrower} has"
                f" {self.balances[borrower] / 1_000:g}"
            )
        del self.offers[number]
        self.loans[loan.id] = loan
        if amount:
            self._pay(Transfer(at=now, payer=borrower, payee=offer.lender, amount=amount, loan=loan.id))
        return loan

    def lend(self, loan: Loan, own: Guarantees, now: float) -> Loan:
        """Make a loan without an offer and without a price; its number is assigned here."""
        loan = replace(loan, id=LoanId(1 + max(self.loans, default=0)))
        self._refuse(problems(own, tuple(self.loans.values()), loan, now))
        self.loans[loan.id] = loan
        return loan

    def withdraw(self, number: OfferId) -> None:
        """Withdraw an offer; nothing happens when it is no longer open."""
        self.offers.pop(number, None)

    def grant(self, virtual_cluster: str, amount: Millicredits, now: float) -> None:
        """Give a virtual cluster credits from the bank."""
        self._pay(Transfer(at=now, payer=BANK, payee=virtual_cluster, amount=amount))

    def follow(self, rule: LendRule | BorrowRule, own: Guarantees, now: float) -> None:
        """Add a rule that a virtual cluster follows from now on; it lends only what the cluster owns."""
        if isinstance(rule, LendRule):
            self._refuse(problems(own, (), rule.offer(OfferId(0), rule.lot, now), now))
            self.lend_rules.append(rule)
        else:
            self.borrow_rules.append(rule)

    def close(self) -> None:
        """Disable all rules, and withdraw all offers."""
        self.lend_rules.clear()
        self.borrow_rules.clear()
        self.offers.clear()

    # What rules do

    def carry_out(self, actions: Sequence[MarketAction], own: Guarantees, now: float) -> list[Loan]:
        """Do what rules decided in a round, as far as it still holds; return the loans that were made."""
        made = []
        for action in actions:
            try:
                if action.kind == "take":
                    assert action.offer is not None
                    made.append(self.take(action.offer, action.virtual_cluster, own, now))
                elif action.kind == "withdraw":
                    assert action.offer is not None
                    self.withdraw(action.offer)
                else:
                    assert action.lot is not None
                    assert action.ends_at is not None
                    offer = Offer(
                        id=OfferId(0),
                        lender=action.virtual_cluster,
                        lot=action.lot,
                        ends_at=action.ends_at,
                        price=action.price,
                        rule=action.rule,
                    )
                    self.make(offer, own, now)
            except SchedulingError:
                continue
        return made

    def _open(self, now: float) -> list[Offer]:
        return [offer for offer in self.offers.values() if offer.ends_at > now]

    def _pay(self, transfer: Transfer) -> None:
        self.balances[transfer.payer] -= transfer.amount
        self.balances[transfer.payee] += transfer.amount
        self.transfers.append(transfer)

    def _refuse(self, found: Sequence[object]) -> None:
        if found:
            raise SchedulingError("; ".join(map(str, found)))
