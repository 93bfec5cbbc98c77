"""The next round decided ahead of time, with something changed: a job that is not submitted yet, another
division by cells, or a part of a guarantee lent away."""

from collections import defaultdict
from dataclasses import replace
from typing import Any

from django.db.models import Max

from scheduler.core.cells.chains import Layout
from scheduler.core.cells.compiling import compiled
from scheduler.core.lending.in_force import Guarantees, in_force
from scheduler.core.lending.lots import words_of
from scheduler.core.model import snapshot as core
from scheduler.core.model.loan_terms import Loan, LoanId, Lot
from scheduler.core.model.plan import ActionKind, Plan, Reason
from scheduler.core.model.snapshot import JobId, Snapshot
from scheduler.core.round.decide import decide
from scheduler.core.round.guarantees.reliance import owned, relying_on
from scheduler.jobspec import JobSpec
from scheduler.models.jobs import Job
from scheduler.models.rounds import Leadership
from scheduler.rounds.circuit_breaker import with_breakers_open
from scheduler.rounds.fixed_ports import with_ports_named
from scheduler.rounds.snapshot import read_for_round
from scheduler.rounds.submitted import submitted_now
from scheduler.virtual_clusters.market.selectors import market_now
from scheduler.wiring.clock import database_now
from scheduler.wiring.watchdog import within_budget
from tenants.errors import Conflict, FieldError
from tenants.models import VirtualCluster

#: The most jobs that are listed: those that lose a guarantee by a division, or use a lot to be lent.
MOST_JOBS = 20
_MOST_NAMED = 10


def preview(job: core.Job, spec: JobSpec) -> tuple[Reason, ...]:
    """Decide on the present facts with the job of a specification added; return why it would wait, empty
    if it would start."""
    facts = _facts()
    # The id it would get, or a later one: at equal priority and time, the smaller id comes first.
    job_id = core.JobId((Job.objects.aggregate(newest=Max("id"))["newest"] or 0) + 1)
    added = replace(submitted_now(job, spec, facts), id=job_id)
    plan = _decided(replace(facts, jobs=(*facts.jobs, added)))
    starts = any(action.kind is ActionKind.START and job_id in action.jobs for action in plan.actions)
    reasons = plan.reasons.get(job_id, ())
    ports = tuple([port for port in spec.ports.values() if port is not None])
    if reasons and ports:
        reasons = with_ports_named({job_id: reasons}, [job_id], {job_id: tuple(ports)})[job_id]
    return () if starts and not reasons else reasons


def _facts() -> Snapshot:
    """Return the facts that the next round reads, with a cheap policy wherever one decides now."""
    newest = Leadership.objects.values_list("number", flat=True).first() or 0
    return with_breakers_open(read_for_round(newest + 1).facts)


def _decided(facts: Snapshot) -> Plan:
    return within_budget(lambda timekeeper, overran: decide(facts, overran=overran, timekeeper=timekeeper))


def effects_of(layout: Layout) -> list[dict[str, Any]]:
    """Return by virtual cluster how many of its guaranteed jobs would lose their guarantee, and which."""
    return effects(_facts(), layout)


def effects(facts: Snapshot, layout: Layout) -> list[dict[str, Any]]:
    """Return the same for the facts of any instant."""
    running: dict[str, list[JobId]] = defaultdict(list)
    home = {job.id: job.virtual_cluster for job in facts.jobs}
    divided = layout.gpu_models | (compiled(facts.cells).gpu_models if facts.cells else frozenset())
    for held in facts.running:
        if held.guaranteed and not held.stopping and held.gpu_model in divided and held.jobs[0] in home:
            running[home[held.jobs[0]]] += held.jobs
    guaranteed = {held.allocation for held in facts.running if held.guaranteed}
    lapsing: dict[str, list[JobId]] = defaultdict(list)
    for action in _decided(_with(facts, layout)).actions:
        if action.kind in (ActionKind.REGRADE, ActionKind.STOP) and (
            action.allocation in guaranteed and not action.guaranteed
        ):
            lapsing[action.virtual_cluster] += action.jobs
    return [
        {
            "virtual_cluster": name,
            "running": len(running[name]),
            "lapsing": len(lapsing[name]),
            "jobs": sorted(lapsing[name])[:MOST_JOBS],
        }
        for name in sorted({*running, *lapsing})
    ]


def _with(facts: Snapshot, layout: Layout) -> Snapshot:
    """Return the facts as they would be with this specification; loans stay."""
    before = owned(facts)
    clusters = []
    for vc in before.virtual_clusters:
        by_count = {model: n for model, n in vc.guaranteed.items() if model not in layout.gpu_models}
        clusters.append(replace(vc, guaranteed={**by_count, **layout.guaranteed(vc.name)}))
    cells = layout.specification if layout.chains else None
    after = replace(before, cells=cells, virtual_clusters=tuple(clusters))
    return after if facts.lending is None else relying_on(after, facts.lending)


def require_unused(lender: VirtualCluster, lot: Lot) -> None:
    """Raise Conflict naming the jobs that would lose their guarantee if the lot left now."""
    facts = _facts()
    market, now = market_now(database_now()), facts.now
    gone = Loan(id=LoanId(0), lender=lender.name, borrower="", lot=lot, starts_at=now, ends_at=now + 1)
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
    raise Conflict(f"Guaranteed jobs of {lender.name} use {words_of(lot)}: {named}{more}.", [problem])


def lapsing(facts: Snapshot, guarantees: Guarantees, virtual_cluster: str) -> list[JobId]:
    """Return a virtual cluster's jobs whose guarantee would lapse with these guarantees in force."""
    clusters = [replace(vc, guaranteed=guarantees.gpus.get(vc.name, {})) for vc in facts.virtual_clusters]
    after = replace(facts, cells=guarantees.cells, virtual_clusters=tuple(clusters))
    return sorted(
        job
        for action in _decided(after).actions
        if action.kind is ActionKind.REGRADE
        and not action.guaranteed
        and action.virtual_cluster == virtual_cluster
        for job in action.jobs
    )
