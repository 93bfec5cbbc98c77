"""What goes with each mutation of the market: an event, a line of the ledger, a message to dashboards."""

from datetime import datetime
from typing import Any

from django.db.models import F

from scheduler.core.lending.lots import words_of
from scheduler.core.model.plan import LedgerLine
from scheduler.models.events import Event
from scheduler.models.market import Loan, Offer
from scheduler.virtual_clusters.ledger.services import ledger_write
from scheduler.virtual_clusters.market.representations import publish_loans, publish_offers
from scheduler.virtual_clusters.market.selectors import lot_of
from scheduler.virtual_clusters.representations import publish_virtual_clusters
from tenants.models import VirtualCluster
from tenants.times import in_words

_WORDS = {
    "offer": "{lender} offers {lot}",
    "withdraw": "{lender} no longer offers {lot}",
    "expire": "{lot} of {lender} was not taken in time",
    "take": "{borrower} borrows {lot} of {lender}",
    "begin": "{borrower} has {lot} of {lender} from now on",
    "end": "{lot} are {lender}'s again, which {borrower} had borrowed",
}


def record_offer(
    kind: str, offer: Offer, *, at: datetime, actor: str, round_number: int | None = None
) -> None:
    """Record that an offer was made, withdrawn or has expired."""
    until = "" if kind == "expire" else f" until {in_words(offer.ends_at)}"
    message = _sentence(kind, offer, lender=offer.lender.name) + until
    details = {"offer": offer.id, "lot": offer.lot, "in_return": offer.in_return}
    Event.objects.create(
        at=at,
        kind=f"offer.{kind}",
        subject="offer",
        subject_id=offer.id,
        actor=actor,
        message=message[:500],
        data=details,
    )
    if round_number is None:
        line = LedgerLine(
            kind=kind,
            party=offer.lender.name,
            given=offer.gpus,
            price=offer.price,
            seconds=(offer.ends_at - (offer.starts_at or at)).total_seconds(),
            message=f"{message}.",
            details=details,
        )
        ledger_write(line, person=actor, at=at)
    publish_offers([offer.id])


def record_loan(
    kind: str,
    loan: Loan,
    *,
    at: datetime,
    actor: str,
    round_number: int | None = None,
    note: str = "",
    **figures: Any,
) -> None:
    """Record that a loan was taken, has begun or has ended. `figures` are credits by what became of them."""
    offer = loan.offer
    lender, borrower = offer.lender, loan.borrower
    message = _sentence(kind, offer, lender=lender.name, borrower=borrower.name)
    message += f" until {in_words(loan.ends_at)}" if kind in ("take", "begin") else ""
    message += f"; {note}" if note else ""
    details = {
        "offer": offer.id,
        "loan": loan.id,
        "lot": offer.lot,
        "in_return": offer.in_return,
        **figures,
    }
    Event.objects.create(
        at=at,
        kind=f"loan.{kind}",
        subject="loan",
        subject_id=loan.id,
        actor=actor,
        message=message[:500],
        data=details,
    )
    if kind != "begin" and round_number is None:
        is_taken = kind == "take"
        line = LedgerLine(
            kind=kind,
            party=borrower.name,
            counterparty=lender.name,
            gpus=offer.gpus if is_taken else {},
            given={} if is_taken else offer.gpus,
            price=offer.price,
            seconds=(loan.ends_at - loan.starts_at).total_seconds() if is_taken else None,
            message=f"{message}.",
            details=details,
        )
        ledger_write(line, person=actor, at=at)
    publish_loans([loan.id])
    # What they are guaranteed now is part of both.
    both = [lender.id, borrower.id]
    VirtualCluster.objects.filter(id__in=both).update(version=F("version") + 1)
    publish_virtual_clusters(both)


def _sentence(kind: str, offer: Offer, **names: str) -> str:
    return _WORDS[kind].format(lot=words_of(lot_of(offer.lot)), **names)
