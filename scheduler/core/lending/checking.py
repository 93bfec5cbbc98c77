"""Check that an offer, a loan or an operator's change always leaves every virtual cluster its guarantee.

Guarantees change only when a loan begins or ends, so only those instants are checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from scheduler.core.cells.errors import Problem
from scheduler.core.lending.in_force import Guarantees, Lack, active, given_and_got, lacks
from scheduler.core.lending.lots import cells_of, kinds_of, words_of
from scheduler.core.model import wording
from scheduler.core.model.loan_terms import Loan, LoanId, Lot, Offer

#: Stands for the virtual cluster that will take an offer.
NOBODY = ""


def problems(
    own: Guarantees,
    loans: Sequence[Loan],
    desired: Offer | Loan,
    now: float,
    *,
    offered: Iterable[Offer] = (),
) -> list[Problem]:
    """Return what prevents an offer or a loan beside the present loans; empty if it can be kept.

    `own` is what each virtual cluster is guaranteed without loans. `offered` has offers that count as if they
    had been taken, such as other open ones of the same lender, so that nothing is offered twice.
    """
    loan = _as_loan(desired, now)
    found = [*_problems_with_lot("lot", loan.lot, loan.lender, own)]
    if desired.in_return is not None:
        if isinstance(desired, Loan):
            found += _problems_with_lot("in_return", desired.in_return, desired.borrower, own)
        else:
            found += _problems_with_form("in_return", desired.in_return, own)
    if not loan.ends_at > max(loan.starts_at, now):
        expected = "a later instant" if loan.ends_at > now else "an instant that is yet to come"
        found.append(Problem("ends_at", f"{wording.instant(loan.ends_at)} is too early", expected))
    if loan.lender == loan.borrower:
        found.append(Problem("virtual_cluster", f"{loan.lender} cannot borrow of itself", "another one"))
    if found:
        return found
    # Only other loans and offers of the same givers can prevent it.
    givers = {giver for giver, _, _ in given_and_got([loan])}
    beside = [
        each
        for each in (*loans, *[_as_loan(offer, now) for offer in offered])
        if not givers.isdisjoint(giver for giver, _, _ in given_and_got([each]))
    ]
    for instant in _instants(beside, loan, now):
        there = active(beside, instant)
        before = {(lack.virtual_cluster, lack.name) for lack in lacks(own, there)}
        for lack in lacks(own, [*there, loan]):
            if (lack.virtual_cluster, lack.name) not in before:
                found.append(_too_much(lack, loan, there, own, instant))
        if found:
            return found
    return []


def problems_with_change(own: Guarantees, loans: Sequence[Loan], now: float) -> list[Problem]:
    """Return which loans could not be kept if the guarantees were these from now on.

    `own` is the guarantees and cells that an operator wants, without loans.
    """
    found: dict[str, Problem] = {}
    for instant in sorted({now} | {each for each in _boundaries(loans) if each > now}):
        there = active(loans, instant)
        for lack in lacks(own, there):
            field = (
                f"guaranteed.{lack.name}"
                if lack.part == "gpus"
                else f"virtual_clusters.{lack.virtual_cluster}.cells.{lack.name}"
            )
            key = f"{lack.virtual_cluster} {field}"
            relying = _lenders_loans(lack, there, own)
            if key not in found and relying:
                until = max(loan.ends_at for loan in relying)
                found[key] = Problem(
                    field,
                    f"{lack.virtual_cluster} would have {lack.available} {lack.name} to lend, and has lent"
                    f" {lack.desired}: {_listed(relying)}",
                    f"at least {lack.desired} until {wording.instant(until)}, or end the loan first",
                )
    return list(found.values())


def _as_loan(desired: Offer | Loan, now: float) -> Loan:
    if isinstance(desired, Loan):
        return desired
    return Loan(
        id=LoanId(0),
        lender=desired.lender,
        borrower=NOBODY,
        lot=desired.lot,
        # The borrower, who would give this, is unknown before the offer is taken.
        in_return=None,
        starts_at=now if desired.starts_at is None else desired.starts_at,
        ends_at=desired.ends_at,
    )


def _boundaries(loans: Iterable[Loan]) -> Iterator[float]:
    for loan in loans:
        yield loan.starts_at
        yield loan.ends_at


def _instants(loans: Iterable[Loan], loan: Loan, now: float) -> list[float]:
    """Return when anything begins or ends while a loan is in force, starting with its own beginning."""
    first = max(now, loan.starts_at)
    return sorted({first} | {each for each in _boundaries(loans) if first < each < loan.ends_at})


def _problems_with_form(field: str, lot: Lot, own: Guarantees) -> Iterator[Problem]:
    layout = own.layout
    if not lot.gpus and not lot.cells:
        yield Problem(field, "is empty", "GPUs by model, or cells by type")
    for part, counts in (("gpus", lot.gpus), ("cells", lot.cells)):
        for name, count in counts.items():
            if count < 1:
                yield Problem(f"{field}.{part}.{name}", f"{count} is less than 1", "a whole number from 1")
    divided = layout.gpu_models if layout is not None else frozenset[str]()
    for model in lot.gpus:
        if model in divided:
            hint = f"cells of {model}, such as {', '.join(_types(own, model)[:3])}"
            yield Problem(f"{field}.gpus.{model}", f"GPU model {model} is divided by cells", hint)
    for path in lot.cells:
        kinds = [] if layout is None else kinds_of(path, layout)
        if not kinds:
            known = ", ".join(_types(own)) or "none: no GPU model is divided by cells"
            yield Problem(f"{field}.cells.{path}", f"there are no cells of type {path}", f"one of: {known}")
        elif len(kinds) > 1:
            options = " or ".join(f"{name}/{path}" for name, _ in kinds)
            yield Problem(f"{field}.cells.{path}", f"there is {path} in several kinds of hardware", options)


def _problems_with_lot(field: str, lot: Lot, owner: str, own: Guarantees) -> Iterator[Problem]:
    """Yield what is wrong with a lot, regardless of what else its owner has lent."""
    wrong = list(_problems_with_form(field, lot, own))
    yield from wrong
    if wrong:
        return
    alone = Loan(id=LoanId(0), lender=owner, borrower=NOBODY, lot=lot, starts_at=0.0, ends_at=1.0)
    for lack in lacks(own, [alone]):
        yield Problem(
            f"{field}.{lack.part}.{lack.name}",
            f"{owner} owns {lack.available} {lack.name}, not {lack.desired}",
            f"at most {lack.available}; {_own_words(lack, own)}",
        )


def _own_words(lack: Lack, own: Guarantees) -> str:
    layout = own.layout
    pinned = layout.pinned.get(lack.virtual_cluster, {}) if layout is not None else {}
    if lack.part == "cells" and pinned:
        return "what is borrowed or pinned cannot be lent"
    return "what is borrowed cannot be lent"


def _too_much(lack: Lack, loan: Loan, there: Sequence[Loan], own: Guarantees, instant: float) -> Problem:
    others = _lenders_loans(lack, there, own)
    is_lot = lack.virtual_cluster == loan.lender
    left = max(0, lack.available - sum(_count(other, lack) for other in others))
    return Problem(
        f"{'lot' if is_lot else 'in_return'}.{lack.part}.{lack.name}",
        f"from {wording.instant(instant)} on {lack.virtual_cluster} would have lent {lack.desired}"
        f" {lack.name} and owns {lack.available} to lend: {_listed(others)}",
        f"at most {left}, or until {wording.instant(instant)}"
        if instant > loan.starts_at
        else f"at most {left}",
    )


def _count(loan: Loan, lack: Lack) -> int:
    counts = 0
    for giver, _, lot in given_and_got([loan]):
        if giver == lack.virtual_cluster:
            counts += (lot.gpus if lack.part == "gpus" else lot.cells).get(lack.name, 0)
    return counts


def _lenders_loans(lack: Lack, loans: Iterable[Loan], own: Guarantees) -> list[Loan]:
    """Return the loans in which a virtual cluster gives what it lacks, or cells of the same hardware."""
    layout = own.layout
    found = []
    for loan in loans:
        for giver, _, lot in given_and_got([loan]):
            if giver != lack.virtual_cluster:
                continue
            if lack.part == "gpus":
                is_of_it = lack.name in lot.gpus
            else:
                chains = set() if layout is None else {name for name, _ in kinds_of(lack.name, layout)}
                # A type that no longer exists is found only by its name.
                is_of_it = lack.name in lot.cells or any(name in chains for name, _ in cells_of(lot, layout))
            if is_of_it:
                found.append(loan)
    return found


def _listed(loans: Sequence[Loan]) -> str:
    """Return "loan 7 of 2 P100 from speech to vision until ..."; open offers are called offers."""
    words = []
    for loan in loans:
        what = f"loan {loan.id}" if loan.id else "an open offer"
        to = f" to {loan.borrower}" if loan.borrower else ""
        words.append(
            f"{what} of {words_of(loan.lot)} from {loan.lender}{to} until {wording.instant(loan.ends_at)}"
        )
    return "; ".join(words[:5]) + (f"; and {len(words) - 5} more" if len(words) > 5 else "")


def _types(own: Guarantees, model: str | None = None) -> list[str]:
    layout = own.layout
    chains = [] if layout is None else layout.chains.values()
    return sorted({kind for chain in chains if model in (None, chain.gpu_model) for kind in chain.types})
