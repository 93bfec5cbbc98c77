"""Rules of virtual clusters: what they lend when it is idle, and what they borrow when their jobs wait."""

from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction

from scheduler.core.lending.checking import problems
from scheduler.core.model import loan_terms as core
from scheduler.models.market import MarketRule, Offer, OfferState, RuleKind
from scheduler.models.selectors.nodes import problems_with_gpu_models
from scheduler.virtual_clusters.market.selectors import own_guarantees, require_owner
from scheduler.virtual_clusters.market.services.offers import offer_close
from scheduler.virtual_clusters.market.services.terms import (
    MOST_RULES,
    Terms,
    lot_document,
    refused,
)
from scheduler.virtual_clusters.services import lock_guarantees
from scheduler.wiring.clock import database_now
from scheduler.wiring.deadlocks import repeated_on_deadlock
from scheduler.wiring.wakeups import request_round_on_commit
from tenants.errors import Conflict, FieldError, Invalid, NotFound
from tenants.models import VirtualCluster
from tenants.selectors import Viewer


@dataclass(frozen=True, slots=True, kw_only=True)
class Lending:
    """Offer what has been idle for `idle_seconds`, for `lend_seconds`, at this price at least
    (millicredits).
    """

    lot: core.Lot
    idle_seconds: float
    lend_seconds: float
    price: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Borrowing:
    """Take what is offered when a job has waited for `waiting_seconds`, at this price at most
    (millicredits).
    """

    gpu_models: tuple[str, ...] = ()
    most_gpus: int
    waiting_seconds: float
    price: int = 0


@repeated_on_deadlock
@transaction.atomic
def rule_make(*, by: Viewer, virtual_cluster: VirtualCluster, terms: Lending | Borrowing) -> MarketRule:
    """Let a virtual cluster lend or borrow automatically."""
    require_owner(by, virtual_cluster)
    lock_guarantees()
    if MarketRule.objects.filter(virtual_cluster=virtual_cluster, removed_at=None).count() >= MOST_RULES:
        raise Conflict(f"Virtual cluster {virtual_cluster.name} has {MOST_RULES} rules; remove some first.")
    row = MarketRule(
        virtual_cluster=virtual_cluster, price=terms.price, made_by=by.actor, made_at=database_now()
    )
    if isinstance(terms, Lending):
        _check_lot(virtual_cluster, terms)
        row.kind, row.lot = RuleKind.LEND, lot_document(terms.lot)
        row.idle_seconds, row.lend_seconds = terms.idle_seconds, terms.lend_seconds
    else:
        if wrong := problems_with_gpu_models(terms.gpu_models, "gpu_models"):
            raise Invalid(f"{wrong[0].field}: {wrong[0].problem}.", wrong)
        row.kind, row.gpu_models = RuleKind.BORROW, sorted(set(terms.gpu_models))
        row.most_gpus, row.waiting_seconds = terms.most_gpus, terms.waiting_seconds
    row.save(force_insert=True)
    request_round_on_commit()
    return row


@repeated_on_deadlock
@transaction.atomic
def rule_remove(*, by: Viewer, rule_id: int) -> None:
    """End a rule, and withdraw the offers that it made and that were not taken; its loans go on."""
    lock_guarantees()
    rows = MarketRule.objects.select_for_update(no_key=True, of=("self",)).select_related("virtual_cluster")
    row = rows.filter(id=rule_id, removed_at=None).first()
    if row is None:
        raise NotFound(f"There is no rule {rule_id}, or it was removed.")
    require_owner(by, row.virtual_cluster)
    now = database_now()
    row.removed_at = now
    row.save(update_fields=["removed_at"])
    made = Offer.objects.select_for_update(no_key=True, of=("self",)).select_related("lender")
    for offer in made.filter(rule=row, state=OfferState.OPEN).order_by("id"):
        offer_close(offer, OfferState.WITHDRAWN, at=now, actor=by.actor)
    request_round_on_commit()


def _check_lot(virtual_cluster: VirtualCluster, terms: Lending) -> None:
    """Raise Invalid unless the virtual cluster owns that much, whatever of it is lent now."""
    if wrong := problems_with_gpu_models(terms.lot.gpus, "lot.gpus.{}"):
        raise Invalid(f"{wrong[0].field}: {wrong[0].problem}.", wrong)
    now = database_now()
    alone = Terms(lot=terms.lot, ends_at=now + timedelta(seconds=terms.lend_seconds))
    if found := problems(own_guarantees(), (), alone.for_core(virtual_cluster.name), now.timestamp()):
        raise refused(found)


def rule_in_force(rule_id: int, kind: str, virtual_cluster: VirtualCluster) -> MarketRule:
    """Return a rule of the virtual cluster; raise NotFound once it is removed."""
    found = MarketRule.objects.filter(
        id=rule_id, kind=kind, virtual_cluster=virtual_cluster, removed_at=None
    ).first()
    if found is None:
        problem = FieldError("rule", "was removed meanwhile", "a rule in force")
        raise NotFound(f"There is no rule {rule_id} to {kind} of {virtual_cluster.name} any more.", [problem])
    return found
