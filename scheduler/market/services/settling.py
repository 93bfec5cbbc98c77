"""What happens in the market by the clock alone: offers expire, loans begin and end, allowances are paid.

What is guaranteed to whom follows from the clock whether or not this ran; here it is written down and told.
"""

from django.db import transaction
from django.db.models import F, Q

from scheduler.clock import database_now
from scheduler.market.models import Loan, Offer, OfferState
from scheduler.market.services.credits import allowances_pay
from scheduler.market.services.offers import offer_close
from scheduler.market.services.records import record_loan
from scheduler.virtual_clusters.services import lock_guarantees
from scheduler.wakeups import request_round_on_commit

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
