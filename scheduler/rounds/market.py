"""Actions of rules in the market, carried out with the plan of their round as far as they still hold.

Each action is independent: one that no longer holds is dropped with a reason, and affects neither the other
actions nor the jobs of the round.
"""

import logging
from datetime import UTC, datetime
from typing import Any

from django.db import DatabaseError, transaction

from scheduler.core.model.loan_terms import MarketAction
from scheduler.core.model.plan import Plan
from scheduler.models.market import OfferState, RuleKind
from scheduler.virtual_clusters.market.services.loans import loan_write
from scheduler.virtual_clusters.market.services.offers import offer_close, offer_write, open_offer
from scheduler.virtual_clusters.market.services.rules import rule_in_force
from scheduler.virtual_clusters.market.services.terms import Terms
from scheduler.virtual_clusters.services import try_lock_guarantees
from scheduler.wiring.clock import database_now
from tenants.errors import ApplicationError, Conflict
from tenants.models import VirtualCluster

log = logging.getLogger(__name__)

#: Further ones wait for the next round, so that no round's transaction grows long.
MOST_AT_ONCE = 50
_BUSY = "guarantees are being changed at this moment"
_TOO_MANY = f"more than {MOST_AT_ONCE} mutations in one round"
_GONE = "the virtual cluster no longer exists"


def carry_out(plan: Plan) -> list[dict[str, Any]]:
    """Do what rules decided, in the round's own transaction; return what was dropped.

    These are {kind, jobs, why, position}: the position of the action, and of its line of the ledger.
    A request that changes guarantees holds the lock and may wait for rows that this transaction holds. So
    this only tries the lock: a round never waits for such a request, and cannot deadlock with it.
    """
    if not plan.market:
        return []
    is_locked = try_lock_guarantees()
    virtual_clusters = {row.name: row for row in VirtualCluster.objects.all()}
    dropped: list[dict[str, Any]] = []
    for position, action in enumerate(plan.market):
        why = _BUSY if not is_locked else _TOO_MANY if position >= MOST_AT_ONCE else ""
        why = why or _tried(action, virtual_clusters.get(action.virtual_cluster), plan.round_number)
        if why:
            dropped.append({"kind": action.kind, "jobs": [], "why": why, "position": position})
    return dropped


def _tried(action: MarketAction, virtual_cluster: VirtualCluster | None, round_number: int) -> str:
    """Carry the action out; return why that is impossible by now, or empty."""
    if virtual_cluster is None:
        return _GONE
    try:
        # A savepoint: nothing is left of an action that fails half-way.
        with transaction.atomic():
            _do(action, virtual_cluster, round_number)
    except ApplicationError as error:
        return error.message
    except DatabaseError as error:
        log.exception("round %d: a mutation of rule %d failed", round_number, action.rule)
        return f"the database refused it: {type(error).__name__}"
    return ""


def _do(action: MarketAction, virtual_cluster: VirtualCluster, round_number: int) -> None:
    actor = f"rule {action.rule}"
    if action.kind == "offer":
        assert action.lot is not None
        assert action.ends_at is not None
        rule = rule_in_force(action.rule, RuleKind.LEND, virtual_cluster)
        ends_at = datetime.fromtimestamp(action.ends_at, UTC)
        terms = Terms(lot=action.lot, ends_at=ends_at, price=max(action.price, rule.price))
        offer_write(lender=virtual_cluster, terms=terms, actor=actor, rule=rule, round_number=round_number)
        return
    assert action.offer is not None
    offer = open_offer(action.offer)
    if action.kind == "withdraw":
        if offer.rule_id != action.rule:
            raise Conflict(f"Offer {offer.id} was not made by rule {action.rule}.")
        now = database_now()
        offer_close(offer, OfferState.WITHDRAWN, at=now, actor=actor, round_number=round_number)
        return
    rule = rule_in_force(action.rule, RuleKind.BORROW, virtual_cluster)
    if offer.price > rule.price:
        raise Conflict(f"Offer {offer.id} costs more than rule {rule.id} pays.")
    loan_write(offer_id=offer.id, borrower=virtual_cluster, actor=actor, round_number=round_number)
