"""The terms of offers and loans, checked against guarantees, other loans and the calendar.

Everything here is read under `lock_guarantees`, so that it still holds when it is written.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import QuerySet

from scheduler.core.cells.errors import Problem
from scheduler.core.lending.checking import problems
from scheduler.core.lending.lots import gpus_of
from scheduler.core.model import loan_terms as core
from scheduler.models.market import Offer, OfferState
from scheduler.models.selectors.nodes import problems_with_gpu_models
from scheduler.virtual_clusters.cells.services import field_errors, summary_of
from scheduler.virtual_clusters.market.selectors import lot_of, market_now
from tenants.errors import ApplicationError, Conflict, Invalid
from tenants.models import VirtualCluster
from tenants.times import iso

#: For how long something is lent at most, and how far ahead it may begin.
LONGEST = timedelta(days=90)
#: A request may take a while to arrive.
_SOON = timedelta(minutes=1)
#: For a GPU and an hour: a million credits.
MOST_PRICE = 10**9
MOST_OPEN_OFFERS = 200
MOST_RULES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a lender offers."""

    lot: core.Lot
    ends_at: datetime
    #: None: from the moment it is taken.
    starts_at: datetime | None = None
    #: Millicredits for a GPU and an hour.
    price: int = 0
    in_return: core.Lot | None = None

    def for_core(self, lender: str) -> core.Offer:
        return core.Offer(
            id=core.OfferId(0),
            lender=lender,
            lot=self.lot,
            starts_at=None if self.starts_at is None else self.starts_at.timestamp(),
            ends_at=self.ends_at.timestamp(),
            price=self.price,
            in_return=self.in_return,
        )


def lot_document(lot: core.Lot) -> dict[str, dict[str, int]]:
    """Return a lot as rows have it."""
    return {"gpus": dict(lot.gpus), "cells": dict(lot.cells)}


def for_core(offer: Offer) -> core.Offer:
    """Return an offer, which comes with its lender, as the core knows it."""
    terms = Terms(
        lot=lot_of(offer.lot),
        starts_at=offer.starts_at,
        ends_at=offer.ends_at,
        price=offer.price,
        in_return=None if offer.in_return is None else lot_of(offer.in_return),
    )
    return terms.for_core(offer.lender.name)


def check_offer(lender: VirtualCluster, terms: Terms, now: datetime) -> dict[str, int]:
    """Raise Invalid or Conflict unless the lender may offer that; return the lot's GPUs by model."""
    wrong = [*_problems_with_times(terms, now), *_problems_with_models(terms)]
    if wrong:
        raise refused(wrong)
    market = market_now(now)
    # What the lender offers already may be taken at any moment.
    offered = [for_core(row) for row in open_offers(now).filter(lender=lender)]
    if len(offered) >= MOST_OPEN_OFFERS:
        raise Conflict(
            f"Virtual cluster {lender.name} has {MOST_OPEN_OFFERS} open offers; withdraw some first."
        )
    desired = terms.for_core(lender.name)
    # If the lot itself is wrong, the request is invalid; else it only comes at the wrong time.
    if found := problems(market.own, (), desired, now.timestamp()):
        raise refused(found)
    if found := problems(market.own, market.loans, desired, now.timestamp(), offered=offered):
        raise refused(found, Conflict)
    return gpus_of(terms.lot, market.own.layout)


def check_loan(desired: core.Loan, now: datetime) -> None:
    """Raise Conflict unless the loan can be kept beside all others."""
    market = market_now(now)
    if found := problems(market.own, market.loans, desired, now.timestamp()):
        raise refused(found, Conflict)


def open_offers(now: datetime) -> QuerySet[Offer]:
    """Return the offers that can be taken."""
    return Offer.objects.filter(state=OfferState.OPEN, ends_at__gt=now).select_related("lender")


def refused(found: Iterable[Problem], error: type[ApplicationError] = Invalid) -> ApplicationError:
    """Return the error that states these problems."""
    listed = tuple(found)
    return error(summary_of(listed), field_errors(listed))


def _problems_with_models(terms: Terms) -> Iterable[Problem]:
    lots = {"lot": terms.lot, "in_return": terms.in_return}
    for field, lot in lots.items():
        for wrong in problems_with_gpu_models(lot.gpus if lot else (), f"{field}.gpus.{{}}"):
            yield Problem(wrong.field, wrong.problem, wrong.expected)


def _problems_with_times(terms: Terms, now: datetime) -> Iterable[Problem]:
    starts_at = now if terms.starts_at is None else terms.starts_at
    if starts_at < now - _SOON:
        yield Problem("starts_at", "is past", "left out, for what begins when it is taken, or yet to come")
    elif starts_at > now + LONGEST:
        problem = f"is more than {LONGEST.days} days ahead"
        yield Problem("starts_at", problem, f"at the latest {iso(now + LONGEST)}")
    if terms.ends_at <= now:
        yield Problem("ends_at", "is past", "an instant that is yet to come")
    elif terms.ends_at <= starts_at:
        yield Problem("ends_at", "is not later than starts_at", "a later instant")
    elif terms.ends_at > starts_at + LONGEST:
        problem = f"is more than {LONGEST.days} days after the beginning"
        yield Problem("ends_at", problem, f"at the latest {iso(starts_at + LONGEST)}")
