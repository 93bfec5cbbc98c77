"""Offers, loans, rules and accounts as whole objects of the API: REST answers and the live stream send these.

Each function takes rows, or ids as those of other slices do. What the caller may do with an object is
added for a viewer; the live stream, which goes to many, leaves it out.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db.models import Sum

from scheduler.core.lending.lots import cost
from scheduler.models.market import (
    Allowance,
    CreditAccount,
    CreditTransfer,
    Loan,
    MarketRule,
    Offer,
    OfferState,
    TransferKind,
)
from scheduler.virtual_clusters.market.selectors import acts_for
from scheduler.wiring.clock import database_now
from scheduler.wiring.stream import OPERATORS, object_of, send, send_to_everyone, tenant_group, to_pages
from tenants.models import VirtualCluster, VirtualClusterMember
from tenants.selectors import Viewer
from tenants.times import iso

Representation = dict[str, Any]

COMING, ACTIVE, ENDED = "coming", "active", "ended"
LOAN_STATES = (COMING, ACTIVE, ENDED)


def in_credits(millicredits: int) -> float:
    """Return a sum as the API shows it: credits with up to three decimals."""
    return millicredits / 1_000


def cost_of(offer: Offer, at: datetime) -> int:
    """Return what it costs to take the offer at that instant, in millicredits."""
    starts_at = max(at, offer.starts_at) if offer.starts_at else at
    seconds = max((offer.ends_at - starts_at).total_seconds(), 0.0)
    return cost(offer.price, sum(offer.gpus.values()), seconds)


def offers(ids: Iterable[int], viewer: Viewer | None = None) -> list[Representation]:
    """Return offers; with a viewer, also whether the viewer may withdraw them."""
    ids, now = list(ids), database_now()
    rows = Offer.objects.select_related("lender", "loan").in_bulk(ids)
    own = _own(viewer)
    found = []
    for row in (rows[id] for id in ids if id in rows):
        # One that is over is about to be closed, and cannot be taken any more.
        is_over = row.state == OfferState.OPEN and row.ends_at <= now
        state = OfferState.EXPIRED.value if is_over else row.state
        offer = {
            "id": row.id,
            "version": row.version,
            "lender": row.lender.name,
            "lot": row.lot,
            "gpus": sum(row.gpus.values()),
            "gpu_models": sorted(row.gpus),
            "starts_at": iso(row.starts_at),
            "ends_at": iso(row.ends_at),
            "price_per_gpu_hour": in_credits(row.price),
            "in_return": row.in_return,
            "state": state,
            "rule": row.rule_id,
            "made_by": row.made_by,
            "made_at": iso(row.made_at),
            "loan": row.loan.id if hasattr(row, "loan") else None,
            "cost_now": in_credits(cost_of(row, now)),
        }
        if own is not None:
            offer["may_withdraw"] = state == OfferState.OPEN and row.lender_id in own
        found.append(offer)
    return found


def loans(ids: Iterable[int], viewer: Viewer | None = None) -> list[Representation]:
    """Return loans; with a viewer, also whether the viewer may end them."""
    ids, now = list(ids), database_now()
    rows = Loan.objects.select_related("offer__lender", "borrower").in_bulk(ids)
    moved = _moved(rows)
    own = _own(viewer)
    found = []
    for row in (rows[id] for id in ids if id in rows):
        offer, state = row.offer, state_of(row, now)
        loan = {
            "id": row.id,
            "version": row.version,
            "offer": offer.id,
            "lender": offer.lender.name,
            "borrower": row.borrower.name,
            "lot": offer.lot,
            "in_return": offer.in_return,
            "gpus": sum(offer.gpus.values()),
            "gpu_models": sorted(offer.gpus),
            "starts_at": iso(row.starts_at),
            "ends_at": iso(row.over_at),
            "state": state,
            "ended_by": row.ended_by,
            "price_per_gpu_hour": in_credits(offer.price),
            "paid": in_credits(moved[row.id, TransferKind.PAYMENT]),
            "refunded": in_credits(moved[row.id, TransferKind.REFUND]),
            "taken_by": row.taken_by,
            "taken_at": iso(row.taken_at),
            "round_number": row.round_number,
        }
        if own is not None:
            loan["may_end"] = state != ENDED and row.borrower_id in own
        found.append(loan)
    return found


def state_of(loan: Loan, now: datetime) -> str:
    """Return what a loan is at that instant."""
    if loan.over_at <= now:
        return ENDED
    return COMING if now < loan.starts_at else ACTIVE


def _moved(loans: Iterable[int]) -> Mapping[tuple[int, str], int]:
    """Return how many millicredits were paid for each loan, and refunded."""
    rows = CreditTransfer.objects.filter(loan__in=list(loans)).values_list("loan_id", "kind")
    sums: dict[tuple[int, str], int] = defaultdict(int)
    sums.update({(loan, kind): moved for loan, kind, moved in rows.annotate(moved=Sum("amount"))})
    return sums


def _own(viewer: Viewer | None) -> set[int] | None:
    """Return the virtual clusters that the viewer may act for; None without one."""
    return None if viewer is None else set(acts_for(viewer).values_list("id", flat=True))


def rules(rows: Sequence[MarketRule], viewer: Viewer) -> list[Representation]:
    """Return rules, which come with their virtual clusters."""
    own = _own(viewer) or set()
    return [
        {
            "id": row.id,
            "virtual_cluster": row.virtual_cluster.name,
            "kind": row.kind,
            "lot": row.lot,
            "idle_seconds": row.idle_seconds,
            "lend_seconds": row.lend_seconds,
            "gpu_models": row.gpu_models,
            "most_gpus": row.most_gpus,
            "waiting_seconds": row.waiting_seconds,
            "price_per_gpu_hour": in_credits(row.price),
            "made_by": row.made_by,
            "made_at": iso(row.made_at),
            "may_delete": row.removed_at is None and row.virtual_cluster_id in own,
        }
        for row in rows
    ]


def accounts(ids: Iterable[int], viewer: Viewer | None = None) -> list[Representation]:
    """Return the accounts of virtual clusters; with a viewer, also whether the viewer may act for each."""
    ids = list(ids)
    names = dict(VirtualCluster.objects.filter(id__in=ids).values_list("id", "name"))
    rows = {row.virtual_cluster_id: row for row in CreditAccount.objects.filter(virtual_cluster__in=ids)}
    allowances = {row.account_id: row for row in Allowance.objects.filter(account__virtual_cluster__in=ids)}
    own = _own(viewer)
    found = []
    for id in (id for id in ids if id in names):
        # It has received no credits yet, neither granted nor for loans.
        row = rows.get(id) or CreditAccount(virtual_cluster_id=id, version=0)
        allowance = allowances.get(row.id)
        account = {
            "id": id,
            "virtual_cluster": names[id],
            "version": row.version,
            "balance": in_credits(row.balance),
            "earned": in_credits(row.earned),
            "spent": in_credits(row.spent),
            "granted": in_credits(row.granted),
            "allowance": allowance
            and {
                "credits": in_credits(allowance.millicredits),
                "every_seconds": allowance.every_seconds,
                "next_at": iso(allowance.next_at),
            },
        }
        if own is not None:
            account["may_act"] = id in own
        found.append(account)
    return found


def transfers(rows: Iterable[CreditTransfer]) -> list[Representation]:
    """Return transfers, which come with both accounts and their virtual clusters."""
    return [
        {
            "id": row.id,
            "at": iso(row.at),
            "kind": row.kind,
            "from": _holder(row.debit),
            "to": _holder(row.credit),
            "credits": in_credits(row.amount),
            "loan": row.loan_id,
            "reason": row.reason,
            "by": row.by,
            "round_number": row.round_number,
        }
        for row in rows
    ]


def _holder(account: CreditAccount) -> str:
    return account.holder


def publish_offers(ids: Iterable[int]) -> None:
    to_pages(_send_offers, sorted(set(ids)))


def publish_loans(ids: Iterable[int]) -> None:
    to_pages(_send_loans, sorted(set(ids)))


def publish_accounts(virtual_clusters: Iterable[int]) -> None:
    """Only members and operators see an account."""
    to_pages(_send_accounts, sorted(set(virtual_clusters)))


def _send_offers(ids: list[int]) -> None:
    send_to_everyone([object_of("offer", offer) for offer in offers(ids)])


def _send_loans(ids: list[int]) -> None:
    send_to_everyone([object_of("loan", loan) for loan in loans(ids)])


def _send_accounts(virtual_clusters: list[int]) -> None:
    tenants: dict[int, list[str]] = defaultdict(list)
    members = VirtualClusterMember.objects.filter(virtual_cluster__in=virtual_clusters)
    for virtual_cluster, tenant in members.values_list("virtual_cluster_id", "tenant__name"):
        tenants[virtual_cluster].append(tenant)
    send(
        [
            (
                (*map(tenant_group, tenants[account["id"]]), OPERATORS),
                {"type": "live.objects", "objects": [object_of("account", account)]},
            )
            for account in accounts(virtual_clusters)
        ]
    )
