"""Offers between virtual clusters: made by their owners or by rules, withdrawn, or over."""

from collections.abc import Callable
from datetime import datetime

from django.db import transaction
from django.db.models import F

from scheduler.core.model.loan_terms import Lot
from scheduler.models.market import MarketRule, Offer, OfferState
from scheduler.virtual_clusters.market.selectors import require_owner
from scheduler.virtual_clusters.market.services.records import record_offer
from scheduler.virtual_clusters.market.services.terms import Terms, check_offer, lot_document
from scheduler.virtual_clusters.services import lock_guarantees
from scheduler.wiring.clock import database_now
from scheduler.wiring.deadlocks import repeated_on_deadlock
from scheduler.wiring.wakeups import request_round_on_commit
from tenants.errors import Conflict, NotFound
from tenants.models import VirtualCluster
from tenants.selectors import Viewer

#: Raises Conflict naming the jobs that use a lot of a virtual cluster (`rounds.preview`).
RequireUnused = Callable[[VirtualCluster, Lot], None]

_CLOSED_WORDS = {
    OfferState.TAKEN: "was taken",
    OfferState.WITHDRAWN: "was withdrawn",
    OfferState.EXPIRED: "has expired",
}


@repeated_on_deadlock
@transaction.atomic
def offer_make(
    *, by: Viewer, virtual_cluster: VirtualCluster, terms: Terms, require_unused: RequireUnused | None = None
) -> Offer:
    """Offer what a virtual cluster owns; raise Invalid or Conflict with everything that prevents it.

    `require_unused` is asked about what would be lent from now on; None: it may be in use.
    """
    require_owner(by, virtual_cluster)
    lock_guarantees()
    offer = offer_write(lender=virtual_cluster, terms=terms, actor=by.actor)
    if require_unused is not None and (terms.starts_at is None or terms.starts_at <= offer.made_at):
        require_unused(virtual_cluster, terms.lot)
    return offer


def offer_write(
    *,
    lender: VirtualCluster,
    terms: Terms,
    actor: str,
    rule: MarketRule | None = None,
    round_number: int | None = None,
) -> Offer:
    """Do the same under `lock_guarantees`, for an authorised person or for a rule in a round."""
    now = database_now()
    gpus = check_offer(lender, terms, now)
    offer = Offer.objects.create(
        lender=lender,
        lot=lot_document(terms.lot),
        gpus=gpus,
        starts_at=terms.starts_at,
        ends_at=terms.ends_at,
        price=terms.price,
        in_return=None if terms.in_return is None else lot_document(terms.in_return),
        rule=rule,
        made_by=actor,
        made_at=now,
    )
    record_offer("offer", offer, at=now, actor=actor, round_number=round_number)
    request_round_on_commit()
    return offer


@repeated_on_deadlock
@transaction.atomic
def offer_withdraw(*, by: Viewer, offer: Offer) -> Offer:
    """Withdraw an offer that was not taken."""
    require_owner(by, offer.lender)
    lock_guarantees()
    row = open_offer(offer.id)
    offer_close(row, OfferState.WITHDRAWN, at=database_now(), actor=by.actor)
    request_round_on_commit()
    return row


def open_offer(offer_id: int) -> Offer:
    """Lock an offer that can still be taken or withdrawn; else raise Conflict in words."""
    rows = Offer.objects.select_for_update(no_key=True, of=("self",)).select_related("lender", "rule")
    row = rows.filter(id=offer_id).first()
    if row is None:
        raise NotFound(f"There is no offer {offer_id}.")
    if row.state != OfferState.OPEN:
        who = f" by {row.closed_by}" if row.closed_by else ""
        when = f"at {row.closed_at:%Y-%m-%d %H:%M:%S} UTC"
        raise Conflict(f"Offer {row.id} {_CLOSED_WORDS[OfferState(row.state)]}{who} {when}.")
    if row.ends_at <= database_now():
        raise Conflict(f"Offer {row.id} has expired: it ended at {row.ends_at:%Y-%m-%d %H:%M:%S} UTC.")
    return row


def offer_close(
    offer: Offer, state: OfferState, *, at: datetime, actor: str, round_number: int | None = None
) -> None:
    """Close a locked open offer with its final state; the record of its loan reports that it was taken."""
    offer.state, offer.closed_at, offer.closed_by = state, at, actor
    Offer.objects.filter(id=offer.id).update(
        state=state, closed_at=at, closed_by=actor, version=F("version") + 1
    )
    if state != OfferState.TAKEN:
        kind = "withdraw" if state == OfferState.WITHDRAWN else "expire"
        record_offer(kind, offer, at=at, actor=actor, round_number=round_number)
