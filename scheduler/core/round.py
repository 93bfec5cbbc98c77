"""The product in one pure function: the facts of an instant in, a plan and reasons out."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.core.admit import admit
from scheduler.core.capacity import Capacity
from scheduler.core.check import check
from scheduler.core.diff import diff
from scheduler.core.explain import explain
from scheduler.core.facts import Facts
from scheduler.core.plan import Plan
from scheduler.core.reserve import Reservation, survey
from scheduler.core.serve import Plugins, Served, serve
from scheduler.core.snapshot import JobId, Snapshot


def decide(snapshot: Snapshot) -> Plan:
    """Return this round's plan: admit, reserve, allocate, place, diff, explain, check.

    Equal snapshots give equal plans. A policy or placer that fails degrades its own view only; a plan that
    breaks an invariant raises PlanError, and nothing of the round may be carried out.
    """
    facts = Facts(snapshot)
    admission = admit(facts)
    outcomes = serve_views(facts, Reservation(facts, admission), survey(facts, admission))
    actions = diff(facts, admission, outcomes)
    plan = Plan(
        round_number=snapshot.round_number,
        actions=actions,
        reasons=explain(facts, admission, outcomes, actions),
        queues={outcome.view.name: _queue(outcome) for outcome in outcomes},
        memory={
            outcome.view.name: outcome.decision.memory for outcome in outcomes if outcome.decision.memory
        },
        wake_at=min(
            [outcome.decision.wake_at for outcome in outcomes if outcome.decision.wake_at is not None],
            default=None,
        ),
        degraded={outcome.view.name: outcome.failure for outcome in outcomes if outcome.failure},
    )
    check(snapshot, plan)
    return plan


def serve_views(facts: Facts, reservation: Reservation, cluster: Capacity) -> Sequence[Served]:
    """Serve the guaranteed views one after another, then the spare view; each leaves the rest to the next."""
    snapshot = facts.snapshot
    outcomes = []
    for vc in reservation.order():
        view = reservation.guaranteed(vc, cluster)
        plugins = Plugins(policy=vc.policy, policy_parameters=vc.policy_parameters, placer=vc.placer)
        outcome = serve(view, plugins, snapshot.memory.get(view.name, {}))
        outcomes.append(outcome)
        cluster = outcome.capacity
    view = reservation.spare(cluster)
    plugins = Plugins(policy=snapshot.spare_policy, policy_parameters={}, placer=snapshot.spare_placer)
    outcomes.append(serve(view, plugins, snapshot.memory.get(view.name, {})))
    return outcomes


def _queue(outcome: Served) -> tuple[JobId, ...]:
    """Return the view's waiting jobs in the order in which they will be considered."""
    placed = {job for position in outcome.placements for job in outcome.decision.grants[position].jobs}
    named = [job for job in outcome.decision.queue if job not in placed]
    rest = {job.id: job for job in outcome.view.jobs.values() if job.id not in placed}
    for job in named:
        rest.pop(job, None)
    others = sorted(rest.values(), key=lambda job: (-job.priority, job.submitted_at, job.id))
    return (*named, *(job.id for job in others))
