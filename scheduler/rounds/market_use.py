"""Whether what somebody wants to lend from now on is in use: the next round, decided as if it were gone."""

from dataclasses import replace

from scheduler.clock import database_now
from scheduler.core.lending.in_force import Guarantees, in_force
from scheduler.core.lending.lots import words_of
from scheduler.core.model import loan_terms as core
from scheduler.core.model.plan import ActionKind
from scheduler.core.model.snapshot import JobId, Snapshot
from scheduler.core.round.decide import decide
from scheduler.market.selectors import market_now
from scheduler.rounds.circuit_breaker import with_breakers_open
from scheduler.rounds.models import Leadership
from scheduler.rounds.snapshot import read_snapshot
from tenants.errors import Conflict, FieldError
from tenants.models import VirtualCluster

_MOST_NAMED = 10


def require_unused(lender: VirtualCluster, lot: core.Lot) -> None:
    """Raise Conflict naming the jobs that would lose their guarantee if the lot left now."""
    newest = Leadership.objects.values_list("number", flat=True).first() or 0
    facts = with_breakers_open(read_snapshot(newest + 1))
    market, now = market_now(database_now()), facts.now
    gone = core.Loan(
        id=core.LoanId(0), lender=lender.name, borrower="", lot=lot, starts_at=now, ends_at=now + 1
    )
    jobs = lapsing(facts, in_force(market.own, [*market.loans, gone], now), lender.name)
    if not jobs:
        return
    named = ", ".join(f"job {job}" for job in jobs[:_MOST_NAMED])
    more = f" and {len(jobs) - _MOST_NAMED} more" if len(jobs) > _MOST_NAMED else ""
    problem = FieldError(
        "lot",
        f"is in use by guaranteed jobs: {named}{more}",
        "less of it, or a starts_at by which they have ended; they would run on as opportunistic ones",
    )
    raise Conflict(f"{words_of(lot)} of {lender.name} are in use by {named}{more}.", [problem])


def lapsing(facts: Snapshot, guarantees: Guarantees, virtual_cluster: str) -> list[JobId]:
    """Return a virtual cluster's jobs whose guarantee would lapse with these guarantees in force."""
    clusters = [replace(vc, guaranteed=guarantees.gpus.get(vc.name, {})) for vc in facts.virtual_clusters]
    after = replace(facts, cells=guarantees.cells, virtual_clusters=tuple(clusters))
    return sorted(
        job
        for action in decide(after).actions
        if action.kind is ActionKind.REGRADE
        and not action.guaranteed
        and action.virtual_cluster == virtual_cluster
        for job in action.jobs
    )
