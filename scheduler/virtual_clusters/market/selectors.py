"""The market as it is now: what is in force, which virtual clusters a viewer acts for, which offers and loans
there are.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db.models import Count, Q, QuerySet

from scheduler.core.cells.chains import Layout
from scheduler.core.cells.compiling import compiled
from scheduler.core.cells.errors import Problem
from scheduler.core.lending.checking import problems_with_change
from scheduler.core.lending.in_force import Guarantees, active, given_and_got, in_force
from scheduler.core.lending.lots import cells_of
from scheduler.core.model import loan_terms as core
from scheduler.core.model.cell_specification import Specification
from scheduler.models.market import OVER_AT, Loan, Offer
from scheduler.virtual_clusters.cells.selectors import cells_in_force
from tenants.errors import NotAllowed, NotFound
from tenants.models import Guarantee, Role, VirtualCluster
from tenants.selectors import RANK, Viewer
from tenants.times import iso


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketState:
    """The guarantees of all virtual clusters at one instant, and the loans that move them."""

    own: Guarantees
    #: In force, or still to come.
    loans: tuple[core.Loan, ...]
    in_force: Guarantees
    at: float

    @property
    def active(self) -> tuple[core.Loan, ...]:
        """The loans in force."""
        return active(self.loans, self.at)

    @property
    def layout(self) -> Layout:
        """The cells in force, compiled; of no chain at all where GPUs are only counted."""
        return self.in_force.layout or compiled(_NO_CELLS)

    @property
    def on_loan(self) -> dict[tuple[str, str, int], dict[str, str]]:
        """Return by virtual cluster and kind of cells (chain, level) from which lender it has them, and until
        when.

        Kinds of which it also owns cells are left out: which of them are the lender's is not defined.
        """
        own, found = self.own.layout, {}
        for loan in self.active if own is not None else ():
            until = iso(datetime.fromtimestamp(loan.ends_at, UTC))
            for giver, taker, lot in given_and_got([loan]):
                for chain, level in cells_of(lot, own):
                    if own is not None and not own.owned.get(taker, {}).get((chain, level)):
                        found[taker, chain, level] = {"from": giver, "until": until}
        return found


_NO_CELLS = Specification()


def market_now(now: datetime) -> MarketState:
    """Return what each virtual cluster is guaranteed at that instant."""
    own, loans, at = own_guarantees(), loans_not_ended(now), now.timestamp()
    return MarketState(own=own, loans=loans, in_force=in_force(own, loans, at), at=at)


def own_guarantees() -> Guarantees:
    """Return what virtual clusters are guaranteed themselves, lent or not."""
    gpus: dict[str, dict[str, int]] = defaultdict(dict)
    for name, model, count in Guarantee.objects.values_list("virtual_cluster__name", "gpu_model", "gpus"):
        gpus[name][model] = count
    specification = cells_in_force().layout.specification
    return Guarantees(gpus=gpus, cells=specification if specification.physical else None)


def loans_not_ended(now: datetime) -> tuple[core.Loan, ...]:
    """Return the loans that are in force, or will be."""
    rows = Loan.objects.alias(end=OVER_AT).filter(end__gt=now).order_by("id")
    columns = (
        "id", "offer__lender__name", "borrower__name", "offer__lot", "offer__in_return", "offer__rule_id",
        "starts_at",
    )  # fmt: skip
    return tuple(
        core.Loan(
            id=core.LoanId(number),
            lender=lender,
            borrower=borrower,
            lot=lot_of(lot),
            in_return=None if in_return is None else lot_of(in_return),
            rule=None if rule is None else core.RuleId(rule),
            starts_at=starts_at.timestamp(),
            ends_at=over_at.timestamp(),
        )
        for number, lender, borrower, lot, in_return, rule, starts_at, over_at in rows.values_list(
            *columns, OVER_AT
        )
    )


def problems_with_loans(before: Guarantees, after: Guarantees, now: datetime) -> list[Problem]:
    """Return which loans could not be kept any more with other guarantees of their own."""
    loans, instant = loans_not_ended(now), now.timestamp()
    if not loans:
        return []
    known = problems_with_change(before, loans, instant)
    return [problem for problem in problems_with_change(after, loans, instant) if problem not in known]


def lot_of(document: Mapping[str, Mapping[str, int]]) -> core.Lot:
    """Return the lot that a row has as JSON."""
    return core.Lot(gpus=document.get("gpus", {}), cells=document.get("cells", {}))


def virtual_clusters_of(viewer: Viewer) -> QuerySet[VirtualCluster]:
    """Return those of which the viewer's tenants are members; all for operators."""
    if viewer.is_operator:
        return VirtualCluster.objects.all()
    return VirtualCluster.objects.filter(members__tenant__in=list(viewer.roles)).distinct()


def acts_for(viewer: Viewer) -> QuerySet[VirtualCluster]:
    """Return those for which the viewer may offer, take and set rules.

    These are the virtual clusters whose only member is a tenant that the viewer administers: with several
    members, none may give away what belongs to the others too. Operators may act for all.
    """
    if viewer.is_operator:
        return VirtualCluster.objects.all()
    led = [tenant for tenant, role in viewer.roles.items() if RANK[role] >= RANK[Role.ADMIN]]
    counted = VirtualCluster.objects.annotate(
        member_count=Count("members"), led_count=Count("members", filter=Q(members__tenant__in=led))
    )
    return counted.filter(member_count=1, led_count=1)


def require_owner(by: Viewer, virtual_cluster: VirtualCluster) -> None:
    """Raise NotAllowed unless the viewer may act for the virtual cluster."""
    if by.is_operator or acts_for(by).filter(id=virtual_cluster.id).exists():
        return
    members = list(virtual_cluster.members.values_list("tenant__name", flat=True))
    if len(members) == 1:
        # A stranger does not learn whose it is.
        tenant = f"tenant {members[0]}" if members[0] in by.tenant_names else "its tenant"
        whose = f"admins of {tenant}, and operators, act"
    else:
        whose = f"operators act: it has {len(members) or 'no'} members"
    raise NotAllowed(f"In the market, for virtual cluster {virtual_cluster.name} only {whose}.")


def offer_get(offer_id: int) -> Offer:
    found = Offer.objects.select_related("lender").filter(id=offer_id).first()
    if found is None:
        raise NotFound(f"There is no offer {offer_id}.")
    return found


def loan_get(loan_id: int) -> Loan:
    found = Loan.objects.filter(id=loan_id).first()
    if found is None:
        raise NotFound(f"There is no loan {loan_id}.")
    return found
