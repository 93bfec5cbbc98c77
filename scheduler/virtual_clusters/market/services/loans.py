"""Loans between virtual clusters: an offer is taken and paid for in one transaction; and what happens in the
market by the clock alone: offers expire, loans begin and end, allowances are paid.

What a loan costs is paid in full when it is taken. A borrower that gives back early gets nothing back; when
an operator ends a loan the rest is refunded, as far as the lender still has it. Guarantees follow from the
clock whether or not `market_settle` ran; it records and reports them.
"""

from django.db import transaction
from django.db.models import F, Q, Sum

from scheduler.core.model import loan_terms as core
from scheduler.models.market import Loan, Offer, OfferState, TransferKind
from scheduler.virtual_clusters.market.representations import cost_of, in_credits, publish_offers
from scheduler.virtual_clusters.market.selectors import lot_of, require_owner
from scheduler.virtual_clusters.market.services.credits import (
    MOST_MILLICREDITS,
    account_of,
    allowances_pay,
    transfer,
)
from scheduler.virtual_clusters.market.services.offers import offer_close, open_offer
from scheduler.virtual_clusters.market.services.records import record_loan
from scheduler.virtual_clusters.market.services.terms import check_loan
from scheduler.virtual_clusters.services import lock_guarantees
from scheduler.wiring.clock import database_now
from scheduler.wiring.deadlocks import repeated_on_deadlock
from scheduler.wiring.wakeups import request_round_on_commit
from tenants.errors import Conflict, FieldError, NotFound
from tenants.models import VirtualCluster
from tenants.selectors import Viewer


@repeated_on_deadlock
@transaction.atomic
def offer_take(*, by: Viewer, offer_id: int, virtual_cluster: VirtualCluster) -> Loan:
    """Borrow what is offered for a virtual cluster, and pay for it; if two try to take it, one is refused."""
    require_owner(by, virtual_cluster)
    lock_guarantees()
    return loan_write(offer_id=offer_id, borrower=virtual_cluster, actor=by.actor)


def loan_write(
    *, offer_id: int, borrower: VirtualCluster, actor: str, round_number: int | None = None
) -> Loan:
    """Do the same under `lock_guarantees`, for an authorised person or for a rule in a round."""
    offer, now = open_offer(offer_id), database_now()
    if offer.lender_id == borrower.id:
        problem = FieldError("virtual_cluster", f"{borrower.name} offers this itself", "another one")
        raise Conflict(f"Offer {offer.id} is {borrower.name}'s own.", [problem])
    starts_at = now if offer.starts_at is None else max(now, offer.starts_at)
    desired = core.Loan(
        id=core.LoanId(0),
        lender=offer.lender.name,
        borrower=borrower.name,
        lot=lot_of(offer.lot),
        in_return=None if offer.in_return is None else lot_of(offer.in_return),
        starts_at=starts_at.timestamp(),
        ends_at=offer.ends_at.timestamp(),
    )
    check_loan(desired, now)
    loan = Loan.objects.create(
        offer=offer,
        borrower=borrower,
        starts_at=starts_at,
        ends_at=offer.ends_at,
        taken_by=actor,
        taken_at=now,
        round_number=round_number,
        begun=starts_at <= now,
    )
    amount = cost_of(offer, now)
    if amount:
        transfer(
            TransferKind.PAYMENT,
            debit=account_of(borrower),
            credit=account_of(offer.lender),
            amount=amount,
            by=actor,
            at=now,
            loan=loan,
            round_number=round_number,
        )
    offer_close(offer, OfferState.TAKEN, at=now, actor=actor)
    publish_offers([offer.id])
    record_loan(
        "take",
        loan,
        at=now,
        actor=actor,
        round_number=round_number,
        note=f"{in_credits(amount):,.12g} credits were paid" if amount else "",
        paid=in_credits(amount),
    )
    request_round_on_commit()
    return loan


@repeated_on_deadlock
@transaction.atomic
def loan_end(*, by: Viewer, loan_id: int) -> Loan:
    """Let a loan end now: its borrower gives it back, or an operator ends it and the rest is refunded."""
    lock_guarantees()
    rows = Loan.objects.select_for_update(no_key=True, of=("self",))
    loan = rows.select_related("offer__lender", "borrower").filter(id=loan_id).first()
    if loan is None:
        raise NotFound(f"There is no loan {loan_id}.")
    require_owner(by, loan.borrower)
    now = database_now()
    if loan.over_at <= now:
        raise Conflict(f"Loan {loan.id} ended at {loan.over_at:%Y-%m-%d %H:%M:%S} UTC.")
    paid, due, refunded = _refund(loan, by) if by.is_operator else (0, 0, 0)
    loan.ended_at, loan.ended_by = now, by.actor
    Loan.objects.filter(id=loan.id).update(ended_at=now, ended_by=by.actor, version=F("version") + 1)
    note = ""
    if paid:
        note = f"{in_credits(refunded):,.12g} of {in_credits(paid):,.12g} credits were refunded"
        if refunded < due:
            note += f", not {in_credits(due):,.12g}: {loan.offer.lender.name} has no more"
    record_loan("end", loan, at=now, actor=by.actor, note=note, refunded=in_credits(refunded))
    request_round_on_commit()
    return loan


def _refund(loan: Loan, by: Viewer) -> tuple[int, int, int]:
    """Pay back what was paid for the time that is left; return what was paid, due and paid back."""
    now = database_now()
    paid = loan.transfers.filter(kind=TransferKind.PAYMENT).aggregate(sum=Sum("amount"))["sum"] or 0
    left = (loan.ends_at - max(now, loan.starts_at)) / (loan.ends_at - loan.starts_at)
    due = int(paid * left)
    if not due:
        return paid, 0, 0
    lender, borrower = account_of(loan.offer.lender), account_of(loan.borrower)
    there = min(due, lender.balance, MOST_MILLICREDITS - borrower.balance)
    if there > 0:
        transfer(
            TransferKind.REFUND,
            debit=lender,
            credit=borrower,
            amount=there,
            by=by.actor,
            at=now,
            loan=loan,
            reason=f"loan {loan.id} was ended early",
        )
    return paid, due, max(there, 0)


#: In one transaction; the next tick goes on.
_AT_ONCE = 200


def market_settle() -> None:
    """Write down everything whose time has come; may run twice, late or never."""
    now = database_now()
    over = Offer.objects.filter(state=OfferState.OPEN, ends_at__lte=now).order_by("id")
    begun, ended = Q(begun=False, starts_at__lte=now), Q(ends_at__lte=now)
    due = Loan.objects.filter(begun | ended, ended_at=None).order_by("id")
    if over.exists() or due.exists():
        with transaction.atomic():
            lock_guarantees()
            for offer in over.select_related("lender")[:_AT_ONCE]:
                offer_close(offer, OfferState.EXPIRED, at=now, actor="")
            for loan in due.select_related("offer__lender", "borrower")[:_AT_ONCE]:
                _settle(loan, is_over=loan.ends_at <= now)
            request_round_on_commit()
    allowances_pay()


def _settle(loan: Loan, *, is_over: bool) -> None:
    columns = {"ended_at": loan.ends_at} if is_over else {}
    Loan.objects.filter(id=loan.id).update(begun=True, version=F("version") + 1, **columns)
    record_loan("end" if is_over else "begin", loan, at=database_now(), actor="")
