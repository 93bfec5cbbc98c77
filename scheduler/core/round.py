"""The product in one pure function: the facts of an instant in, a plan and reasons out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from scheduler.core.check import check
from scheduler.core.collection import put_off
from scheduler.core.computing import Compute, here
from scheduler.core.explain import explain
from scheduler.core.plan import Plan
from scheduler.core.queues import queue_of
from scheduler.core.session import Session
from scheduler.core.snapshot import Snapshot


@put_off()
def decide(snapshot: Snapshot, compute: Compute = here, overran: Mapping[str, str] | None = None) -> Plan:
    """Return this round's plan: admit, reserve, allocate, place, diff, explain, check.

    Equal snapshots give equal plans, unless `compute` finds that a policy takes too long: to decide again
    as it was decided then, tell the views that `overran`, with what was said of them. A policy or placer
    that fails degrades its own view only; a plan that breaks an invariant raises PlanError, and nothing of
    the round may be carried out.
    """
    session = Session(snapshot, compute, overran)
    outcomes = session.outcomes()
    plan = session.plan(outcomes)
    plan = replace(
        plan,
        reasons=explain(session.facts, session.admission, outcomes, plan.actions),
        queues={outcome.view.name: queue_of(outcome) for outcome in outcomes},
    )
    check(snapshot, plan)
    return plan
