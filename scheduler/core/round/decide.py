"""The product in one pure function: the facts of an instant in, a plan and reasons out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from scheduler.core.building_blocks.computing import Compute, Timekeeper, run_inline, untimed
from scheduler.core.model.plan import Plan
from scheduler.core.model.snapshot import JobId, Snapshot
from scheduler.core.round.checks.plan import check
from scheduler.core.round.engine import RoundEngine
from scheduler.core.round.explain import explain
from scheduler.core.round.gc_paused import gc_paused
from scheduler.core.round.run_view import queue_of


@gc_paused()
def decide(
    snapshot: Snapshot,
    compute: Compute = run_inline,
    overran: Mapping[str, str] | None = None,
    timekeeper: Timekeeper = untimed,
) -> Plan:
    """Return this round's plan: admit, reserve, allocate, place, diff, explain, check.

    Equal snapshots give equal plans, unless `compute` finds that a policy takes too long: to repeat such a
    decision, pass the views that `overran` with their reasons. A policy or placer that fails degrades only
    its own view; the caller can end one that does not return by `timekeeper`. A plan that breaks an invariant
    raises PlanError, and nothing of the round may be carried out.
    """
    return decided_by(RoundEngine(snapshot, compute, overran, timekeeper=timekeeper), snapshot)[0]


def decided_by(engine: RoundEngine, snapshot: Snapshot) -> tuple[Plan, float]:
    """Return the next plan of an engine with the facts of the snapshot, and until which instant it stands."""
    outcomes = engine.outcomes()
    plan = engine.plan(outcomes)
    served = [*engine.without_gpus, *outcomes]
    queues: dict[str, tuple[JobId, ...]] = {}
    for outcome in outcomes:
        queues[outcome.view.name] = queue_of(outcome)
    for outcome in engine.without_gpus:
        # Jobs without GPUs come last, because they are placed on what others leave.
        queues[outcome.view.name] = queues.get(outcome.view.name, ()) + queue_of(outcome)
    plan = replace(
        plan,
        reasons=explain(engine.facts, engine.admission, served, plan.actions),
        queues=queues,
    )
    check(snapshot, plan)
    return plan, engine.stands_until(outcomes, plan)
